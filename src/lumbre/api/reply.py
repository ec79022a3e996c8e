"""Puts one reply on a client's connection: status line, headers, framing. The runtime's `Client` over HTTP/1.1.

A body is framed by its length where the head says one, else in chunks, else (to HTTP/1.0) by the connection's end.
"""

import asyncio
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from lumbre.api.request import Request, keeps_alive
from lumbre.runtime.client import Headers

if TYPE_CHECKING:
    from lumbre.api.connection import Connection

_BODILESS = (204, 304)


@lru_cache(maxsize=128)
def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n"


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return f"date: {formatdate(second, usegmt=True)}\r\n"


class Reply:
    """The reply to one request.

    Attributes:
        started: its head has been sent.
        ended: its last byte has been sent.
        is_stream: it is a stream of events, so an error can still be told inside it.
        task: the one that makes it.
        given_up: whoever waited for its client to read it has stopped waiting.
        also: headers that every reply of this connection's door carries, such as CORS'.
    """

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_connection",
        "_left",
        "_old",
        "also",
        "ended",
        "given_up",
        "is_stream",
        "keeps_alive",
        "started",
        "task",
    )

    def __init__(self, connection: "Connection", request: Request) -> None:
        self._connection = connection
        self._bodiless = request.method == "HEAD"
        self._old = request.version == "1.0"
        self._chunked = False
        self._left = 0
        self.keeps_alive = keeps_alive(request.version, request.headers)
        self.task: asyncio.Task[None]
        self.also: Headers = ()
        self.started = False
        self.ended = False
        self.given_up = False
        self.is_stream = False

    @property
    def congested(self) -> bool:
        """Whether the transport holds as much as it should of what the client has not taken in yet."""
        return self._connection.congested

    @property
    def takes_an_error(self) -> bool:
        """Whether an error can still be told: as the reply, or as a stream's last event."""
        return not self._connection.gone and (not self.started or (self.is_stream and not self.ended))

    async def room(self) -> None:
        """Wait until the transport can take more."""
        try:
            await self._connection.room()
        except asyncio.CancelledError:
            self.given_up = True
            raise

    def head(self, status: int, headers: Headers) -> None:
        """Send status and headers; the body follows in pieces."""
        self._connection.write(self._head(status, headers, None))

    def piece(self, data: bytes) -> None:
        """Send a piece of the body."""
        if self._bodiless or not data:
            return
        if self._chunked:
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._left -= len(data)
            self._connection.write(data)

    def end(self) -> None:
        """The body is complete; whether the client stays makes no difference any more."""
        if self.ended:
            return
        self.ended = True
        self.given_up = False
        if self._bodiless:
            return
        if self._chunked:
            self._connection.write(b"0\r\n\r\n")
        elif self._left:
            self.keeps_alive = False  # not as long as its head said: only the connection's end can tell

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a reply of one piece."""
        if self._plain and status not in _BODILESS and not self._connection.closes:
            self.started = self.ended = True
            lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
            about = f"{_status_line(status)}{_date(int(time.time()))}{lines}content-length: {len(body)}\r\n\r\n"
            self._connection.write(about.encode("latin-1", "replace") + body)
            return
        head = self._head(status, headers, len(body))
        self.ended = True
        self._connection.write(head if self._bodiless else head + body)

    @property
    def _plain(self) -> bool:
        """To whom most replies go: HTTP/1.1 on a connection that lives on, with nothing to add or leave out."""
        return self.keeps_alive and not (self._old or self._bodiless or self.also)

    def _head(self, status: int, headers: Headers, length: int | None) -> bytes:
        lines = [_status_line(status), _date(int(time.time()))]
        sized = False
        for name, value in (*headers, *self.also):
            if name == "content-length":
                sized = True
                self._left = int(value)
            elif name == "content-type":
                self.is_stream = value.startswith("text/event-stream")
            lines.append(f"{name}: {value}\r\n")
        if status in _BODILESS:
            self._bodiless = True
        elif length is not None:
            lines.append(f"content-length: {length}\r\n")
        elif not sized:
            if self._old:
                self.keeps_alive = False
            else:
                self._chunked = True
                lines.append("transfer-encoding: chunked\r\n")
        if self._connection.closes:
            self.keeps_alive = False
        if not self.keeps_alive:
            lines.append("connection: close\r\n")
        elif self._old:
            lines.append("connection: keep-alive\r\n")
        lines.append("\r\n")
        self.started = True
        return "".join(lines).encode("latin-1", "replace")
