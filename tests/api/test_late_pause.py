"""A client that turns out not to read when its answer has been made already: it is waited for like any other."""

import asyncio

from lumbre.api.bounds import Bounds
from lumbre.api.connection import Connection
from lumbre.core.outbox import Outbox
from raw_http import get
from served_connection import Keeper

SIZE = 60_000


class Full(asyncio.Transport):
    """A transport whose other side takes a little at each look."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self.left = 0
        self.aborted = self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.left += len(data)
        self._connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.left

    def is_closing(self) -> bool:
        return self.aborted or self.closed

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True


def test_it_is_waited_for_as_a_reader_and_not_as_one_that_rests() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        keeper = Keeper()
        connection = Connection(keeper, Bounds(idle_s=0.05, flush_s=0.3), Outbox(loop.call_soon, lambda: False))
        transport = Full(connection)
        connection.connection_made(transport)
        connection.data_received(get(f"/size/{SIZE}"))
        await keeper.until(lambda: transport.left > SIZE)
        await asyncio.sleep(0.15)  # it would have been taken for one that rests
        assert not transport.aborted
        transport.left = 0
        connection.resume_writing()
        await keeper.until(lambda: transport.closed)  # now it rests
        assert not transport.aborted
        connection.connection_lost(None)

    asyncio.run(asyncio.wait_for(test(), 10))
