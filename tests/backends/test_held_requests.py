"""A request waits for the end of the loop's turn: what becomes of it when its connection ends before that."""

import asyncio

import pytest

from lumbre.backends.connection import Connection
from lumbre.core.errors import NoConnection, UpstreamCut, UpstreamError
from lumbre.core.outbox import Outbox


class Wire(asyncio.Transport):
    """A transport that keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def get_write_buffer_size(self) -> int:
        return 0


def connected(*, alone: bool) -> tuple[Connection, Wire]:
    loop = asyncio.get_running_loop()
    connection, wire = Connection(Outbox(loop.call_soon, lambda: alone), lambda _: None), Wire()
    connection.connection_made(wire)
    return connection, wire


async def outcome(connection: Connection) -> BaseException:
    with pytest.raises(UpstreamError) as caught:
        await connection.wait_head(asyncio.get_running_loop().time() + 1)
    return caught.value


@pytest.mark.parametrize("seen", ["before the turn ends", "after the turn has ended"])
def test_a_request_that_never_left_can_be_sent_again(seen: str) -> None:
    async def test() -> None:
        connection, wire = connected(alone=False)
        connection.send(b"head", b"body")
        wire.closing = True
        if seen == "after the turn has ended":
            await asyncio.sleep(0)
        connection.connection_lost(None)
        assert isinstance(await outcome(connection), NoConnection)
        assert wire.writes == []

    asyncio.run(test())


def test_a_request_that_has_left_may_have_been_heard() -> None:
    async def test() -> None:
        connection, wire = connected(alone=False)
        connection.send(b"head", b"body")
        await asyncio.sleep(0)
        connection.connection_lost(None)
        assert isinstance(await outcome(connection), UpstreamCut)
        assert wire.writes == [b"headbody"]

    asyncio.run(test())


def test_nothing_is_sent_on_a_connection_that_is_closing() -> None:
    async def test() -> None:
        connection, wire = connected(alone=True)
        wire.closing = True
        with pytest.raises(NoConnection):
            connection.send(b"head", b"body")

    asyncio.run(test())


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_head_and_body_leave_in_one_packet_where_they_fit(size: int, *, alone: bool) -> None:
    async def test() -> None:
        connection, wire = connected(alone=alone)
        connection.send(b"head", b"x" * size)
        await asyncio.sleep(0)
        assert b"".join(wire.writes) == b"head" + b"x" * size
        assert len(wire.writes) == (1 if size == 10 else 2)

    asyncio.run(test())
