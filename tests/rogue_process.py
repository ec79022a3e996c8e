"""The misbehaving upstream as a real process, and what it tells a test. Used by the tests."""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from json_lines import JsonLines
from wire_client import Call


class RogueProcess(JsonLines):
    """`python -m lumbre.backends.fakes.rogue`, on a leash: it ends with the tests, whatever happens."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        argv = [sys.executable, "-m", "lumbre.backends.fakes.rogue", "--port", str(port), "--leash"]
        super().__init__(argv, folder / "rogue.log")
        self.url: str = self.wait_for("listening")["url"]
        self.port = int(self.url.rpartition(":")[2])

    def log(self) -> dict[str, Any]:
        return self._ask("GET", "log")

    def forget(self) -> None:
        self._ask("DELETE", "log")

    def sent(self, exchange_id: str) -> bytes:
        """The body bytes it handed to the network in one exchange."""
        with Call(f"{self.url}/rogue/sent?id={exchange_id}") as call:
            return call.read()

    def find(self, exchange_id: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.log()["requests"] if one["id"] == exchange_id)
        return found

    def wait(self, exchange_id: str, until: str, n: int = 1, timeout_s: float = 10) -> dict[str, Any]:
        """Wait until an exchange is started, held, sent, gone or ended; its record then."""
        return self._ask("GET", "wait", id=exchange_id, until=until, n=n, timeout_s=timeout_s)

    def reaches(self, exchange_id: str, sent_bytes: int, timeout_s: float) -> bool:
        """Whether it gets to send that much in that time."""
        query = urlencode({"id": exchange_id, "until": "sent", "n": sent_bytes, "timeout_s": timeout_s})
        with Call(f"{self.url}/rogue/wait?{query}", deadline_s=timeout_s + 10) as call:
            return call.status == 200

    def wait_running(self, count: int) -> None:
        """Wait until exactly `count` requests are being answered."""
        self._ask("GET", "wait", running=count)

    def wait_seen(self, count: int) -> None:
        self._ask("GET", "wait", seen=count)

    def release(self, exchange_id: str, steps: int = 1) -> None:
        """Let a held exchange go on for some steps, now or when it comes to them."""
        self._ask("POST", "release", id=exchange_id, steps=steps)

    def answer_models_with(self, status: int) -> None:
        """Answer /v1/models with this status from now on; 0: with silence."""
        self._ask("PUT", "models", status=status)

    def lay(self, path: str, document: object, status: int = 200) -> None:
        """Answer a path with this document from now on; status 0: as before."""
        query = urlencode({"path": path, "status": status})
        with Call(f"{self.url}/rogue/page?{query}", json.dumps(document), method="PUT") as call:
            assert call.status == 200, call.read()

    def _ask(self, method: str, what: str, **query: str | float) -> dict[str, Any]:
        with Call(f"{self.url}/rogue/{what}?{urlencode(query)}", method=method, deadline_s=40) as call:
            told: dict[str, Any] = json.loads(call.read())
            assert call.status == 200, f"{method} {what} {query}: {call.status} {told}"
            return told
