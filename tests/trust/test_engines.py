"""The operator's own engine (`backend = "command"`): it is started and served through, and told as down when it is."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from json_lines import JsonLines
from rogue_process import RogueProcess
from wire_client import Call, poll

SERVER = """
import http.server, json, os, sys
started = sys.argv[2]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, status, body):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
    def do_GET(self):
        if self.path == "/health":
            self.reply(200, {"status": "ok"})
        elif self.headers.get("Authorization") != "Bearer " + os.environ["LLAMA_API_KEY"]:
            self.reply(401, {"error": {"message": "who are you"}})
        elif not os.path.exists(started):
            open(started, "w").close()
            self.reply(503, {"error": {"message": "not just yet"}})
        else:
            self.reply(200, {"object": "list", "data": [{"id": "own-model", "object": "model", "owned_by": "me"}]})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "from the command"}
        self.reply(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

Starter = Callable[..., "CommandGateway"]
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}


class CommandGateway(JsonLines):
    """`lumbre up` with an engine of a test's choice."""

    def __init__(self, folder: Path, command: list[str], **limits: float) -> None:
        config = folder / "lumbre.toml"
        lines = ["[tier_a]", 'backend = "command"', f"command = {json.dumps(command)}", "[limits]"]
        config.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in limits.items())]) + "\n")
        argv = [sys.executable, "-m", "lumbre.cli.main", "up", "--config", str(config), "--json", "--port", "0"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LUMBRE_", "XDG_"))}
        environ = {**kept, "HOME": str(folder), "LANG": "C.UTF-8"}
        super().__init__([*argv, "--state-dir", str(folder / "state")], folder / "gateway.log", environ)
        self.url = self.wait_for("listening")["url"]

    def tier_a(self) -> dict[str, Any]:
        with Call(f"{self.url}/readyz") as call:
            part: dict[str, Any] = call.json()["tiers"]["A"]
            return part


@pytest.fixture
def start(tmp_path: Path, rogue: RogueProcess) -> Iterator[Starter]:
    """Starts gateways that live as long as the test."""
    del rogue  # its room looks after it
    with ExitStack() as opened:
        yield lambda *command, **limits: opened.enter_context(CommandGateway(tmp_path, list(command), **limits))


def test_a_command_is_served_through_even_if_it_lists_its_models_late(start: Starter, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    gateway = start(sys.executable, str(server), "{port}", str(tmp_path / "asked-once"))
    gateway.wait_for("ready")
    with Call(f"{gateway.url}/v1/chat/completions", {**ASK, "model": "own-model"}) as call:
        assert call.status == 200
        assert call.header("x-lumbre-node") == "command"
        assert call.json()["choices"][0]["message"]["content"] == "from the command"


def test_an_engine_that_does_not_stay_up_is_down_and_says_why(start: Starter) -> None:
    """Requests are turned away at once, listings are not held up, and nobody is told that a model does not exist."""
    gateway = start("/bin/sh", "-c", "echo 'no such device' >&2; exit 3 # {port}", wait_s=30)
    poll(lambda: gateway.tier_a()["state"] == "down", what="it is not told as down")
    assert "no such device" in str(gateway.tier_a()["reasons"])
    for model in ("auto", "some-model"):
        with Call(f"{gateway.url}/v1/chat/completions", {**ASK, "model": model}, deadline_s=5) as call:
            assert (call.status, call.error()["code"]) == (503, "no_tier")
            assert call.header("retry-after")
    with Call(f"{gateway.url}/v1/models", deadline_s=5) as call:
        assert [model["id"] for model in call.json()["data"]] == ["auto"]


def test_who_waits_for_an_engine_that_goes_down_is_told_then_and_not_later(start: Starter) -> None:
    gateway = start("/bin/false", "{port}", wait_s=60)
    with Call(f"{gateway.url}/v1/chat/completions", ASK, deadline_s=20) as call:
        assert (call.status, call.error()["code"]) == (503, "no_tier")
