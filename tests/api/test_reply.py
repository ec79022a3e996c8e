"""How a reply is framed for each client, and what one that has begun can still be told."""

import asyncio
from typing import cast

import pytest

from lumbre.api.connection import Connection
from lumbre.api.reply import Reply
from lumbre.api.request import Request
from lumbre.api.voices import ANTHROPIC, OPENAI, RESPONSES, Voice
from lumbre.core.errors import CallerError, LumbreError

STREAM = ("content-type", "text/event-stream; charset=utf-8")


class Wire:
    """A connection's writing end."""

    def __init__(self, *, closes: bool = False, blocks: bool = False) -> None:
        self.sent = b""
        self.closes = closes
        self.gone = False
        self._blocks = blocks

    def write(self, data: bytes) -> None:
        self.sent += data

    async def room(self) -> None:
        if self._blocks:
            await asyncio.Event().wait()


def reply_on(wire: Wire, version: str = "1.1", method: str = "POST", connection: str = "") -> Reply:
    headers = {"connection": connection} if connection else {}
    return Reply(cast(Connection, wire), Request(method=method, version=version, headers=headers))


def said(wire: Wire) -> tuple[bytes, set[bytes], bytes]:
    """The status line, the header lines without the date, and the body."""
    head, _, body = wire.sent.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    return first, {line for line in lines if not line.startswith(b"date: ")}, body


def in_pieces(reply: Reply, *headers: tuple[str, str], status: int = 200) -> None:
    reply.head(status, headers)
    for piece in (b"one", b"", b"two"):
        reply.piece(piece)
    reply.end()
    reply.end()


CHUNKED = b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("version", "connection", "lines", "body", "stays"),
    [
        ("1.1", "", {b"transfer-encoding: chunked"}, CHUNKED, True),
        ("1.1", "Keep-Alive", {b"transfer-encoding: chunked"}, CHUNKED, True),
        ("1.1", "Close", {b"transfer-encoding: chunked", b"connection: close"}, CHUNKED, False),
        ("1.0", "", {b"connection: close"}, b"onetwo", False),
        ("1.0", "keep-alive", {b"connection: close"}, b"onetwo", False),
    ],
)
def test_pieces_are_chunks_or_end_with_the_connection(
    version: str, connection: str, lines: set[bytes], body: bytes, stays: bool
) -> None:
    wire = Wire()
    reply = reply_on(wire, version, connection=connection)
    in_pieces(reply)
    assert said(wire) == (b"HTTP/1.1 200 OK", lines, body)
    assert (reply.keeps_alive, reply.ended) == (stays, True)


@pytest.mark.parametrize(
    ("version", "connection", "line"),
    [("1.1", "", None), ("1.1", "close", b"close"), ("1.0", "", b"close"), ("1.0", "Keep-Alive", b"keep-alive")],
)
def test_a_reply_of_one_piece_says_its_length_and_whether_the_connection_stays(
    version: str, connection: str, line: bytes | None
) -> None:
    wire = Wire()
    reply = reply_on(wire, version, connection=connection)
    reply.whole(404, [("x", "y")], b"body")
    lines = {b"x: y", b"content-length: 4", *([b"connection: " + line] if line else [])}
    assert said(wire) == (b"HTTP/1.1 404 Not Found", lines, b"body")
    assert reply.keeps_alive == (line != b"close")


@pytest.mark.parametrize(("length", "stays"), [(6, True), (7, False), (5, False)])
def test_a_body_that_is_not_as_long_as_its_head_says_ends_the_connection(length: int, stays: bool) -> None:
    wire = Wire()
    reply = reply_on(wire)
    in_pieces(reply, ("content-length", str(length)))
    assert said(wire) == (b"HTTP/1.1 200 OK", {b"content-length: %d" % length}, b"onetwo")
    assert reply.keeps_alive == stays


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("HEAD", 404), ("GET", 204), ("GET", 304)])
@pytest.mark.parametrize("headers", [[], [("content-length", "6")]])
def test_where_no_body_belongs_none_is_sent(method: str, status: int, headers: list[tuple[str, str]]) -> None:
    wire = Wire()
    reply = reply_on(wire, method=method)
    in_pieces(reply, *headers, status=status)
    assert said(wire)[2] == b""
    assert reply.keeps_alive
    wire = Wire()
    reply = reply_on(wire, method=method)
    reply.whole(status, [], b"body")
    assert said(wire)[1:] == ({b"content-length: 4"} if method == "HEAD" else set(), b"")


def test_a_connection_that_is_to_close_says_so() -> None:
    wire = Wire(closes=True)
    reply_on(wire).whole(200, [], b"")
    assert b"connection: close" in said(wire)[1]


def test_what_no_header_can_carry_is_replaced() -> None:
    wire = Wire()
    reply_on(wire).whole(299, [("x-note", "a☃")], b"")
    assert said(wire)[:2] == (b"HTTP/1.1 299 Unknown", {b"x-note: a?", b"content-length: 0"})


@pytest.mark.parametrize("voice", [OPENAI, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize(("content_type", "told"), [(STREAM[1], True), ("application/json", False)])
def test_half_a_reply_takes_an_error_only_if_it_is_a_stream(voice: Voice, content_type: str, told: bool) -> None:
    wire = Wire()
    reply = reply_on(wire)
    reply.head(200, [("content-type", content_type)])
    before = len(wire.sent)
    asyncio.run(voice.tell(reply, LumbreError("it went wrong"), None))
    assert (b"it went wrong" in wire.sent[before:], reply.ended) == (told, told)
    assert told or len(wire.sent) == before


@pytest.mark.parametrize("voice", [OPENAI, RESPONSES, ANTHROPIC])
def test_an_error_is_told_once_and_not_behind_a_whole_reply(voice: Voice) -> None:
    wire = Wire()
    reply = reply_on(wire)
    error = CallerError("it is wrong", headers={"allow": "POST"}, retry_after_s=3)
    asyncio.run(voice.tell(reply, error, "id-1"))
    first, lines, body = said(wire)
    assert first == b"HTTP/1.1 400 Bad Request"
    assert lines >= {b"allow: POST", b"retry-after: 3", b"x-request-id: id-1", b"content-length: %d" % len(body)}
    before = wire.sent
    asyncio.run(voice.tell(reply, error, "id-1"))
    assert wire.sent == before


def test_a_client_that_reads_nothing_is_not_told_for_ever() -> None:
    wire = Wire(blocks=True)
    reply = reply_on(wire)
    reply.head(200, [STREAM])
    asyncio.run(OPENAI.tell(reply, LumbreError("it went wrong"), None))
    assert (reply.ended, reply.given_up) == (False, True)


def test_a_client_that_reads_again_has_not_been_given_up() -> None:
    async def test() -> None:
        wire = Wire(blocks=True)
        reply = reply_on(wire)
        reply.head(200, [STREAM])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await reply.room()
        assert reply.given_up
        reply.end()
        assert not reply.given_up

    asyncio.run(test())
