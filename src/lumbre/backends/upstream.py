"""One HTTP exchange with an OpenAI-compatible server: connect, send, read as it comes, give up at once. Driven by the
dispatcher; it decides nothing. Errors of sockets and TLS are mapped here and nowhere else.
"""

import asyncio
import functools
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson

from lumbre.backends.connection import Connection
from lumbre.core.errors import DeadlineError, NoConnection, UpstreamError
from lumbre.gateway.deadlines import Deadlines, expired

_IDLE_CONNECTION_S = 2
"""Shorter than any engine's own idle limit (llama.cpp and uvicorn: 5 s), so that a request never meets a connection
that the other side is just closing."""

_SMALL_REPLY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Address:
    """Where an upstream is.

    Attributes:
        base_url: up to and including `/v1`, without a final slash.
        api_key: the gateway's own key for it; None for none.
    """

    base_url: str
    api_key: str | None = None


@dataclass(frozen=True)
class _Origin:
    host: str
    port: int
    tls: bool
    netloc: str
    path: str


@functools.lru_cache(maxsize=256)
def _origin(base_url: str) -> _Origin:
    parts = urlsplit(base_url)
    tls = parts.scheme == "https"
    netloc = parts.netloc.rpartition("@")[2]
    return _Origin(parts.hostname or "", parts.port or (443 if tls else 80), tls, netloc, parts.path.rstrip("/"))


class Exchange:
    """A response whose header has come; its body has not been read."""

    def __init__(self, connection: Connection, pool: "_Pool") -> None:
        self._connection: Connection | None = connection
        self._pool = pool
        self.status = connection.status
        self.headers = list(connection.headers)

    @property
    def content_type(self) -> str:
        """The media type, without parameters; "" if it says none."""
        value = next((value for name, value in self.headers if name == "content-type"), "")
        return value.partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """The next bytes, as they come; b"" at the proper end.

        Raises:
            UpstreamCut: the connection ended before the body did.
            UpstreamError: what came is no HTTP.
        """
        return b"" if self._connection is None else await self._connection.read()

    async def read_whole(self, limit_bytes: int) -> bytes:
        """The whole body.

        Raises:
            UpstreamError: it is longer than the limit.
            UpstreamCut: the connection ended before the body did.
        """
        parts = []
        size = 0
        while chunk := await self.read():
            size += len(chunk)
            if size > limit_bytes:
                raise UpstreamError(f"the upstream's reply is longer than {limit_bytes} bytes ([limits] reply_bytes)")
            parts.append(chunk)
        return b"".join(parts)

    def close(self) -> None:
        """End it. If the body was not read to its end the connection is closed, which tells the engine to stop."""
        if self._connection is not None:
            self._pool.put_back(self._connection)
            self._connection = None


class _Pool:
    """The idle connections to one origin, the latest used first."""

    def __init__(self) -> None:
        self._idle: dict[Connection, asyncio.TimerHandle] = {}
        self._open: set[Connection] = set()

    def take(self) -> Connection | None:
        """An idle connection, if there is one."""
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.reusable:
                return connection
        return None

    async def connect(self, origin: _Origin, tls: ssl.SSLContext | None) -> Connection:
        """A fresh one."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self.forget), origin.host, origin.port, ssl=tls)
        self._open.add(connection)
        return connection

    def put_back(self, connection: Connection) -> None:
        """Keep it for the next request, or close it."""
        if connection in self._open and connection.reusable:
            timer = asyncio.get_running_loop().call_later(_IDLE_CONNECTION_S, connection.close)
            self._idle[connection] = timer
        else:
            connection.close()

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self._open.discard(connection)
        if (timer := self._idle.pop(connection, None)) is not None:
            timer.cancel()

    def close(self) -> None:
        """Close all of them."""
        for connection in tuple(self._open):
            connection.close()


class Outbound:
    """The gateway's connections to its upstreams; one a process, used inside its loop."""

    def __init__(self, *, user_agent: str) -> None:
        self._user_agent = user_agent
        self._pools: dict[_Origin, _Pool] = {}
        self._tls: ssl.SSLContext | None = None

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            pool.close()
        await asyncio.sleep(0)  # the loop hands out the closings in its next turn

    async def post(
        self,
        address: Address,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        limits: Deadlines,
        *,
        reuse: bool = True,
    ) -> Exchange:
        """Send a request and wait for the response's header.

        Args:
            reuse: take a connection that is open, and keep this one open after; False for servers that cannot.

        Raises:
            DeadlineError: `connect` or `header`.
            NoConnection: nothing was sent.
            UpstreamCut: the connection ended first.
            UpstreamError: the answer is no HTTP.
        """
        sent = {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}
        head = self._head("POST", address, path, sent, close=not reuse)
        pool, connection = await self._connected(address, limits, reuse=reuse)
        return await self._exchange(pool, connection, head, body, limits)

    async def get(self, address: Address, path: str, timeout_s: float) -> tuple[int, str | None, object]:
        """Fetch a small JSON document; return status, Server header, and the document (None if it is no JSON).

        Raises:
            UpstreamError: no connection, no answer in time, or too long an answer.
        """
        limits = Deadlines(timeout_s, timeout_s, timeout_s, timeout_s, timeout_s, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                head = self._head("GET", address, path, {}, close=True)
                pool, connection = await self._connected(address, limits, reuse=False)
                exchange = await self._exchange(pool, connection, head, b"", limits)
                try:
                    body = await exchange.read_whole(_SMALL_REPLY_BYTES)
                finally:
                    exchange.close()
        except (TimeoutError, DeadlineError):
            raise UpstreamError(f"no answer to GET {path} within {timeout_s:g} s") from None
        server = next((value for name, value in exchange.headers if name == "server"), None)
        try:
            return exchange.status, server, orjson.loads(body)
        except orjson.JSONDecodeError:
            return exchange.status, server, None

    async def _connected(self, address: Address, limits: Deadlines, *, reuse: bool) -> tuple[_Pool, Connection]:
        origin = _origin(address.base_url)
        pool = self._pools.setdefault(origin, _Pool())
        if reuse and (idle := pool.take()) is not None:
            return pool, idle
        try:
            async with asyncio.timeout(limits.connect_s):
                return pool, await pool.connect(origin, self._tls_context() if origin.tls else None)
        except TimeoutError:
            raise expired("connect", limits) from None
        except OSError as error:  # ssl.SSLError and socket.gaierror are among its kind
            reason = error.strerror or str(error)
            raise NoConnection(f"no connection to the upstream at {origin.netloc}: {reason}") from error

    async def _exchange(
        self, pool: _Pool, connection: Connection, head: bytes, body: bytes, limits: Deadlines
    ) -> Exchange:
        try:
            async with asyncio.timeout(limits.header_s):
                connection.send(head, body)
                await connection.wait_head()
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise expired("header", limits) from None
            raise
        return Exchange(connection, pool)

    def _head(self, method: str, address: Address, path: str, headers: Mapping[str, str], *, close: bool) -> bytes:
        origin = _origin(address.base_url)
        sent = {
            "Host": origin.netloc,
            "User-Agent": self._user_agent,
            "Accept-Encoding": "identity",
            **headers,
            **({"Authorization": f"Bearer {address.api_key}"} if address.api_key else {}),
            **({"Connection": "close"} if close else {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        return f"{method} {origin.path}{path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls
