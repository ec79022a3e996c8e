"""A gateway with all three tiers before a rogue, and `lumbre` pointed at it. For the tests of the flow's commands."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumbre_process import Lumbre

from gateway_process import GatewayProcess
from rogue_process import RogueProcess
from wire_client import Call

NODES = """
[[tier_b.nodes]]
id = "gpu-1"
labels = ["express"]
base_url = "{url}/v1"
usd_per_hour = 0.71

[[tier_b.nodes]]
id = "gpu-2"
labels = ["batch"]
base_url = "{url}/v1"

[tier_c]
base_url = "{url}/v1"
model = "rogue-echo"
api_key_env = "OUTSIDE_KEY"
"""


@dataclass
class FlowShell:
    """`lumbre`, and the gateway that it asks."""

    lumbre: Lumbre
    gateway: GatewayProcess
    rogue: RogueProcess

    def post(self, path: str, body: Mapping[str, Any]) -> int:
        with Call(f"{self.gateway.url}{path}", dict(body)) as call:
            call.read()
            return call.status

    def chat(self, **hints: str) -> tuple[int, str]:
        """Ask the gateway for real: the status, and the decision's id."""
        with self.gateway.chat({"model": "auto", "lumbre": hints}) as call:
            call.read()
            return call.status, call.header("x-lumbre-decision") or ""

    def reset(self) -> None:
        """As it was at the start: every switch open, and the default policy."""
        with self.gateway.get("/v1/flow/switches") as call:
            closed = [each["name"] for each in call.json()["switches"] if each["state"] == "closed"]
        for name in closed:
            assert self.post(f"/v1/flow/switches/{name}", {"state": "open"}) == 200
        assert self.post("/v1/flow/policy", {"policy": "balanced"}) == 200
        self.rogue.forget()


@contextmanager
def flow_shell(folder: Path, state_dir: Path | None = None) -> Iterator[FlowShell]:
    """Open all of it in a folder; the state folder may have been there before."""
    with RogueProcess(folder) as rogue:
        toml, environ = NODES.format(url=rogue.url), {"OUTSIDE_KEY": "sk-outside"}
        upstreams = {"house": rogue.url}
        with GatewayProcess(folder / "gateway", upstreams, toml=toml, environ=environ, state_dir=state_dir) as gateway:
            gateway.ready()
            home = folder / "home"
            home.mkdir()
            variables = {"LUMBRE_URL": gateway.url, "LOGNAME": "maria", "LANG": "C.UTF-8"}
            yield FlowShell(Lumbre(home, variables), gateway, rogue)
