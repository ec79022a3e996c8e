"""HTTP/1.1 by hand over one TCP connection, so that each rule can be broken. Driven by `rogue.server`."""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

LONGEST_WAIT_S = 120.0
_STATUSES = frozenset(HTTPStatus)
"""Those that have a name; a vendor's 529 has none."""


class PeerGone(Exception):
    """The client closed its side."""


class OutOfPatience(Exception):
    """The longest wait passed and the client was still there."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


class Connection(asyncio.Protocol):
    """One client's connection: reads requests, writes bytes as told, knows when the client has gone."""

    def __init__(self, on_open: Callable[["Connection"], None], on_gone: Callable[[], None]) -> None:
        self.gone = asyncio.Event()
        self.number = 0
        self._on_open = on_open
        self._on_gone = on_gone
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()

    def eof_received(self) -> None:
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _leave(self) -> None:
        self.gone.set()
        self._arrived.set()
        self._writable.set()
        self._on_gone()

    async def read_request(self) -> Request:
        """Read one whole request.

        Raises:
            PeerGone: the connection closed first.
        """
        head = await self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        pairs = (line.partition(":") for line in lines if line)
        headers = [(name.strip(), value.strip()) for name, _, value in pairs]
        request = Request(method, path, query, headers, b"")
        return Request(method, path, query, headers, await self._read_body(request))

    async def _read_body(self, request: Request) -> bytes:
        if request.header("transfer-encoding").lower() != "chunked":
            return await self._take(int(request.header("content-length") or 0))
        body = bytearray()
        while size := int(await self._until(b"\r\n"), 16):
            body += await self._take(size)
            await self._take(2)
        await self._until(b"\r\n")
        return bytes(body)

    async def _until(self, mark: bytes) -> bytes:
        while (found := self._buffer.find(mark)) < 0:
            await self._more()
        taken = bytes(self._buffer[:found])
        del self._buffer[: found + len(mark)]
        return taken

    async def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    async def _more(self) -> None:
        if self.gone.is_set():
            raise PeerGone
        self._arrived.clear()
        await self._arrived.wait()

    async def write(self, data: bytes) -> None:
        """Write and wait until the kernel has room again."""
        if self.gone.is_set() or self._transport is None:
            raise PeerGone
        self._transport.write(data)
        await self._writable.wait()

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while; PeerGone as soon as the client leaves."""
        if self.gone.is_set():
            raise PeerGone
        try:
            async with asyncio.timeout(seconds):
                await self.gone.wait()
        except TimeoutError:
            return
        raise PeerGone

    async def until_gone(self) -> None:
        """Do nothing until the client leaves."""
        await self.pause(LONGEST_WAIT_S)
        raise OutOfPatience

    def close(self, reset: bool = False) -> None:
        """End the connection: with FIN once all is written, or with RST at once."""
        if self._transport is None or self._transport.is_closing():
            return
        if not reset:
            self._transport.close()
            return
        raw: socket.socket | None = self._transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


def write_head(status: int, headers: Mapping[str, str]) -> bytes:
    """Write a reply's head; a header whose value has several lines is sent several times."""
    phrase = HTTPStatus(status).phrase if status in _STATUSES else "Overloaded"
    lines = [f"HTTP/1.1 {status} {phrase}"]
    lines += [f"{name}: {line}" for name, value in headers.items() for line in value.split("\n")]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
