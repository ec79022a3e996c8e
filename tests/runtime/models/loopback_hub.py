"""A model hub on loopback that serves one file as a test tells it to. The real client of the hub asks it."""

import hashlib
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Deed = Literal["good", "cut", "altered", "refuse", "hang"]

COMMIT = "c0ffee" + "0" * 34
WAIT_S = 60.0
RANGE = re.compile(r"bytes=(\d+)-")


@dataclass
class LoopbackHub:
    """One file of `org/repo`, what the hub does next when it is fetched (after that: `good`), what was asked."""

    url: str
    path: str = "quants/tiny.gguf"
    data: bytes = b""
    deeds: deque[Deed] = field(default_factory=deque)
    asked: list[str] = field(default_factory=list)
    """Method, path and range of each request."""
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By a part of the path: the status and the hub's own word for the failure."""
    hanging: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def ranges(self) -> list[str]:
        """The range of each GET, empty for the whole file."""
        return [line.split(" ", 2)[2] for line in self.asked if line.startswith("GET")]


class _Door(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._note()
        if not self._refused():
            self._begin(200, len(self.hub.data))

    def do_GET(self) -> None:
        self._note()
        if not self._refused():
            self._serve(self.hub.deeds.popleft() if self.hub.deeds else "good")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """A test's output is no place for an access log."""

    def _note(self) -> None:
        self.hub.asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}")

    def _refused(self) -> bool:
        for part, (status, word) in self.hub.refusals.items():
            if part in self.path:
                self._begin(status, 0, {"X-Error-Code": word})
                return True
        return False

    def _serve(self, deed: Deed) -> None:
        data = self.hub.data
        found = RANGE.match(self.headers.get("Range", ""))
        start = int(found[1]) if found else 0
        if deed == "refuse":
            self._begin(500, 0)
            return
        extra = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        self._begin(206 if start else 200, len(data) - start, extra)
        middle = (start + len(data)) // 2
        match deed:
            case "good":
                self.wfile.write(data[start:])
            case "altered":
                self.wfile.write(data[start:-1] + b"!")
            case "cut":
                self.wfile.write(data[start:middle])
                self.close_connection = True
            case "hang":
                self.wfile.write(data[start:middle])
                self.wfile.flush()
                self.hub.hanging.set()
                self.hub.go_on.wait(WAIT_S)
                self.close_connection = True

    def _begin(self, status: int, size_bytes: int, extra: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {"Content-Length": str(size_bytes), "ETag": f'"{self.hub.sha256}"', "X-Repo-Commit": COMMIT}
        for name, value in {**headers, **(extra or {})}.items():
            self.send_header(name, value)
        self.end_headers()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in mid-transfer is what some tests are about."""


@contextmanager
def running_hub(data: bytes) -> Iterator[LoopbackHub]:
    """A hub that serves until the end of the `with`."""

    class Door(_Door):
        pass

    with _Server(("127.0.0.1", 0), Door) as server:
        hub = LoopbackHub(f"http://127.0.0.1:{server.server_port}", data=data)
        Door.hub = hub
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield hub
        finally:
            hub.go_on.set()
            server.shutdown()
            thread.join()
