"""An HTTP/1.1 client made of bytes: it sends whatever a test wants, in the pieces that it wants, and reads reply after
reply from one connection. For the tests.
"""

import json
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped, unused-ignore]

from wire_client import openai_error

_HEADER_LINE = re.compile(r"[a-z0-9-]+: [^\r\n]*")


@dataclass(frozen=True)
class Told:
    """One reply.

    Attributes:
        headers: names in lower case; none stands twice.
        framing: how its body ended: `length`, `chunked`, `close`, or `none`.
    """

    version: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    framing: str

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(openai_error(self.json())["code"])


class RawHttp:
    """One connection."""

    def __init__(self, url: str, deadline_s: float = 10, receive_bytes: int | None = None) -> None:
        parts = urlsplit(url)
        self._socket = socket.socket()
        self._socket.settimeout(deadline_s)
        if receive_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.connect((parts.hostname, parts.port))
        self._heard = b""

    def __enter__(self) -> "RawHttp":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def port(self) -> int:
        """Of this end."""
        return int(self._socket.getsockname()[1])

    def send(self, *pieces: bytes) -> None:
        """Send pieces, each in a packet of its own."""
        for piece in pieces:
            self._socket.sendall(piece)

    def half_close(self) -> None:
        """Send nothing more, and go on reading."""
        self._socket.shutdown(socket.SHUT_WR)

    def leave(self, reset: bool = False) -> None:
        """Close it: with FIN, or with RST."""
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def read(self, method: str = "POST") -> Told:
        """Read one final reply to a request of this method; interim ones are read over."""
        version, status, headers = self._read_head()
        if status < 200:
            return self.read(method)
        if method == "HEAD" or status in (204, 304):
            return Told(version, status, headers, b"", "none")
        if "content-length" in headers:
            assert "transfer-encoding" not in headers
            return Told(version, status, headers, self._take(int(headers["content-length"])), "length")
        if "transfer-encoding" in headers:
            return Told(version, status, headers, self._read_chunks(), "chunked")
        return Told(version, status, headers, self.read_rest(), "close")

    def read_interim(self) -> int:
        """The status of an interim reply."""
        _, status, headers = self._read_head()
        assert status < 200
        assert not headers
        return status

    def read_last(self, method: str = "POST") -> Told:
        """Read a reply behind which the connection is closed, with nothing more in between."""
        told = self.read(method)
        assert self.read_rest() == b"", "something came behind the last reply"
        return told

    def read_rest(self) -> bytes:
        """Read until the other side closes."""
        data = bytearray(self._heard)
        self._heard = b""
        while more := self._socket.recv(65_536):
            data += more
        return bytes(data)

    def peek(self) -> bytes:
        """Wait until something has come, and leave it there."""
        return self._socket.recv(1, socket.MSG_PEEK)

    def read_some(self, size: int) -> None:
        """Read so many bytes, whatever they are."""
        self._take(size)

    def _read_head(self) -> tuple[str, int, dict[str, str]]:
        first, *lines = self._take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        headers: dict[str, str] = {}
        for line in lines:
            assert _HEADER_LINE.fullmatch(line), line
            name, _, value = line.partition(": ")
            assert name not in headers, line
            headers[name] = value
        return version, int(status), headers

    def _read_chunks(self) -> bytes:
        data = bytearray()
        while size := int(self._take_until(b"\r\n"), 16):
            data += self._take(size)
            assert self._take(2) == b"\r\n"
        assert self._take(2) == b"\r\n"
        return bytes(data)

    def _take_until(self, mark: bytes) -> bytes:
        while mark not in self._heard:
            self._heard += self._receive(1_048_576)
        taken, _, self._heard = self._heard.partition(mark)
        return taken

    def _take(self, size: int) -> bytes:
        data = bytearray(self._heard)
        while len(data) < size:
            data += self._receive(size - len(data))
        taken, self._heard = bytes(data[:size]), bytes(data[size:])
        return taken

    def _receive(self, size: int) -> bytes:
        more = self._socket.recv(size)
        assert more, "the connection was closed in the middle of a reply"
        return more


def post(body: bytes | Mapping[str, Any], path: str = "/v1/chat/completions", head: bytes = b"") -> bytes:
    """A POST with a Content-Length; `head` are further header lines, each with its CRLF."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % path.encode()
    return lines + head + b"Content-Length: %d\r\n\r\n" % len(raw) + raw


def post_chunked(body: bytes | Mapping[str, Any], *sizes: int, head: bytes = b"", trailers: bytes = b"") -> bytes:
    """A POST in chunks of these sizes and one of the rest; the first has an extension."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + head + b"\r\n"
    pieces = []
    for size in sizes:
        pieces.append(raw[:size])
        raw = raw[size:]
    chunks = [each for each in (*pieces, raw) if each]
    framed = [b"%x%b\r\n%b\r\n" % (len(each), b"" if at else b';a="b"', each) for at, each in enumerate(chunks)]
    return lines + b"".join(framed) + b"0\r\n" + trailers + b"\r\n"


def get(path: str = "/healthz", method: str = "GET", head: bytes = b"", version: str = "1.1") -> bytes:
    """A request without a body."""
    return f"{method} {path} HTTP/{version}\r\nHost: localhost\r\n".encode("latin-1") + head + b"\r\n"


def asked(**wish: Any) -> dict[str, Any]:
    """A chat request; the wish tells the rogue what to do."""
    return {"model": "rogue", "messages": [{"role": "user", "content": "hi"}], "rogue": wish}


def client_ports(url: str, pid: int) -> set[int]:
    """The clients' ends of the connections that a server has accepted and not closed."""
    mine = urlsplit(url).port
    connections = psutil.Process(pid).net_connections()
    return {getattr(each.raddr, "port", 0) for each in connections if each.laddr.port == mine} - {0}
