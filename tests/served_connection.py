"""A client's connection as the gateway serves it, in this process, before a keeper that answers by path. Used by the
tests.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product

import uvloop

from lumbre.api.bounds import Bounds
from lumbre.api.connection import Connection
from lumbre.api.reply import Reply
from lumbre.api.request import Handler, Request
from lumbre.core.errors import CallerError, LumbreError
from lumbre.core.outbox import Outbox

HASTY = Bounds(head_s=0.2, body_s=0.2, idle_s=0.2, linger_s=0.2, flush_s=0.2)
CALM = Bounds(ahead_bytes=10_000)


class Keeper:
    """Answers by path, and keeps a record."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.released = asyncio.Event()
        self.connections: set[Connection] = set()
        self.handlers: dict[str, Handler] = {
            "size": self._size,
            "wait": self._wait,
            "linger": self._linger,
            "impatient": self._impatient,
            "pieces": self._pieces,
            "half": self._half,
            "fail": self._fail,
        }

    def admit(self, request: Request) -> None:
        what = request.path.split("/")[1]
        if what == "refused":
            raise CallerError("no", status=403, code="no")
        request.handler = self.handlers[what]

    def refuse(self, reply: Reply, request: Request, error: LumbreError) -> None:
        del request
        reply.whole(error.status, [], error.code.encode())

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)

    def lost(self, connection: Connection) -> None:
        self.connections.discard(connection)

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait, turn by turn, until it is true."""
        while not is_true():  # noqa: ASYNC110 no event tells of it
            await asyncio.sleep(0.001)

    async def _size(self, request: Request, reply: Reply) -> None:
        self.begun.append(request.path)
        size = int(request.path.split("/")[2])
        reply.whole(200, [], request.body or b"x" * size)

    async def _wait(self, request: Request, reply: Reply) -> None:
        self.begun.append(request.path)
        try:
            await self.released.wait()
            reply.whole(200, [], b"waited")
        finally:
            self.ended.append(request.path)

    async def _linger(self, request: Request, reply: Reply) -> None:
        self.begun.append(request.path)
        reply.whole(200, [], b"answered")
        await self.released.wait()

    async def _impatient(self, request: Request, reply: Reply) -> None:
        self.begun.append(request.path)
        reply.whole(200, [], b"x" * 50_000_000)
        async with asyncio.timeout(0.1):
            await reply.room()

    async def _pieces(self, request: Request, reply: Reply) -> None:
        self.begun.append(request.path)
        reply.head(200, [])
        try:
            while True:
                reply.piece(b"x" * 100_000)
                await reply.room()
                await asyncio.sleep(0)
        finally:
            self.ended.append(request.path)

    async def _half(self, request: Request, reply: Reply) -> None:
        del request
        reply.head(200, [])
        reply.piece(b"half")

    async def _fail(self, request: Request, reply: Reply) -> None:
        del request, reply
        raise LookupError("not here")


class Client:
    """The other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keeper: Keeper) -> None:
        self.reader = reader
        self.writer = writer
        self.keeper = keeper

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self) -> tuple[int, bytes, bytes]:
        """One reply: its status, its head, its body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        if status < 200:
            return status, head, b""
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return status, head, await self.reader.readexactly(length)

    async def read_last(self) -> tuple[int, bytes, bytes]:
        """One reply, which says that it is the last one and is."""
        told = await self.read()
        assert b"connection: close\r\n" in told[1]
        assert await self.reader.read() == b""
        return told

    async def flood(self, data: bytes) -> None:
        """Send the same again and again, until it is cut off."""
        while True:
            self.send(data)
            await self.writer.drain()

    async def is_cut(self) -> bool:
        """Read on to the end; whether nothing proper ended it."""
        try:
            return not (await self.reader.read()).endswith(b"0\r\n\r\n")
        except ConnectionError:
            return True


@asynccontextmanager
async def serving(bounds: Bounds, *, alone: bool) -> AsyncIterator[Client]:
    keeper = Keeper()
    loop = asyncio.get_running_loop()
    outbox = Outbox(loop.call_soon, lambda: alone)
    server = await loop.create_server(lambda: Connection(keeper, bounds, outbox), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    try:
        yield Client(reader, writer, keeper)
    finally:
        writer.transport.abort()
        for connection in tuple(keeper.connections):
            connection.abort()
        await keeper.until(lambda: not keeper.connections)
        server.close()


def run(test: Callable[[Client], Awaitable[None]], bounds: Bounds = HASTY) -> None:
    async def one(*, alone: bool) -> None:
        async with asyncio.timeout(10), serving(bounds, alone=alone) as client:
            await test(client)

    for factory, alone in product((asyncio.new_event_loop, uvloop.new_event_loop), (True, False)):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(one(alone=alone))
