"""The gateway as a real process with settings of a test's choice, and questions to it. Used by the tests."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from json_lines import JsonLines
from wire_client import Call

Sections = Mapping[str, Mapping[str, Any]]

METRIC = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')


def write_config(path: Path, upstreams: Mapping[str, str], slots: int, sections: Sections) -> Path:
    """Write a `lumbre.toml` whose tier A is the given upstreams, by id and address."""
    lines = ["[tier_a]", *_values({"backend": "openai", **sections.get("tier_a", {})})]
    for upstream_id, url in upstreams.items():
        lines += [
            "[[tier_a.upstreams]]",
            f'id = "{upstream_id}"',
            f'base_url = "{url}/v1"',
            f"slots = {slots}",
        ]
    for name, values in sections.items():
        if name != "tier_a":
            lines += [f"[{name}]", *_values(values)]
    path.write_text("\n".join(lines) + "\n")
    return path


def _values(values: Mapping[str, Any]) -> list[str]:
    # Numbers, strings, booleans and arrays of them are spelled alike in JSON and TOML.
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]


class GatewayProcess(JsonLines):
    """`lumbre up --json` in front of some upstreams, on a free port, its state folder and HOME its own."""

    def __init__(
        self,
        folder: Path,
        upstreams: Mapping[str, str],
        *,
        slots: int = 64,
        sections: Sections | None = None,
        arguments: tuple[str, ...] = (),
        state_dir: Path | None = None,
        toml: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.state_dir = state_dir or folder / "state"
        config = write_config(folder / "lumbre.toml", upstreams, slots, sections or {})
        with config.open("a") as file:
            file.write(toml)
        argv = [sys.executable, "-m", "lumbre.cli.main", "up", "--config", str(config)]
        argv += ["--state-dir", str(self.state_dir), "--port", "0", "--json", *arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LUMBRE_", "XDG_"))}
        kept |= {"HOME": str(folder), "LANG": "C.UTF-8", **(environ or {})}
        super().__init__(argv, folder / "gateway.log", kept)
        self.url = ""

    def listening(self) -> "GatewayProcess":
        """Wait until it answers HTTP."""
        self.url = self.wait_for("listening")["url"]
        return self

    def ready(self) -> "GatewayProcess":
        """Wait until tier A can serve."""
        self.listening()
        self.wait_for("ready")
        return self

    def chat(self, body: Mapping[str, Any] | None = None, **more: Any) -> Call:
        """Send a chat request; `rogue` in the body tells the upstream how to behave."""
        asked = {"model": "rogue", "messages": [{"role": "user", "content": "hello"}], **(body or {})}
        return Call(f"{self.url}/v1/chat/completions", asked, **more)

    def get(self, path: str, **more: Any) -> Call:
        return Call(f"{self.url}{path}", **more)

    def tier_a(self) -> dict[str, Any]:
        """Tier A's part of /readyz."""
        with self.get("/readyz") as call:
            part: dict[str, Any] = call.json()["tiers"]["A"]
            return part

    def ledger(self, decision: str | None) -> list[dict[str, Any]]:
        """What the ledger has of a decision."""
        with self.get(f"/v1/ledger?decision={decision}") as call:
            records: list[dict[str, Any]] = call.json()["records"]
            return records

    def busy(self) -> tuple[int, int]:
        """Requests in flight on all upstreams, and requests that wait for a slot."""
        part = self.tier_a()
        return sum(upstream["in_flight"] for upstream in part["upstreams"]), part["waiting"]

    def metric(self, name: str, **labels: str) -> float:
        """The sum over a metric's samples that have these labels; 0 when there is none."""
        with self.get("/metrics") as call:
            text = call.read().decode()
        total = 0.0
        for sample in METRIC.finditer(text):
            told = dict(LABEL.findall(sample["labels"] or ""))
            if sample["name"] == name and told.items() >= labels.items():
                total += float(sample["value"])
        return total

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


Opener = Callable[..., GatewayProcess]
"""Opens a gateway; a fixture that hands one out ends what it opened."""
