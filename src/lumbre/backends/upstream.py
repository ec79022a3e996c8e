"""Requests to upstreams: heads, keys, TLS. Driven by dispatcher and probes; it decides nothing, and sends nothing
without a permit. Errors of sockets and TLS are mapped here and nowhere else.
"""

import asyncio
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import orjson

from lumbre.backends.connection import Connection
from lumbre.backends.exchange import Opening, Pool
from lumbre.backends.permit import Address, Permit
from lumbre.core.errors import DeadlineError, NoConnection, UpstreamError
from lumbre.gateway.deadlines import Deadlines, expired

_SMALL_REPLY_BYTES = 4 * 1024 * 1024
_ANTHROPIC_VERSION = "2023-06-01"


class _Server:
    """An upstream's address in parts, and the connections to it."""

    def __init__(self, base_url: str, pool: Pool) -> None:
        parts = urlsplit(base_url)
        self.tls = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.tls else 80)
        self.netloc = parts.netloc.rpartition("@")[2]
        self.path = parts.path.rstrip("/")
        self.pool = pool


class Outbound:
    """The gateway's connections to its upstreams; one a process, used inside its loop."""

    def __init__(self, *, user_agent: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._user_agent = user_agent
        self._servers: dict[str, _Server] = {}
        """By base_url."""
        self._tls: ssl.SSLContext | None = None

    async def close(self) -> None:
        """Close every connection."""
        for server in self._servers.values():
            server.pool.close()
        await asyncio.sleep(0)  # the loop hands out the closings in its next turn

    def post(
        self,
        permit: Permit,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        limits: Deadlines,
        *,
        reuse: bool = True,
    ) -> Opening:
        """Send a request; it leaves at the end of this turn of the loop, or when its connection stands.

        Args:
            reuse: take a connection that is open, and keep this one open after; False for servers that cannot.

        Raises:
            SwitchClosed: it may not be sent any more.
        """
        own = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        server = self._server(permit)
        head = self._head("POST", server, permit, path, headers, own, close=not reuse)
        return self._open(permit, server, head, body, limits, reuse=reuse)

    async def get(self, permit: Permit, path: str, timeout_s: float) -> tuple[int, str | None, object]:
        """Fetch a small JSON document; return status, Server header, and the document (None if it is no JSON).

        Raises:
            UpstreamError: no connection, no answer in time, or too long an answer.
        """
        head = self._head("GET", self._server(permit), permit, path, {}, "", close=True)
        status, headers, document = await self._small(permit, head, b"", f"GET {path}", timeout_s)
        return status, next((value for name, value in headers if name == "server"), None), document

    async def ask(self, permit: Permit, path: str, body: bytes, timeout_s: float) -> tuple[int, object]:
        """Post a small question and read a small JSON document (None if it is no JSON).

        Raises:
            UpstreamError: no connection, no answer in time, or too long an answer.
        """
        own = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head = self._head("POST", self._server(permit), permit, path, {}, own, close=True)
        status, _, document = await self._small(permit, head, body, f"POST {path}", timeout_s)
        return status, document

    async def _small(
        self, permit: Permit, head: bytes, body: bytes, what: str, timeout_s: float
    ) -> tuple[int, list[tuple[str, str]], object]:
        limits = Deadlines(timeout_s, timeout_s, timeout_s, timeout_s, timeout_s, timeout_s)
        until = self._loop.time() + timeout_s
        opening = self._open(permit, self._server(permit), head, body, limits, reuse=False)
        try:
            with await opening.header(until) as exchange:
                data = await exchange.read_whole(_SMALL_REPLY_BYTES, until)
        except (TimeoutError, DeadlineError):
            raise UpstreamError(f"no answer to {what} within {timeout_s:g} s") from None
        finally:
            opening.close()
        try:
            return exchange.status, exchange.headers, orjson.loads(data)
        except orjson.JSONDecodeError:
            return exchange.status, exchange.headers, None

    def _server(self, permit: Permit) -> _Server:
        base_url = permit.address.base_url
        server = self._servers.get(base_url)
        if server is None:
            server = self._servers[base_url] = _Server(base_url, Pool(self._loop))
        return server

    def _open(
        self, permit: Permit, server: _Server, head: bytes, body: bytes, limits: Deadlines, *, reuse: bool
    ) -> Opening:
        permit.check()
        opening = Opening(server.pool, permit.check, head, body, limits, reuse=reuse)
        if reuse and (idle := server.pool.take()) is not None:
            opening.send(idle)
        else:
            opening.connect(self._connected(server, limits))
        return opening

    async def _connected(self, server: _Server, limits: Deadlines) -> Connection | UpstreamError:
        """A fresh connection, or why there is none: that an upstream fails is a value, and no task is at fault."""
        try:
            async with asyncio.timeout(limits.connect_s):
                tls = self._tls_context() if server.tls else None
                return await server.pool.connect(server.host, server.port, tls)
        except TimeoutError:
            return expired("connect", limits)
        except OSError as error:  # ssl.SSLError and socket.gaierror are among its kind
            reason = error.strerror or str(error)
            return NoConnection(f"no connection to the upstream at {server.netloc}: {reason}")

    def _head(
        self,
        method: str,
        server: _Server,
        permit: Permit,
        path: str,
        headers: Mapping[str, str],
        own: str,
        *,
        close: bool,
    ) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        key = _key_lines(permit.address)
        closing = "Connection: close\r\n" if close else ""
        return (
            f"{method} {server.path}{path} HTTP/1.1\r\nHost: {server.netloc}\r\nUser-Agent: {self._user_agent}\r\n"
            f"Accept-Encoding: identity\r\n{lines}{own}{key}{closing}\r\n"
        ).encode("latin-1")

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _key_lines(address: Address) -> str:
    if address.api == "anthropic":
        key = f"X-Api-Key: {address.api_key}\r\n" if address.api_key else ""
        return f"{key}Anthropic-Version: {_ANTHROPIC_VERSION}\r\n"
    return f"Authorization: Bearer {address.api_key}\r\n" if address.api_key else ""
