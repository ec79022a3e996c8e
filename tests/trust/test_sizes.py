"""Sizes are checked before bodies are read."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import Call, openai_error

LIMIT = 65_536
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def small(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(sections={"limits": {"body_bytes": LIMIT}}).ready()


def padded(size: int) -> bytes:
    body = json.dumps({"model": "rogue", "messages": [{"role": "user", "content": "hi"}], "note": ""}).encode()
    return body.replace(b'"note": ""', b'"note": "%b"' % (b"x" * (size - len(body))))


@pytest.fixture
def raw(small: GatewayProcess) -> Iterator[socket.socket]:
    address = urlsplit(small.url)
    with socket.create_connection((address.hostname, address.port), timeout=5) as connection:
        yield connection


def read_reply(raw: socket.socket) -> tuple[bytes, bytes]:
    """Read one reply with a Content-Length: its head and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += (more := raw.recv(65_536))
        assert more, data
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += (more := raw.recv(65_536))
        assert more, data
    return head, body


def test_a_body_over_the_limit_is_refused_by_its_header_alone(
    small: GatewayProcess, raw: socket.socket, rogue: RogueProcess
) -> None:
    raw.sendall(HEAD % urlsplit(small.url).netloc.encode() + b"Content-Length: 65537\r\n\r\n")
    head, body = read_reply(raw)
    assert head.startswith(b"HTTP/1.1 413 ")
    assert openai_error(json.loads(body))["code"] == "body_too_large"
    assert rogue.log()["seen"] == 0


def test_a_client_that_waits_for_100_continue_gets_the_refusal_instead(
    small: GatewayProcess, raw: socket.socket
) -> None:
    expectation = b"Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n"
    raw.sendall(HEAD % urlsplit(small.url).netloc.encode() + expectation)
    assert read_reply(raw)[0].startswith(b"HTTP/1.1 413 ")


def test_a_chunked_body_is_refused_as_soon_as_it_is_over_the_limit(small: GatewayProcess, raw: socket.socket) -> None:
    raw.sendall(HEAD % urlsplit(small.url).netloc.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(17):
        raw.sendall(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
    head, body = read_reply(raw)
    assert head.startswith(b"HTTP/1.1 413 ")
    assert openai_error(json.loads(body))["code"] == "body_too_large"


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413)])
def test_the_limit_itself_is_allowed(small: GatewayProcess, size: int, status: int) -> None:
    with Call(f"{small.url}/v1/chat/completions", padded(size)) as call:
        assert call.status == status
        call.read()


def test_a_client_that_stops_in_the_middle_of_its_body_holds_nothing(
    small: GatewayProcess, raw: socket.socket, rogue: RogueProcess
) -> None:
    raw.sendall(HEAD % urlsplit(small.url).netloc.encode() + b"Content-Length: 500\r\n\r\n{")
    raw.close()
    with small.chat() as call:
        assert call.status == 200
        call.read()
    assert small.busy() == (0, 0)
    assert rogue.log()["seen"] == 1


@pytest.mark.parametrize("body", [b"[" * 30_000, b'{"a":' * 9_000, b"1" * 60_000], ids=["lists", "objects", "digits"])
def test_json_made_to_hurt_is_a_400(small: GatewayProcess, body: bytes) -> None:
    with Call(f"{small.url}/v1/chat/completions", body) as call:
        assert call.status == 400
        call.error()
