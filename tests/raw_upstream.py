"""An upstream of a test's own code, byte for byte, and the gateway's way to it. Used by the tests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from lumbre.backends.exchange import Exchange, Opening
from lumbre.backends.permit import Address, looking
from lumbre.backends.upstream import Outbound
from lumbre.gateway.deadlines import Deadlines

LIMITS = Deadlines(connect_s=2, header_s=2, first_token_s=5, idle_s=5, total_s=9, keepalive_s=9)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Upstream:
    """A server of one test: counts connections, and hands each to the test's own code."""

    def __init__(self, serve: Served) -> None:
        self._serve = serve
        self.connections = 0
        self.url = ""

    async def __aenter__(self) -> "Upstream":
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.outbound = Outbound(user_agent="test")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.outbound.close()
        self._server.close()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone, as the test wants
        finally:
            writer.close()

    def open(self, body: bytes = b"{}", **more: Any) -> Opening:
        return self.outbound.post(looking(Address(f"{self.url}/v1")), "/x", body, {}, LIMITS, **more)

    async def post(self, body: bytes = b"{}", **more: Any) -> Exchange:
        opening = self.open(body, **more)
        try:
            return await opening.header(soon())
        finally:
            opening.close()


def soon() -> float:
    """A moment on the loop's clock, later than anything that should happen."""
    return asyncio.get_running_loop().time() + 10


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)


async def whole(exchange: Exchange) -> bytes:
    try:
        return await exchange.read_whole(1_000_000, soon())
    finally:
        exchange.close()


async def turns() -> None:
    """Let the loop look at its sockets a few times; what was sent on loopback before is then seen."""
    for _ in range(8):
        await asyncio.to_thread(int)


def run(serve: Served, test: Callable[[Upstream], Awaitable[None]]) -> None:
    async def both() -> None:
        async with asyncio.timeout(20), Upstream(serve) as upstream:
            await test(upstream)

    asyncio.run(both())
