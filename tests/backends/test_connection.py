"""Connections to an upstream, against a raw server that does as each test says, byte for byte."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lumbre.backends.upstream import Address, Exchange, Outbound
from lumbre.core.errors import DeadlineError, NoConnection, UpstreamCut, UpstreamError
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

    async def post(self, body: bytes = b"{}", **more: Any) -> Exchange:
        return await self.outbound.post(Address(f"{self.url}/v1"), "/x", body, {}, LIMITS, **more)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)


async def whole(exchange: Exchange) -> bytes:
    try:
        return await exchange.read_whole(1_000_000)
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
        assert await exchange.read() == b"half"
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
        assert await exchange.read() == b"all it said"
        with pytest.raises(UpstreamCut):
            await exchange.read()
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
        assert await upstream.outbound.get(Address(upstream.url), "/x", 5) == (200, "old", [1])

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
        while chunk := await exchange.read():
            received += len(chunk)
        assert received == size
        exchange.close()

    run(serve, test)


def test_nobody_at_the_address_is_no_connection() -> None:
    async def test() -> None:
        outbound = Outbound(user_agent="test")
        with pytest.raises(NoConnection, match=r"127\.0\.0\.1:1"):
            await outbound.post(Address("http://127.0.0.1:1/v1"), "/x", b"{}", {}, LIMITS)
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
