"""Connections to an upstream, against a raw server that does as each test says, byte for byte."""

import asyncio

import pytest

from lumbre.backends.permit import Address, looking
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import DeadlineError, NoConnection, UpstreamCut, UpstreamError
from raw_upstream import LIMITS, OK, Upstream, read_request, run, soon, turns, whole


async def answer_always(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await read_request(reader)
        writer.write(OK)


def test_a_connection_carries_one_request_after_the_other() -> None:
    async def test(upstream: Upstream) -> None:
        for _ in range(5):
            assert await whole(await upstream.post()) == b"{}"
        assert upstream.connections == 1

    run(answer_always, test)


def test_requests_at_once_have_a_connection_each() -> None:
    async def test(upstream: Upstream) -> None:
        exchanges = await asyncio.gather(*(upstream.post() for _ in range(4)))
        assert await asyncio.gather(*map(whole, exchanges)) == [b"{}"] * 4
        assert upstream.connections == 4

    run(answer_always, test)


def test_without_reuse_every_request_has_its_own_and_says_so() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await read_request(reader))
        writer.write(OK)

    async def test(upstream: Upstream) -> None:
        for _ in range(2):
            await whole(await upstream.post(reuse=False))
        assert upstream.connections == 2
        assert all(b"Connection: close\r\n" in head for head in heads)

    run(serve, test)


def test_a_reply_that_was_not_read_to_its_end_ends_its_connection() -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await reader.read()
        closed.set()

    async def test(upstream: Upstream) -> None:
        exchange = await upstream.post()
        assert await exchange.read(soon()) == b"half"
        exchange.close()
        await closed.wait()

    run(serve, test)


@pytest.mark.parametrize("when", ["with the reply", "while idle"])
def test_bytes_that_nobody_asked_for_never_answer_the_next_request(when: str) -> None:
    stray = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nlate"
    idle = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if when == "with the reply":
            writer.write(OK + stray)
        else:
            writer.write(OK)
            await idle.wait()
            writer.write(stray)
        await read_request(reader)
        writer.write(OK)

    async def test(upstream: Upstream) -> None:
        first = await upstream.post()
        assert (first.status, await whole(first)) == (200, b"{}")
        idle.set()
        await turns()
        second = await upstream.post()
        assert (second.status, await whole(second)) == (200, b"{}")
        assert upstream.connections == 2

    run(serve, test)


def test_an_idle_connection_that_the_server_closes_is_not_used_again() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await writer.drain()
        writer.close()

    async def test(upstream: Upstream) -> None:
        assert await whole(await upstream.post()) == b"{}"
        await turns()
        assert await whole(await upstream.post()) == b"{}"

    run(serve, test)


def test_an_answer_that_comes_before_the_body_was_taken_in_counts() -> None:
    answered = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await answered.wait()

    async def test(upstream: Upstream) -> None:
        exchange = await upstream.post(b"x" * 16_000_000)
        assert exchange.status == 413
        answered.set()
        exchange.close()

    run(serve, test)


def test_what_arrived_before_a_cut_is_handed_out_before_the_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nall it said")

    async def test(upstream: Upstream) -> None:
        exchange = await upstream.post()
        await turns()
        assert await exchange.read(soon()) == b"all it said"
        with pytest.raises(UpstreamCut):
            await exchange.read(soon())
        exchange.close()

    run(serve, test)


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")

    async def test(upstream: Upstream) -> None:
        assert await whole(await upstream.post()) == b"until the end"

    run(serve, test)


def test_a_get_of_such_a_body_ends_too() -> None:
    """On asyncio's own loop: it once kept a connection open for a piece of nothing that it still had to send."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\n[1]")

    async def test(upstream: Upstream) -> None:
        assert await upstream.outbound.get(looking(Address(upstream.url)), "/x", 5) == (200, "old", [1])

    run(serve, test)


def test_interim_responses_are_passed_over() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)

    async def test(upstream: Upstream) -> None:
        exchange = await upstream.post()
        assert exchange.status == 200
        assert "link" not in dict(exchange.headers)
        assert await whole(exchange) == b"{}"

    run(serve, test)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n", UpstreamError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", UpstreamError),
        (b"HTTP/1.1 200 OK\r\nContent-Le", UpstreamCut),
        (b"", UpstreamCut),
    ],
)
def test_a_header_that_is_none_is_told_by_its_kind(reply: bytes, error: type[UpstreamError]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(reply)

    async def test(upstream: Upstream) -> None:
        with pytest.raises(error):
            await upstream.post()

    run(serve, test)


def test_a_reader_that_stops_stops_the_upstream_and_nothing_is_lost() -> None:
    size = 8_000_000
    sent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 1_000_000):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
        sent.set()

    async def test(upstream: Upstream) -> None:
        exchange = await upstream.post()
        await turns()
        assert not sent.is_set()
        received = 0
        while chunk := await exchange.read(soon()):
            received += len(chunk)
        assert received == size
        exchange.close()

    run(serve, test)


def test_nobody_at_the_address_is_no_connection() -> None:
    async def test() -> None:
        outbound, nobody = Outbound(user_agent="test"), looking(Address("http://127.0.0.1:1/v1"))
        with pytest.raises(NoConnection, match=r"127\.0\.0\.1:1"):
            await outbound.post(nobody, "/x", b"{}", {}, LIMITS).header(soon())
        await outbound.close()

    asyncio.run(test())


def test_a_silent_upstream_meets_the_header_deadline() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test(upstream: Upstream) -> None:
        with pytest.raises(DeadlineError) as caught:
            await upstream.post()
        assert caught.value.code == "deadline_header"

    run(serve, test)
