"""Puts load on a target: wrk for many requests, a client of our own for a stream's first byte. Driver; what came back
wrong is an error here, never a figure.
"""

import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson
from bench.gateway.figures import STREAM_CHUNKS, Case, Sample
from bench.gateway.processes import BenchError, Cores, cpu_s
from bench.gateway.targets import Target

PATH = "/v1/chat/completions"
REPLY_S = 20
QUESTION = "What does a gateway in front of a language model do, and why would somebody run one on a machine at home? "
_SEVERAL_TIMES = 3
WORDS = {True: (b'"word', STREAM_CHUNKS), False: (b"what the mock says", 1)}
"""What a reply of the mock holds, and how often; True: a stream."""


def body(*, stream: bool) -> bytes:
    """A request of about 450 bytes, as a chat client sends it."""
    messages = [
        {"role": "system", "content": "You answer in two sentences."},
        {"role": "user", "content": QUESTION * _SEVERAL_TIMES},
    ]
    asked = {"model": "mock-model", "messages": messages, "max_tokens": 64, "temperature": 0.2}
    return orjson.dumps(asked | {"stream": True} if stream else asked)


@dataclass(frozen=True)
class Wrk:
    """wrk, with one thread.

    Attributes:
        folder: holds the bodies, written by `prepare`.
    """

    path: str
    folder: Path
    cores: Cores

    def prepare(self) -> None:
        for stream in (False, True):
            self._body_file(stream).write_bytes(body(stream=stream))

    def run(self, case: Case, target: Target, seconds: float) -> Sample:
        """One run.

        Raises:
            BenchError: a reply was no 2xx, too short or late, or a connection failed.
        """
        whole_bytes = len(whole_reply(target, stream=case.stream))
        before_s = cpu_s(target.gateway.pid) if target.gateway else 0.0
        told = self._told(self._argv(case, target, seconds), seconds)
        after_s = cpu_s(target.gateway.pid) if target.gateway else 0.0
        problems = {name: told[name] for name in ("bad_status", "socket_errors", "timeouts") if told[name]}
        if told["requests"] == 0:
            problems["requests"] = 0
        # wrk takes a stream that ended early for a reply like any other. Framing may differ a little, so not by a byte.
        elif told["bytes"] < 0.9 * whole_bytes * told["requests"]:
            problems["bytes_a_reply"] = round(told["bytes"] / told["requests"])
        if problems:
            raise BenchError(f"{case.name} through {target.name} went wrong: {problems} of {told['requests']} requests")
        cpu_ms = (after_s - before_s) / told["requests"] * 1000 if target.gateway else None
        return Sample(int(told["requests"]), told["seconds"], told["p50_ms"], told["p99_ms"], cpu_ms)

    def _argv(self, case: Case, target: Target, seconds: float) -> list[str]:
        script = str(Path(__file__).parent / "chat.lua")
        # wrk knows whole seconds only; what is over is cut off with SIGINT, at which it reports as always.
        argv = [self.path, "-t1", f"-c{case.connections}", f"-d{int(seconds) + 1}s", "-s", script, target.url + PATH]
        return [*argv, "--", str(self._body_file(case.stream)), target.key]

    def _told(self, argv: list[str], seconds: float) -> dict[str, float]:
        with (
            self.cores.load(),
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0) as wrk,
        ):
            try:
                try:
                    output, _ = wrk.communicate(timeout=seconds)
                except subprocess.TimeoutExpired:
                    wrk.send_signal(signal.SIGINT)
                    output, _ = wrk.communicate(timeout=REPLY_S)
            except subprocess.TimeoutExpired as error:
                raise BenchError(f"wrk does not end: {' '.join(argv)}") from error
            finally:
                wrk.kill()
        last = output.rstrip().rpartition(b"\n")[2]
        try:
            told: dict[str, float] = orjson.loads(last)
        except orjson.JSONDecodeError as error:
            raise BenchError(f"wrk did not report: {output.decode(errors='replace')[-2000:]}") from error
        return told

    def _body_file(self, stream: bool) -> Path:
        return self.folder / ("stream.json" if stream else "plain.json")


class Client:
    """One connection to a target, one request at a time."""

    def __init__(self, target: Target, *, stream: bool) -> None:
        place = urlsplit(target.url)
        self._name = target.name
        self._stream = stream
        try:
            self._socket = socket.create_connection((place.hostname, place.port), timeout=REPLY_S)
        except OSError as error:
            raise BenchError(f"{self._name} at {target.url} takes no connection: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = body(stream=stream)
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {target.key}\r\nContent-Length: {len(asked)}\r\n\r\n"
        )
        self._request = head.encode() + asked

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self) -> tuple[bytes, float]:
        """Send the request and read the reply to its end.

        Returns:
            All of its bytes, and the seconds until `data:`, or the `{` of a plain reply, has come.

        Raises:
            BenchError: it is not the reply that the mock gives.
        """
        try:
            received, first_s = self._exchange()
        except OSError as error:
            raise BenchError(f"{self._name} broke off: {error}") from error
        words, count = WORDS[self._stream]
        is_right = received.startswith(b"HTTP/1.1 200 ") and received.count(words) == count
        if not is_right or not self._is_whole(received):
            raise BenchError(f"{self._name} does not give the mock's reply: {received[:1000]!r}")
        return received, first_s

    def _exchange(self) -> tuple[bytes, float]:
        began_s = time.perf_counter()
        self._socket.sendall(self._request)
        received, first_s = b"", 0.0
        while not self._is_whole(received):
            data = self._socket.recv(65_536)
            if not data:
                break
            received += data
            if not first_s and (b"data:" if self._stream else b"{") in received:
                first_s = time.perf_counter() - began_s
        return received, first_s

    def _is_whole(self, received: bytes) -> bool:
        if self._stream:
            return received.endswith(b"0\r\n\r\n") and b"data: [DONE]" in received
        head, _, rest = received.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if not lengths:
            return rest.endswith(b"\r\n0\r\n\r\n")
        return len(rest) >= int(lengths[0].partition(b":")[2])


def whole_reply(target: Target, *, stream: bool) -> bytes:
    """One reply, asked on a connection of its own."""
    with Client(target, stream=stream) as client:
        return client.ask()[0]
