"""Measures what the house promises: `lumbre --help`, the time to ready, the added time to a stream's first byte.

    .venv/bin/python bench/house.py

Everything is measured in one run on this machine: each figure of the gateway stands beside the upstream's own, asked in
turns, so that what else the machine does hits both alike. It prints a table in Markdown.
"""

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = tuple[str, str, str, int]

HELP_RUNS = 20
READY_RUNS = 10
STREAMS = 400
BODY = json.dumps({"model": "rogue", "messages": [{"role": "user", "content": "hello"}], "stream": True}).encode()


def main() -> None:
    """Measure and print."""
    rows = [help_row()]
    rogue_argv = [sys.executable, "-m", "lumbre.backends.fakes.rogue", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder, Child(rogue_argv) as rogue:
        upstream = next(event["url"] for event in rogue.events() if "url" in event)
        rows.append(ready_row(Path(folder), upstream))
        with gateway(Path(folder), upstream) as running:
            url = next(event["url"] for event in running.events() if event["event"] == "ready")
            rows += first_byte_rows(upstream, url)
    print("| what | p50 | p99 | of |\n| --- | --- | --- | --- |")
    for name, p50, p99, count in rows:
        print(f"| {name} | {p50} | {p99} | {count} |")


class Child:
    """A process that tells of itself in JSON lines."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def events(self) -> Iterator[dict[str, Any]]:
        """Each line as it comes."""
        for line in self._process.stdout or ():
            yield json.loads(line)


def gateway(folder: Path, upstream: str) -> Child:
    config = folder / "lumbre.toml"
    config.write_text(f'[tier_a]\nbackend = "openai"\n[[tier_a.upstreams]]\nid = "rogue"\nbase_url = "{upstream}/v1"\n')
    state = folder / f"state-{time.monotonic_ns()}"
    argv = [sys.executable, "-m", "lumbre.cli.main", "up", "--config", str(config), "--state-dir", str(state)]
    return Child([*argv, "--port", "0", "--json"])


def help_row() -> Row:
    times = []
    for _ in range(HELP_RUNS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "lumbre.cli.main", "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return row("`lumbre --help`", times, "s", 1)


def ready_row(folder: Path, upstream: str) -> Row:
    times = []
    for _ in range(READY_RUNS):
        began = time.perf_counter()
        with gateway(folder, upstream) as running:
            next(event for event in running.events() if event["event"] == "ready")
            times.append(time.perf_counter() - began)
    return row("start of `lumbre up` to ready", times, "s", 1)


def first_byte_rows(upstream: str, url: str) -> list[Row]:
    direct, through = Stream(upstream), Stream(url)
    for _ in range(20):
        direct.first_byte()
        through.first_byte()
    pairs = [(direct.first_byte(), through.first_byte()) for _ in range(STREAMS)]
    added = [b - a for a, b in pairs]
    return [
        row("first byte of a stream, upstream alone", [a for a, _ in pairs], "ms", 1000),
        row("first byte of a stream, through the gateway", [b for _, b in pairs], "ms", 1000),
        row("added by the gateway", added, "ms", 1000),
    ]


class Stream:
    """A client on one connection."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY

    def first_byte(self) -> float:
        """Seconds from the request to the first byte of the first event; the rest is read and left."""
        began = time.perf_counter()
        self._socket.sendall(self._request)
        received = b""
        first = 0.0
        while b"[DONE]" not in received or not received.endswith(b"0\r\n\r\n"):
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError(f"the reply broke off: {received!r}")
            received += data
            if not first and b"data:" in received:
                first = time.perf_counter() - began
        return first


def row(name: str, values: list[float], unit: str, factor: float) -> Row:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return name, f"{statistics.median(values) * factor:.3f} {unit}", f"{p99 * factor:.3f} {unit}", len(values)


if __name__ == "__main__":
    main()
