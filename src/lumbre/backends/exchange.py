"""One HTTP exchange: the request on its way, the response as it comes, and the connections that are kept for the next.
Driven by `upstream`'s callers; it decides nothing. No wait has an end of its own: each is told until when.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from lumbre.backends.connection import Connection
from lumbre.core.errors import NoConnection, UpstreamError
from lumbre.core.outbox import Outbox
from lumbre.gateway.deadlines import Deadlines, expired

IDLE_CONNECTION_S = 2
"""Shorter than any engine's own idle limit (llama.cpp and uvicorn: 5 s), so that a request never meets a connection
that the other side is just closing."""


class Exchange:
    """A response whose header has come; its body has not been read."""

    def __init__(self, connection: Connection, pool: "Pool", *, reuse: bool) -> None:
        self._reuse = reuse
        self._connection: Connection | None = connection
        self._pool = pool
        self.status = connection.status
        self.headers = connection.headers

    @property
    def content_type(self) -> str:
        """The media type, without parameters; "" if it says none."""
        return self.header("content-type").partition(";")[0].strip().lower()

    def header(self, wanted: str) -> str:
        """A header's value, the first of several; "" if there is none."""
        for name, value in self.headers:
            if name == wanted:
                return value
        return ""

    def arrived(self) -> bytes | None:
        """The whole body, if all of it came with the header."""
        return None if self._connection is None else self._connection.arrived()

    async def read(self, until: float) -> bytes:
        """The next bytes, as they come; b"" at the proper end.

        Args:
            until: a moment on the loop's clock.

        Raises:
            TimeoutError: nothing came until then; nothing is lost, so it may be asked again.
            UpstreamCut: the connection ended before the body did.
            UpstreamError: what came is no HTTP.
        """
        return b"" if self._connection is None else await self._connection.read(until)

    async def read_whole(self, limit_bytes: int, until: float) -> bytes:
        """The whole body.

        Raises:
            TimeoutError: it was not whole until then.
            UpstreamError: it is longer than the limit.
            UpstreamCut: the connection ended before the body did.
        """
        parts = []
        size = 0
        while chunk := await self.read(until):
            size += len(chunk)
            if size > limit_bytes:
                raise UpstreamError(f"the upstream's reply is longer than {limit_bytes} bytes ([limits] reply_bytes)")
            parts.append(chunk)
        return b"".join(parts)

    def __enter__(self) -> "Exchange":
        """For `with`: it is over at the end of it."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End it. An upstream that failed in it may be about to close the connection, whatever it said of that."""
        self._end(reuse=self._reuse and error is None)

    def close(self) -> None:
        """End it. If the body was not read to its end the connection is closed, which tells the engine to stop."""
        self._end(reuse=self._reuse)

    def _end(self, *, reuse: bool) -> None:
        if self._connection is None:
            return
        if reuse:
            self._pool.put_back(self._connection)
        else:
            self._connection.close()  # nothing more comes on it, as the other side was told, or as it may do itself
        self._connection = None


class Pool:
    """The idle connections to one origin, the latest used first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = self.loop = loop
        self._outbox = Outbox(loop.call_soon, lambda: len(self._open) - len(self._idle) < 2)
        self._idle: dict[Connection, float] = {}
        self._open: set[Connection] = set()
        self._sweeps = False

    def take(self) -> Connection | None:
        """An idle connection, if there is one."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.stands:  # all else was asked when it was put back; what came since has closed it
                return connection
        return None

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
        """A fresh one."""
        loop = self._loop
        _, connection = await loop.create_connection(lambda: Connection(self._outbox, self.forget), host, port, ssl=tls)
        self._open.add(connection)
        return connection

    def put_back(self, connection: Connection) -> None:
        """Keep it for the next request, or close it."""
        if connection not in self._open or not connection.reusable:
            connection.close()
            return
        self._idle[connection] = self._loop.time() + IDLE_CONNECTION_S
        if not self._sweeps:  # one timer for all of them, and not one for each request
            self._sweeps = True
            self._loop.call_later(IDLE_CONNECTION_S, self._sweep)

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def close(self) -> None:
        """Close all of them."""
        for connection in tuple(self._open):
            connection.close()

    def _sweep(self) -> None:
        """Close those that have been idle for long; the dictionary has them in that order."""
        now = self._loop.time()
        while self._idle:
            connection, until = next(iter(self._idle.items()))
            if until > now:
                self._loop.call_at(until, self._sweep)
                return
            del self._idle[connection]
            connection.close()
        self._sweeps = False


class Opening:
    """A request on its way, until its response's header has come.

    Made by `Outbound.post`; `close` it whatever comes of it.
    """

    def __init__(
        self, pool: Pool, check: Callable[[], None], head: bytes, body: bytes, limits: Deadlines, *, reuse: bool
    ) -> None:
        self._pool = pool
        self._check = check
        self._reuse = reuse
        self._head = head
        self._body = body
        self._limits = limits
        self._loop = pool.loop
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection | UpstreamError] | None = None
        self._header_at = 0.0

    def send(self, connection: Connection) -> None:
        """Send on an open connection; `NoConnection` if it is none any more, `SwitchClosed` if it may not be."""
        self._connection = connection
        self._check()  # while the connection was made, a switch may have been closed
        self._header_at = self._loop.time() + self._limits.header_s
        connection.send(self._head, self._body)

    def connect(self, connecting: Coroutine[Any, Any, Connection | UpstreamError]) -> None:
        """Begin to open a connection; `header` waits for it and sends."""
        self._connecting = self._loop.create_task(connecting, name="connect")

    async def header(self, until: float) -> Exchange:
        """Wait for the response's header until a moment on the loop's clock.

        Raises:
            TimeoutError: the moment has come; the wait may be begun again.
            DeadlineError: `connect` or `header`.
            NoConnection: nothing was sent.
            UpstreamCut: the connection ended first.
            UpstreamError: the answer is no HTTP.
        """
        if self._connecting is not None:
            await self._connected(self._connecting, until)
        connection = self._connection
        if connection is None:
            raise NoConnection("the request was given up before it was sent")
        try:
            await connection.wait_head(min(until, self._header_at))
        except TimeoutError:
            if self._loop.time() >= self._header_at:
                raise expired("header", self._limits) from None
            raise
        self._connection = None
        return Exchange(connection, self._pool, reuse=self._reuse)

    def close(self) -> None:
        """Give it up; without effect on an exchange that came of it."""
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting.add_done_callback(self._unwanted)
            self._connecting = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _unwanted(self, connecting: "asyncio.Task[Connection | UpstreamError]") -> None:
        """A connection that came about in the very moment it was given up."""
        if not connecting.cancelled() and isinstance(late := connecting.result(), Connection):
            late.close()

    async def _connected(self, connecting: "asyncio.Task[Connection | UpstreamError]", until: float) -> None:
        await asyncio.wait({connecting}, timeout=max(until - self._loop.time(), 0))
        if not connecting.done():
            raise TimeoutError
        self._connecting = None
        outcome = connecting.result()
        if isinstance(outcome, UpstreamError):
            raise outcome
        self.send(outcome)
