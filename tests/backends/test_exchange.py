"""A request on its way: what is waited for may be waited for again, and what is given up leaves nothing open."""

import asyncio

import pytest

from lumbre.core.errors import NoConnection
from raw_upstream import Upstream, read_request, run, soon, turns


def test_a_wait_that_ends_in_between_may_be_begun_again() -> None:
    asked, answering, rest = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        await answering.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
        await rest.wait()
        writer.write(b"lf")

    async def test(upstream: Upstream) -> None:
        opening = upstream.open()
        with pytest.raises(TimeoutError):
            await opening.header(0)
        while not asked.is_set():
            with pytest.raises(TimeoutError):
                await opening.header(asyncio.get_running_loop().time() + 0.01)
        with pytest.raises(TimeoutError):
            await opening.header(0)
        answering.set()
        exchange = await opening.header(soon())
        assert await exchange.read(soon()) == b"ha"
        with pytest.raises(TimeoutError):
            await exchange.read(0)
        rest.set()
        assert await exchange.read(soon()) == b"lf"
        assert await exchange.read(soon()) == b""
        exchange.close()

    run(serve, test)


@pytest.mark.parametrize("when", ["before it stands", "after it was sent"])
def test_a_request_that_is_given_up_leaves_no_connection(when: str) -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        begun.set()
        await reader.read()
        closed.set()

    async def test(upstream: Upstream) -> None:
        opening = upstream.open()
        if when == "after it was sent":
            with pytest.raises(TimeoutError):
                await opening.header(asyncio.get_running_loop().time() + 0.05)
            await begun.wait()
        opening.close()
        opening.close()
        with pytest.raises(NoConnection):
            await opening.header(soon())
        if begun.is_set():
            await closed.wait()

    run(serve, test)


def test_requests_that_are_given_up_while_they_connect_leave_nothing_open() -> None:
    counts: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counts.append(1)
        try:
            await reader.read()
        finally:
            writer.close()
            counts.append(-1)

    async def test(upstream: Upstream) -> None:
        for rounds in range(6):
            opening = upstream.open()
            for _ in range(rounds):  # at each turn of the loop another part of connecting is done
                await asyncio.sleep(0)
            opening.close()
        while sum(counts):
            await turns()

    run(serve, test)
