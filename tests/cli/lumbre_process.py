"""Runs the real `lumbre` for the tests of the cli, and a small gateway that answers it over loopback."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DEADLINE_S = 30

Answer = Callable[["Exchange"], None]


@dataclass
class Lumbre:
    """`lumbre` in an empty home and a folder of its own."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "lumbre.cli.main", *words]

    def variables(self, **more: str) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **self.environ, **more}

    def run(self, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=DEADLINE_S,
            cwd=self.home,
            env=self.variables(**more),
            check=False,
        )


@dataclass
class Exchange:
    """One request that came in, and the way to answer it."""

    handler: BaseHTTPRequestHandler
    body: Mapping[str, Any]

    def reply(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(value).encode()
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Content-Length", str(len(raw)))
        for name, text in (headers or {}).items():
            self.handler.send_header(name, text)
        self.handler.end_headers()
        self.handler.wfile.write(raw)

    def stream(self, *lines: str) -> None:
        """Start or go on with a stream; each line is sent at once, as a chunk of its own."""
        if not hasattr(self.handler, "streaming"):
            self.handler.streaming = True  # type: ignore[attr-defined]
            self.handler.send_response(200)
            self.handler.send_header("Content-Type", "text/event-stream")
            self.handler.send_header("Transfer-Encoding", "chunked")
            self.handler.end_headers()
        for line in lines:
            raw = f"{line}\n\n".encode()
            self.handler.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
            self.handler.wfile.flush()

    def end(self) -> None:
        self.handler.wfile.write(b"0\r\n\r\n")


@dataclass
class StubGateway:
    """What the stub was asked, in order: (path, headers, body)."""

    url: str
    asked: list[tuple[str, Mapping[str, str], Mapping[str, Any]]]


@contextmanager
def gateway(answers: Mapping[str, Answer]) -> Iterator[StubGateway]:
    """A server on a free port of loopback that answers each path by a function; other paths are 404."""
    asked: list[tuple[str, Mapping[str, str], Mapping[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve({})

        def do_POST(self) -> None:
            self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _serve(self, body: Mapping[str, Any]) -> None:
            self.close_connection = True
            asked.append((self.path, dict(self.headers.items()), body))
            exchange = Exchange(self, body)
            if self.path in answers:
                answers[self.path](exchange)
            else:
                exchange.reply({"error": {"message": "no such path", "code": "not_found"}}, 404)

        def log_message(self, *args: object) -> None:
            del args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield StubGateway(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE_S)


def delta(text: str, finish: str | None = None) -> str:
    """One event of a chat stream."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return "data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice]}, ensure_ascii=False)
