"""HTTP as nobody should send it, against the real process: whatever comes, each request is answered once and in its
order, no engine hears of what was refused, and nothing is left behind.
"""

import json
from collections.abc import Callable

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from gateway_process import GatewayProcess
from raw_http import RawHttp, Told, asked, client_ports, get, post, post_chunked
from rogue_process import RogueProcess
from wire_client import poll

CHAT = "/v1/chat/completions"
ALIVE = b'{"alive":true}'
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"


def finished(told: Told) -> bool:
    """Whether this is a whole answer of the rogue's."""
    return told.status == 200 and told.json()["choices"][0]["finish_reason"] == "stop"


def bodies_seen(rogue: RogueProcess) -> list[str]:
    return [json.loads(one["body"])["messages"][0]["content"] for one in rogue.log()["requests"]]


@pytest.mark.parametrize("make", [post, lambda body: post_chunked(body, 1, 30)], ids=["length", "chunks"])
def test_a_request_may_be_cut_at_any_byte(
    gateway: GatewayProcess, rogue: RogueProcess, make: Callable[[bytes], bytes]
) -> None:
    request = make(b'{"model":"rogue","messages":[{"role":"user","content":"hi"}]}')
    with RawHttp(gateway.url) as raw:
        for at in range(len(request)):
            raw.send(request[:at], request[at:])
            assert finished(raw.read()), at
    assert bodies_seen(rogue) == ["hi"] * len(request)


def test_requests_sent_at_once_are_answered_in_their_order(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    several = [
        get(),
        post(asked(text="one")),
        post(b"{"),
        get("/nowhere"),
        post_chunked(asked(text="two"), 7),
        get(CHAT),
        get(method="HEAD"),
        post({**asked(text="three"), "stream": True}),
        get("/v1/models"),
    ]
    expected = [200, 200, 400, 404, 200, 405, 200, 200, 200]
    stream = b"".join(several)
    with RawHttp(gateway.url) as raw:
        for at in range(0, len(stream), 40):
            raw.send(stream[:at], stream[at:])
            told = [raw.read("HEAD" if number == 6 else "POST") for number in range(len(several))]
            assert [each.status for each in told] == expected
            assert told[0].body == ALIVE
            assert [told[number].json()["choices"][0]["message"]["content"] for number in (1, 4)] == ["one", "two"]
            assert told[7].body.endswith(b"data: [DONE]\n\n")
            assert told[8].json()["object"] == "list"
    assert rogue.log()["seen"] == 3 * len(range(0, len(stream), 40))


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_an_expectation_is_met_before_the_body(gateway: GatewayProcess, framing: str) -> None:
    expects = b"Expect: 100-continue\r\n"
    request = post(asked(), head=expects) if framing == "length" else post_chunked(asked(), head=expects)
    head, _, body = request.partition(b"\r\n\r\n")
    with RawHttp(gateway.url) as raw:
        raw.send(head + b"\r\n\r\n")
        assert raw.read_interim() == 100
        raw.send(body)
        assert finished(raw.read())


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (
            post(asked(), head=b"Expect: 100-continue\r\nHost: evil.example\r\n").replace(b"Host: localhost\r\n", b""),
            403,
        ),
        (post(asked(), head=b"Expect: 100-continue\r\nOrigin: http://evil.example\r\n"), 403),
        (post(asked(), head=b"Expect: tea\r\n"), 417),
        (post(asked(), head=b"Expect: 100-continue\r\nContent-Encoding: gzip\r\n"), 415),
        (get(CHAT, "PUT", b"Expect: 100-continue\r\nContent-Length: 9\r\n"), 405),
    ],
)
def test_what_is_refused_is_refused_before_its_body(
    gateway: GatewayProcess, rogue: RogueProcess, request_: bytes, status: int
) -> None:
    with RawHttp(gateway.url) as raw:
        raw.send(request_.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        assert raw.read_last().status == status
    assert rogue.log()["seen"] == 0


SMUGGLING = {
    "two lengths": b"Content-Length: 4\r\nContent-Length: 0\r\n",
    "a list of lengths": b"Content-Length: 4, 0\r\n",
    "a length with a sign": b"Content-Length: +4\r\n",
    "a negative length": b"Content-Length: -4\r\n",
    "a hexadecimal length": b"Content-Length: 0x4\r\n",
    "a huge length": b"Content-Length: 18446744073709551620\r\n",
    "a folded length": b"Content-Length: 4\r\n 0\r\n",
    "a length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    "identity": b"Transfer-Encoding: identity\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "gzip and chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "two codings": b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
    "two codings the other way": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "a space in front of the colon": b"Transfer-Encoding : chunked\r\n",
    "a tab in front of the colon": b"Transfer-Encoding\t: chunked\r\n",
    "a tab behind the coding": b"Transfer-Encoding: chunked\t\r\n",
    "a bare LF": b"X: y\nTransfer-Encoding: chunked\r\n",
    "a bare CR": b"X: y\rTransfer-Encoding: chunked\r\n",
    "a bare LF at the end": b"Content-Length: 4\n\n",
    "a NUL": b"Transfer-Encoding\x00: chunked\r\n",
    "a second Host": b"Content-Length: 4\r\nHost: evil.example\r\n",
    "upgraded, with two codings": UPGRADE + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
    "upgraded, with two lengths": UPGRADE + b"Content-Length: 4\r\nContent-Length: 0\r\n",
}


@pytest.mark.parametrize("where", ["first", "behind an answer"])
@pytest.mark.parametrize("name", SMUGGLING)
def test_a_request_of_two_readings_smuggles_nothing(
    gateway: GatewayProcess, rogue: RogueProcess, name: str, where: str
) -> None:
    hidden = post(asked(text="smuggled"))
    data = b"POST %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n0\r\n\r\n" % (CHAT.encode(), SMUGGLING[name]) + hidden * 2
    with RawHttp(gateway.url) as raw:
        if where != "first":
            raw.send(get())
            assert raw.read().body == ALIVE
        raw.send(data[:60], data[60:])
        told = raw.read_last()
        assert (told.status, told.code, told.headers["connection"]) == (400, "invalid_http", "close")
    assert rogue.log()["seen"] == 0


@pytest.mark.parametrize(
    ("tail", "status", "code"),
    [
        (b"zz\r\n{}\r\n0\r\n\r\n", 400, "invalid_http"),
        (b"1\r\n{}\r\n0\r\n\r\n", 400, "invalid_http"),
        (b"-2\r\n{}\r\n0\r\n\r\n", 400, "invalid_http"),
        (b"FFFFFFFFFFFFFFFFF\r\n{}", 400, "invalid_http"),
        (b"7FFFFFFFFFFFFFFF\r\n" + b"{}" * 20_000_000, 413, "body_too_large"),
        (b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 20_000, 431, "head_too_large"),
        (b"2;" + b"x" * 400_000, 431, "head_too_large"),
    ],
    ids=["no size", "more than said", "negative", "overflow", "endless", "trailers", "extension"],
)
def test_chunks_that_are_wrong_end_the_connection(
    gateway: GatewayProcess, rogue: RogueProcess, tail: bytes, status: int, code: str
) -> None:
    hidden = post(asked())
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT.encode()
    with RawHttp(gateway.url) as raw:
        raw.send(head, tail + hidden)
        told = raw.read_last()
        assert (told.status, told.code) == (status, code)
    assert rogue.log()["seen"] == 0


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: \r\n", 403),
        (b"GET /healthz HTTP/1.0\r\n", 200),
        (b"GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\n", 200),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n", 403),
        (b"GET http://evil.example@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n", 200),
        (b"GET http://localhost@evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n", 403),
        (b"GET ftp://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost/x\r\n", 403),
        (b"GET /healthz HTTP/1.1\r\nHost: evil.example@localhost\r\n", 403),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: evil.example\r\n", 200),
    ],
    ids=repr,
)
def test_the_host_that_counts_is_one_of_ours(gateway: GatewayProcess, head: bytes, status: int) -> None:
    with RawHttp(gateway.url) as raw:
        raw.send(head + b"\r\n")
        assert raw.read().status == status


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("*", "OPTIONS"), 400),
        (get("*"), 400),
        (get("/healthz", "OPTIONS"), 405),
        (get("/healthz", "TRACE"), 405),
        (get("/healthz", "PURGE"), 405),
        (get(CHAT, "TRACE"), 405),
        (get(CHAT, "PROPFIND"), 405),
        (get("/healthz", "BREW"), 400),
        (get("/healthz", "get"), 400),
        (get("localhost:80", "CONNECT"), 405),
        (get("/v1/chat%2fcompletions"), 405),
        (get("/v1/%63hat/completions"), 405),
        (get("/v1/chat%252fcompletions"), 404),
        (get("/v1/chat/completions%00"), 404),
        (get("/v1/chat/completions/"), 404),
        (get("/v1/../v1/chat/completions"), 404),
        (get("//v1/chat/completions"), 404),
        (get("//v1/.."), 404),
        (get("//evil.example/"), 404),
        (get("/%ff%zz"), 404),
        (get("/%0d%0aX-Injected:%20yes"), 404),
        (get("/healthz\x00"), 400),
        (get("/healthz\xff"), 400),
        (get(head=b"X: a\x00b\r\n"), 400),
        (get(head=b"X: \xff\xfe\r\n"), 200),
        (get(head=b"X\xff: a\r\n"), 400),
        (b"GET /healthz\r\nHost: localhost\r\n\r\n", 505),
        (get(version="0.9"), 505),
        (get(version="2.0"), 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 400),
    ],
    ids=repr,
)
def test_an_odd_line_is_answered_plainly(gateway: GatewayProcess, request_: bytes, status: int) -> None:
    with RawHttp(gateway.url) as raw:
        raw.send(request_)
        told = raw.read()
        assert told.status == status
        assert told.code if status >= 400 else told.body == ALIVE


def test_a_door_is_found_by_its_decoded_path_and_asked_for_alike(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    with RawHttp(gateway.url) as raw:
        raw.send(post(asked(), "/v1/chat%2fcompletions") + post(asked(), "/v1/%63hat/completions?x=%2f"))
        assert finished(raw.read())
        assert finished(raw.read())
        raw.send(post(asked(), "/v1/chat%2fcompletions", b"Origin: http://evil.example\r\n"))
        assert raw.read_last().status == 403
    assert rogue.log()["seen"] == 2


INJECTION = "x\r\nX-Injected: yes\r\n\r\nHTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "request_",
    [
        post({**asked(), "model": INJECTION}),
        post({**asked(), "stream": True, "model": INJECTION}),
        post({**asked(), "lumbre": {"tier": INJECTION}}),
        post({**asked(), "lumbre": {INJECTION: "A"}}),
        post({**asked(), INJECTION: "kept"}),
        post(asked(), head=b"X-Lumbre-Tier: A%0d%0aX-Injected: yes\r\n"),
        post(asked(), head=b"X-Lumbre-Tier: \xe2\x98\x83\r\n"),
        post(asked(), head=b"X-Lumbre-Class: A\tB\r\n"),
        get("/v1/models/x%0d%0aX-Injected:%20yes"),
        get("/x%0d%0aX-Injected:%20yes"),
        get(CHAT, head=b"X-Request-Id: x%0d%0aX-Injected: yes\r\n"),
    ],
    ids=repr,
)
def test_nothing_that_a_client_says_becomes_a_header(gateway: GatewayProcess, request_: bytes) -> None:
    with RawHttp(gateway.url) as raw:
        raw.send(request_ + get())
        assert "x-injected" not in raw.read().headers
        assert raw.read().body == ALIVE


@pytest.mark.parametrize("again", [b"", b"Connection: keep-alive\r\n"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_http_1_0_gets_no_chunks(gateway: GatewayProcess, again: bytes, stream: bool) -> None:
    request = post({**asked(text="old", chunks=1), "stream": stream}, head=again).replace(b"HTTP/1.1", b"HTTP/1.0")
    with RawHttp(gateway.url) as raw:
        raw.send(request)
        told = raw.read()
        assert b"old" in told.body
        assert told.framing == ("close" if stream else "length")
        if again and not stream:
            assert told.headers["connection"] == "keep-alive"
            raw.send(request)
            told = raw.read()
            assert finished(told)
        else:
            assert told.headers["connection"] == "close"
            assert raw.read_rest() == b""


@pytest.mark.parametrize("upgrade", [UPGRADE, WEBSOCKET], ids=["h2c", "websocket"])
def test_a_wish_to_speak_something_else_is_answered_in_http_1_1(
    gateway: GatewayProcess, rogue: RogueProcess, upgrade: bytes
) -> None:
    requests = [
        get(head=upgrade),
        post(asked(text="one"), head=upgrade),
        post_chunked(asked(text="two"), 9, head=upgrade),
        get(head=upgrade),
    ]
    stream = b"".join(requests)
    with RawHttp(gateway.url) as raw:
        for at in (0, 200, len(stream) // 2, len(stream) - 40):
            raw.send(stream[:at], stream[at:])
            told = [raw.read() for _ in requests]
            assert [told[0].body, told[3].body] == [ALIVE, ALIVE]
            assert [each.json()["choices"][0]["message"]["content"] for each in told[1:3]] == ["one", "two"]
    assert rogue.log()["seen"] == 8


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/openapi.json", "/nowhere", CHAT])
def test_a_head_request_gets_the_head_and_nothing_else(gateway: GatewayProcess, path: str) -> None:
    with RawHttp(gateway.url) as raw:
        raw.send(get(path, "HEAD") + get(path) + get())
        bare, full = raw.read("HEAD"), raw.read()
        assert bare.status == full.status
        assert raw.read().body == ALIVE


def test_after_a_storm_of_it_all_nothing_is_left(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    process = psutil.Process(gateway.process.pid)
    wrong = [
        b"POST %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n0\r\n\r\n" % (CHAT.encode(), each) for each in SMUGGLING.values()
    ]
    halves = [get()[:20], post(asked())[:-4], post_chunked(asked(), 5)[:-7], b"\x16\x03\x01", b""]
    whole = [post(asked()), post({**asked(), "stream": True}), get("/v1/models"), post(b"{")]

    def storm() -> None:
        for number, data in enumerate([*wrong, *halves, *whole] * 4):
            with RawHttp(gateway.url) as raw:
                raw.send(data)
                if data in whole:
                    raw.read()
                raw.leave(reset=number % 2 == 0)

    storm()
    poll(lambda: gateway.busy() == (0, 0))
    poll(lambda: len(client_ports(gateway.url, process.pid)) <= 1)
    before, files = process.memory_info().rss, process.num_fds()
    for _ in range(3):
        storm()
    poll(lambda: gateway.busy() == (0, 0))
    poll(lambda: len(client_ports(gateway.url, process.pid)) <= 1, what="connections are left")
    poll(lambda: process.num_fds() <= files + 4, what="files are left open")
    assert process.memory_info().rss - before < 10_000_000
    rogue.wait_running(0)
