"""How long a connection may take for a head, with limits short enough for a test. In one process, over loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from lumbre.api.protocol import Protocol


class Hasty(Protocol):
    head_s = 0.2
    linger_s = 0.2
    flush_s = 0.2
    lost: asyncio.Event | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.lost is not None:
            self.lost.set()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with as many bytes as the path says."""
    del receive
    size = int(scope["path"].strip("/"))
    headers = [(b"content-length", b"%d" % size)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * size, "more_body": False})


@asynccontextmanager
async def serving(state: ServerState) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server of hasty protocols."""
    config = uvicorn.Config(app, http=Hasty, ws="none", lifespan="off", log_config=None)
    server = await asyncio.get_running_loop().create_server(lambda: Hasty(config, state, {}), "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        yield reader, writer
        writer.close()
    finally:
        server.close()


async def talk(*said: bytes) -> bytes:
    """Say some pieces, each after the reply to the one before, and read on until the server closes."""
    async with asyncio.timeout(10), serving(ServerState()) as (reader, writer):
        heard = b""
        for piece in said:
            writer.write(piece)
            if b"\r\n\r\n" in piece:
                heard += await reader.readuntil(b"\r\n\r\nx")
        return heard + await reader.read()


def test_a_connection_that_says_nothing_is_closed() -> None:
    assert asyncio.run(talk()) == b""


@pytest.mark.parametrize("before", [(), (b"GET /1 HTTP/1.1\r\n\r\n",)], ids=["first", "second"])
def test_half_a_head_is_a_408(before: tuple[bytes, ...]) -> None:
    heard = asyncio.run(talk(*before, b"GET /1 HT"))
    head, _, body = heard[heard.rindex(b"HTTP/1.1") :].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"]["code"] == "head_timeout"


def test_whoever_goes_on_sending_after_a_refusal_is_cut_off() -> None:
    async def flood() -> None:
        async with asyncio.timeout(10), serving(ServerState()) as (_, writer):
            while True:
                writer.write(b"no http\r\n")
                await writer.drain()

    with pytest.raises(ConnectionError):
        asyncio.run(flood())


def test_the_last_bytes_of_a_reply_do_not_wait_for_ever_for_a_reader() -> None:
    async def ignore() -> None:
        state = ServerState()
        async with asyncio.timeout(10), serving(state) as (reader, writer):
            writer.write(b"GET /50000000 HTTP/1.1\r\nConnection: close\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            (connection,) = state.connections
            assert isinstance(connection, Hasty)
            connection.lost = asyncio.Event()
            await connection.lost.wait()

    asyncio.run(ignore())
