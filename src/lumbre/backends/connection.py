"""One TCP connection to an HTTP/1.1 server, one exchange at a time. A protocol of the event loop: it keeps what has
come, and says how it ended; parsing is httptools'. `upstream` drives it.

Every byte of a body that arrived is handed out before an error is: a stream that is cut has said all that it said.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from lumbre.core.errors import NoConnection, UpstreamCut, UpstreamError
from lumbre.core.outbox import Outbox, Outlet

_HEAD_LIMIT_BYTES = 64 * 1024
_BUFFER_LIMIT_BYTES = 256 * 1024
"""Unread bytes at which the connection stops reading, so that a slow client slows its engine and not our memory."""

_ONE_WRITE_BYTES = 64 * 1024
"""A body up to here is copied behind its head, so that both leave in one packet."""

_BODILESS = (204, 304)
_CLOSE_ENOUGH_S = 0.001


class Connection(asyncio.Protocol):
    """The connection.

    Args:
        on_lost: called once when it is gone, whoever closed it.
    """

    def __init__(self, outbox: Outbox, on_lost: Callable[["Connection"], None]) -> None:
        self._outbox = outbox
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outlet: Outlet | None = None
        self._lost = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._until = 0.0
        self._parser = httptools.HttpResponseParser(self)  # it goes on from one whole response to the next
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.complete = False
        self._keep_alive = False
        self._head_size = 0
        self._unheard = 0
        self._head_complete = False
        self._until_close = False
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._paused = False
        self._error: UpstreamError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def send(self, head: bytes, body: bytes) -> None:
        """Send a request; the connection must be fresh or `reusable`.

        It returns at once: an upstream may answer before it has taken the whole body in, and that answer counts.

        Raises:
            NoConnection: nothing was sent.
        """
        self._begin()
        if self._outlet is None or not self.stands:
            raise _closed_before()
        if len(body) <= _ONE_WRITE_BYTES:
            self._outlet.write(head + body)
        else:
            self._outlet.write(head)
            self._outlet.write(body)

    async def wait_head(self, until: float) -> None:
        """Wait until `status` and `headers` are there, or until a moment on the loop's clock.

        Raises:
            TimeoutError: the moment has come; the wait may be begun again.
            UpstreamCut: the connection ended first.
            UpstreamError: what came is no HTTP.
        """
        while not self._head_complete:
            if self._error is not None:
                raise self._error
            await self._news(until)

    async def read(self, until: float) -> bytes:
        """The next bytes of the body, as they came; b"" at its end.

        Raises:
            TimeoutError: nothing came until that moment on the loop's clock; nothing is lost.
            UpstreamCut: the connection ended before the body did.
            UpstreamError: what came is no HTTP.
        """
        while not self._chunks:
            if self.complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._news(until)
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._paused and self._transport is not None and not self._lost:
            self._paused = False
            self._transport.resume_reading()
        return data

    def arrived(self) -> bytes | None:
        """The whole body, if nothing of it has been read and all of it has come."""
        if not self.complete or not self._chunks or self._paused:
            return None
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        return data

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent on it: the last one is over in both directions, and nothing is left."""
        transport = self._transport
        return (
            transport is not None
            and self._keep_alive
            and not self._lost
            and not transport.is_closing()
            and not self._chunks
            and not self._paused
            and transport.get_write_buffer_size() == 0
        )

    @property
    def stands(self) -> bool:
        """Whether it is open, as far as anybody has seen."""
        return not self._lost and self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close it now; what was not sent is not sent."""
        if self._outlet is not None:
            self._outlet.drop()
        if self._transport is not None:
            self._transport.abort()

    def _news(self, until: float) -> "asyncio.Future[None]":
        """Done when something has come, or failed when that moment on the loop's clock has."""
        # Not `asyncio.timeout`, which costs several times the rest of a wait; and a timer that is set and fires too
        # soon looks again then, so that a connection that is used all the time needs hardly any.
        self._waiter = waiter = self._loop.create_future()
        self._until = until
        if self._timer is None or self._timer_at > until:
            self._set_timer(until)
        return waiter

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return  # nobody waits
        if self._loop.time() < self._until - _CLOSE_ENOUGH_S:
            self._set_timer(self._until)
        else:
            self._waiter.set_exception(TimeoutError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: UpstreamError) -> None:
        if self._error is None and not self.complete:
            self._error = error
        self._wake()

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so
        self._outlet = Outlet(self._outbox, self._transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self.complete:  # nobody asked: whatever it is, it must not become the answer to the next request
            self._keep_alive = False
            self.close()
            return
        if not self._head_complete:
            self._unheard += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(UpstreamError(f"the upstream does not speak proper HTTP: {error}"))
            self.close()
        if not self._head_complete and self._unheard > _HEAD_LIMIT_BYTES:  # the parser keeps what it has not told
            self._fail(_head_too_long())
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._until_close and exc is None:
            self.complete = True
        if self._outlet is not None and self._outlet.held:
            self._fail(_closed_before())
        else:
            self._fail(UpstreamCut("the upstream's connection was cut before its answer was whole"))
        self._on_lost(self)

    # httptools' callbacks. It goes on to a second response that came in the same read; that one is nobody's.

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came."""
        if self.complete:
            return
        self._head_size += len(name) + len(value)
        if self._head_size > _HEAD_LIMIT_BYTES:
            error = _head_too_long()
            self._fail(error)
            raise error  # the parser stops at it
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """All headers came."""
        if self.complete:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        names = {name for name, _ in self.headers}
        framed = "content-length" in names or "transfer-encoding" in names
        self._until_close = not framed and self.status not in _BODILESS
        self._head_complete = True
        self._wake()

    def on_body(self, data: bytes) -> None:
        """A part of the body came."""
        if self.complete:
            return
        self._chunks.append(data)
        self._buffered += len(data)
        if self._buffered > _BUFFER_LIMIT_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_begin(self) -> None:
        """A response begins; one after the last asked for makes the connection useless."""
        if self.complete:
            self._keep_alive = False

    def on_message_complete(self) -> None:
        """The response has ended; an interim one (1xx) makes room for the real one."""
        if self.complete:
            return
        if self.status < 200:
            self.headers.clear()
            return
        self.complete = True
        self._keep_alive = self._parser.should_keep_alive()  # it is true here only, and forgotten afterwards
        self._wake()


def _closed_before() -> NoConnection:
    return NoConnection("the upstream closed its connection before anything was sent")


def _head_too_long() -> UpstreamError:
    return UpstreamError(f"the upstream's header is longer than {_HEAD_LIMIT_BYTES} bytes")
