"""An HTTP client that hides nothing: bytes as they arrive, true endings, sudden departures. For the tests."""

import contextlib
import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

DEADLINE_S = 20.0


class Call:
    """One request on a connection of its own; the reply is read as far as a test wants."""

    def __init__(
        self,
        url: str,
        body: bytes | str | dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "",
        deadline_s: float = DEADLINE_S,
    ) -> None:
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=deadline_s)
        self._response: http.client.HTTPResponse | None = None
        payload = json.dumps(body) if isinstance(body, dict) else body
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        told = {"Content-Type": "application/json"} if payload is not None else {}
        verb = method or ("GET" if payload is None else "POST")
        # A server may answer before it took the body in, and close: the answer can still be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.request(verb, target, payload, {**told, **(headers or {})})

    def __enter__(self) -> "Call":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    @property
    def response(self) -> http.client.HTTPResponse:
        if self._response is None:
            self._response = self.connection.getresponse()
        return self._response

    @property
    def status(self) -> int:
        return self.response.status

    def header(self, name: str) -> str | None:
        return self.response.getheader(name)

    @property
    def content_type(self) -> str:
        return (self.header("content-type") or "").partition(";")[0]

    def read(self) -> bytes:
        """Read the body to its proper end.

        Raises:
            http.client.IncompleteRead: it was cut off.
        """
        return self.response.read()

    def json(self) -> Any:
        return json.loads(self.read())

    def error(self) -> dict[str, Any]:
        """Read the error of the body, and see that it has OpenAI's shape."""
        return openai_error(self.json())

    def read_until(self, mark: bytes) -> bytes:
        """Read as the bytes arrive until `mark` has come, or the end."""
        taken = bytearray()
        while mark not in taken and (data := self.response.read1(65_536)):
            taken += data
        return bytes(taken)

    def events(self) -> Iterator[str]:
        """The stream's events without their empty line, comments among them, each as soon as it is whole."""
        rest = b""
        while data := self.response.read1(65_536):
            *whole, rest = (rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
            yield from (event.decode() for event in whole)
        assert not rest, f"the stream ended in the middle of an event: {rest!r}"

    def leave(self, reset: bool = False) -> None:
        """Close the connection, read to its end or not: with FIN, or with RST."""
        raw: socket.socket | None = self.connection.sock
        if reset and raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self._response is not None:
            self._response.close()
        self.connection.close()


def openai_error(body: Any) -> dict[str, Any]:
    """Take the error out of a body; it has every key of OpenAI's shape and tells nothing of our insides."""
    assert isinstance(body, dict), body
    assert isinstance(body.get("error"), dict), body
    error: dict[str, Any] = body["error"]
    assert error.keys() >= {"message", "type", "param", "code"}, error
    assert isinstance(error["message"], str), error
    assert error["message"], error
    for inside in ("Traceback", 'File "', ".py", "site-packages"):
        assert inside not in error["message"], error
    return error


def final_error(events: list[str]) -> dict[str, Any]:
    """Take the error event that a broken stream ends with; nothing forged stands beside it."""
    told = [event for event in events if not event.startswith(":")]
    assert "data: [DONE]" not in told, events
    last = told[-1].split("\n")[-1]
    return openai_error(json.loads(last.removeprefix("data:")))


def broken(call: Call) -> tuple[int, dict[str, Any]]:
    """Read a reply that went wrong: its status, and the error of its body or of its last event."""
    if call.content_type == "text/event-stream":
        return call.status, final_error(list(call.events()))
    return call.status, call.error()


def poll(is_true: Callable[[], bool], deadline_s: float = 10.0, what: str = "it did not come true") -> None:
    """Ask again and again until `is_true()`; for what no event tells."""
    until = time.monotonic() + deadline_s
    between = threading.Event()
    while not is_true():
        assert time.monotonic() < until, f"{what} within {deadline_s:g} s"
        between.wait(0.02)
