"""What a client's bytes are taken for: however they are cut the same, and one request never for two."""

import tracemalloc
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.api.bounds import Bounds
from lumbre.api.intake import Intake
from lumbre.api.request import Request
from lumbre.core.errors import CallerError, LumbreError
from raw_http import get, post, post_chunked

BOUNDS = Bounds(head_bytes=2_000, body_bytes=5_000)
SMUGGLED = get("/smuggled")
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"


@dataclass
class Heard:
    """Records what an intake tells."""

    refuses: str = ""
    heads: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    faults: list[LumbreError] = field(default_factory=list)

    def head(self, request: Request, *, with_body: bool) -> None:
        self.heads.append(f"{request.method} {request.path}{' …' if with_body else ''}")
        if request.path == self.refuses:
            raise CallerError("not you", status=403)

    def whole(self, request: Request) -> None:
        self.requests.append(request)

    def wrong(self, request: Request, error: LumbreError) -> None:
        del request
        self.faults.append(error)

    @property
    def told(self) -> list[tuple[str, str, bytes, dict[str, str]]]:
        return [(each.method, each.path, each.body, each.headers) for each in self.requests]

    @property
    def verdict(self) -> tuple[int, str]:
        """Status and code of the one fault."""
        (fault,) = self.faults
        return fault.status, fault.code


def hear(*pieces: bytes, bounds: Bounds = BOUNDS, refuses: str = "") -> Heard:
    heard = Heard(refuses)
    intake = Intake(heard, bounds)
    for piece in pieces:
        intake.feed(piece)
    return heard


def one(data: bytes) -> Request:
    """The one request that these bytes are."""
    heard = hear(data)
    assert heard.faults == []
    (request,) = heard.requests
    return request


SEVERAL = b"".join(
    [
        get("/1"),
        post(b'{"a": 1}', "/2"),
        get("/3", "HEAD"),
        post_chunked(b"0123456789", 3, 1, trailers=b"X-Trailer: t\r\n"),
        post(b"", "/5", head=b"Expect: 100-continue\r\n"),
        post(b"upgraded", "/6", head=UPGRADE),
        get("/7", "DELETE"),
        post_chunked(b"", head=UPGRADE),
        get("/9?a=%20b"),
    ]
)


def test_requests_are_taken_in_their_order() -> None:
    heard = hear(SEVERAL)
    assert heard.faults == []
    assert [(each.method, each.path, each.body) for each in heard.requests] == [
        ("GET", "/1", b""),
        ("POST", "/2", b'{"a": 1}'),
        ("HEAD", "/3", b""),
        ("POST", "/v1/chat/completions", b"0123456789"),
        ("POST", "/5", b""),
        ("POST", "/6", b"upgraded"),
        ("DELETE", "/7", b""),
        ("POST", "/v1/chat/completions", b""),
        ("GET", "/9", b""),
    ]
    assert heard.requests[-1].query == b"a=%20b"
    assert heard.heads[:3] == ["GET /1", "POST /2 …", "HEAD /3"]
    assert "x-trailer" not in heard.requests[3].headers


def test_a_cut_at_any_byte_changes_nothing() -> None:
    whole = hear(SEVERAL)
    for at in range(len(SEVERAL)):
        heard = hear(SEVERAL[:at], SEVERAL[at:])
        assert (heard.told, heard.heads, heard.faults) == (whole.told, whole.heads, []), at


def test_bytes_one_by_one_change_nothing() -> None:
    heard = hear(*(SEVERAL[at : at + 1] for at in range(len(SEVERAL))))
    assert (heard.told, heard.faults) == (hear(SEVERAL).told, [])


@given(st.lists(st.integers(0, len(SEVERAL)), max_size=12))
def test_cuts_anywhere_change_nothing(cuts: list[int]) -> None:
    ends = sorted(cuts)
    pieces = [SEVERAL[start:end] for start, end in zip([0, *ends], [*ends, len(SEVERAL)], strict=True)]
    heard = hear(*pieces)
    assert (heard.told, heard.faults) == (hear(SEVERAL).told, [])


SMALL = post_chunked(b"{}", 1)


def test_two_cuts_anywhere_in_a_small_request_change_nothing() -> None:
    whole = hear(SMALL).told
    for first in range(len(SMALL)):
        for second in range(first, len(SMALL), 7):
            assert hear(SMALL[:first], SMALL[first:second], SMALL[second:]).told == whole, (first, second)


bodies = st.binary(max_size=60)
requests = st.one_of(
    st.builds(post, bodies, st.sampled_from(["/a", "/b?c"])),
    st.builds(lambda body, sizes: post_chunked(body, *sizes), st.binary(min_size=9, max_size=60), st.just((3, 2))),
    st.builds(get, st.sampled_from(["/a", "/%C3%A9"]), st.sampled_from(["GET", "HEAD", "DELETE", "OPTIONS"])),
)


@given(st.lists(requests, min_size=1, max_size=5), st.data())
def test_any_requests_cut_anywhere_are_taken_as_they_were_sent(sent: list[bytes], data: st.DataObject) -> None:
    apart = [hear(each).told[0] for each in sent]
    stream = b"".join(sent)
    at = data.draw(st.integers(0, len(stream)))
    heard = hear(stream[:at], stream[at:])
    assert (heard.told, heard.faults) == (apart, [])


FRAMING = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 0",
    "the same length twice": b"Content-Length: 5\r\nContent-Length: 5",
    "a list of lengths": b"Content-Length: 5, 5",
    "a plus": b"Content-Length: +5",
    "a minus": b"Content-Length: -5",
    "hexadecimal": b"Content-Length: 0x5",
    "an underscore": b"Content-Length: 1_0",
    "two numbers": b"Content-Length: 5 5",
    "no number": b"Content-Length: ",
    "a number in other digits": "Content-Length: ٥".encode(),
    "too large for any machine": b"Content-Length: 99999999999999999999999",
    "a folded length": b"Content-Length: 5\r\n 0",
    "a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    "identity": b"Transfer-Encoding: identity",
    "identity, then chunks": b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "chunks, then identity": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "chunks twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "chunked, chunked": b"Transfer-Encoding: chunked, chunked",
    "gzip, chunked": b"Transfer-Encoding: gzip, chunked",
    "nothing, chunked": b"Transfer-Encoding: , chunked",
    "xchunked": b"Transfer-Encoding: xchunked",
    "chunkedx": b"Transfer-Encoding: chunkedx",
    "quoted": b'Transfer-Encoding: "chunked"',
    "with a parameter": b"Transfer-Encoding: chunked;q=1",
    "a tab behind it": b"Transfer-Encoding: chunked\t",
    "a control in front": b"Transfer-Encoding: \x0bchunked",
    "no coding": b"Transfer-Encoding: ",
    "a folded coding": b"Transfer-Encoding:\r\n chunked",
    "a space in front of the colon": b"Transfer-Encoding : chunked",
    "a tab in front of the colon": b"Transfer-Encoding\t: chunked",
    "a space in front of the name": b" Transfer-Encoding: chunked",
    "a NUL in the name": b"Transfer\x00-Encoding: chunked",
    "a line ended by LF": b"X: a\nContent-Length: 5",
    "a line ended by CR": b"X: a\rContent-Length: 5",
    "a NUL in a value": b"X: a\x00b",
    "a control in a value": b"X: a\x01b",
    "no colon": b"X",
    "no name": b": a",
    "a second Host": b"Host: evil.example",
    "the same Host again": b"Host: localhost",
}


@pytest.mark.parametrize("name", FRAMING)
def test_what_could_be_read_in_two_ways_is_read_in_none(name: str) -> None:
    data = b"POST /one HTTP/1.1\r\nHost: localhost\r\n" + FRAMING[name] + b"\r\n\r\n0\r\n\r\n" + SMUGGLED * 3
    for at in range(len(data)):
        heard = hear(data[:at], data[at:], SMUGGLED)
        assert (heard.verdict, heard.requests) == ((400, "invalid_http"), []), at


CHUNKS = {
    "no number": b"zz\r\nabc\r\n",
    "a prefix": b"0x3\r\nabc\r\n",
    "a plus": b"+3\r\nabc\r\n",
    "a minus": b"-1\r\nabc\r\n",
    "a space in front": b" 3\r\nabc\r\n",
    "a space behind": b"3 \r\nabc\r\n",
    "an empty line": b"\r\n3\r\nabc\r\n",
    "too large": b"FFFFFFFFFFFFFFFFF\r\nabc\r\n",
    "more than said": b"3\r\nabcd\r\n",
    "no end of the chunk": b"3\r\nabc0\r\n\r\n",
    "a line ended by LF": b"3\nabc\r\n",
    "an extension ended by LF": b"3;a=b\nabc\r\n",
    "a NUL in an extension": b"3;a\x00\r\nabc\r\n",
    "a length among the trailers": b"0\r\nContent-Length: 5\r\n\r\n",
    "a coding among the trailers": b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a trailer ended by LF": b"0\r\nX: y\n\n",
    "no trailer": b"0\r\nX\r\n\r\n",
}


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_that_is_none_ends_everything(name: str) -> None:
    data = b"POST /one HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS[name] + b"0\r\n\r\n"
    for at in range(len(data)):
        heard = hear(data[:at], data[at:], SMUGGLED)
        assert (heard.verdict, heard.requests) == ((400, "invalid_http"), []), at


@pytest.mark.parametrize("body", [b"3;a=b;c\r\nabc\r\n0;d\r\n\r\n", b"000000003\r\nabc\r\n000\r\nX: y\r\n\r\n"])
def test_extensions_zeros_and_trailers_mean_nothing(body: bytes) -> None:
    assert one(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: CHUNKED\r\n\r\n" + body).body == b"abc"


LINES = {
    b"GET /\r\nHost: localhost\r\n\r\n": 505,
    b"GET / HTTP/0.9\r\nHost: localhost\r\n\r\n": 505,
    b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n": 505,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 400,
    b"GET / HTTP/1.2\r\nHost: localhost\r\n\r\n": 400,
    b"GET / HTTP/1.1 \r\nHost: localhost\r\n\r\n": 400,
    b"GET / HTTP/1.1\nHost: localhost\n\n": 400,
    b"GET\t/ HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET /a\x00b HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET a HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET http:///a HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET ftp://localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"get / HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\n\r\n": 400,
    b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n": 405,
    b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\n\r\n": 417,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n\r\n": 415,
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5001\r\n\r\n": 413,
}


@pytest.mark.parametrize("data", LINES, ids=repr)
def test_what_is_not_spoken_here_ends_everything(data: bytes) -> None:
    for at in range(len(data)):
        heard = hear(data[:at], data[at:] + SMUGGLED, SMUGGLED)
        assert (heard.verdict[0], heard.requests) == (LINES[data], []), at


@pytest.mark.parametrize(
    ("target", "path", "query", "host"),
    [
        ("/a/b?c=d?e", "/a/b", b"c=d?e", "localhost"),
        ("/v1/chat%2fcompletions", "/v1/chat/completions", b"", "localhost"),
        ("/v1/%63hat", "/v1/chat", b"", "localhost"),
        ("/%00%0d%0a", "/\x00\r\n", b"", "localhost"),
        ("/%C3%A9%FF%zz", "/é\ufffd%zz", b"", "localhost"),
        ("/a?%2F", "/a", b"%2F", "localhost"),
        ("//evil.example/../a", "//evil.example/../a", b"", "localhost"),
        ("http://other:99/a?b", "/a", b"b", "other:99"),
        ("HTTPS://other", "/", b"", "other"),
        ("http://me@other/a", "/a", b"", "other"),
        ("http://other?b", "/", b"b", "other"),
    ],
)
def test_a_target_is_a_path_and_an_absolute_one_brings_its_host(
    target: str, path: str, query: bytes, host: str
) -> None:
    request = one(get(target))
    assert (request.path, request.query, request.headers["host"]) == (path, query, host)


def test_headers_of_one_name_are_one() -> None:
    lines = b"Authorization: Bearer a\r\nX: 1\r\nauthorization: Bearer b\r\nx: 2\r\nX: \xff\r\n"
    headers = one(get(head=lines)).headers
    assert headers == {"host": "localhost", "authorization": "Bearer a, Bearer b", "x": "1, 2, ÿ"}


@pytest.mark.parametrize("again", [b"", b"Connection: close\r\n"])
def test_a_wish_to_speak_something_else_is_passed_over(again: bytes) -> None:
    request = one(post(b"abc", head=UPGRADE + again))
    assert request.body == b"abc"
    assert request.headers.get("connection") == ("close" if again else None)
    assert not {"upgrade", "http2-settings"} & request.headers.keys()


def test_thousands_of_such_wishes_at_once_are_passed_over() -> None:
    heard = hear(post(b"abc", head=UPGRADE) * 2_000)
    assert ([each.body for each in heard.requests], heard.faults) == ([b"abc"] * 2_000, [])


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * 2_600,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 500,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a" * 2_600,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2_600,
        b"\r\n" * 1_300,
        SMALL[:-2] + b"X: a\r\n" * 500,
        SMALL[:-2] + b"X: " + b"a" * 2_600,
        SMALL[:-5] + b"1;" + b"a" * 2_600,
    ],
    ids=["line", "headers", "name", "value", "empty lines", "trailers", "trailer", "extension"],
)
@pytest.mark.parametrize("size", [1, 500])
def test_no_part_of_a_head_grows_without_end(data: bytes, size: int) -> None:
    heard = hear(*(data[at : at + size] for at in range(0, len(data), size)))
    assert (heard.verdict, heard.requests) == ((431, "head_too_large"), [])


def test_a_body_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert len(one(post(b"x" * 5_000)).body) == 5_000
    assert hear(post(b"x" * 5_001)).verdict == (413, "body_too_large")
    assert len(one(post_chunked(b"x" * 5_000, *[999] * 5)).body) == 5_000
    heard = hear(post_chunked(b"x" * 5_001, *[999] * 5) + SMUGGLED)
    assert (heard.verdict, heard.requests) == ((413, "body_too_large"), [])


def test_a_body_of_tiny_chunks_takes_no_more_memory_than_its_size() -> None:
    data = post_chunked(b"x" * 150_000, *[2] * 74_999)
    heard, bounds = Heard(), Bounds()
    intake = Intake(heard, bounds)
    tracemalloc.start()
    try:
        for at in range(0, len(data), 65_536):
            intake.feed(data[at : at + 65_536])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(heard.requests[0].body) == 150_000
    assert peak < 1_000_000


def test_a_request_that_is_refused_by_its_head_ends_everything_only_if_it_has_a_body() -> None:
    heard = hear(get("/no") + get("/yes"), refuses="/no")
    assert [each.refusal is None for each in heard.requests] == [False, True]
    heard = hear(post(SMUGGLED, "/no") + get("/yes"), refuses="/no")
    assert (heard.verdict[0], heard.requests) == (403, [])


@pytest.mark.parametrize(
    ("begun", "code"),
    [(b"GE", "head_timeout"), (b"\r\n", "head_timeout"), (SMALL[:-6], "body_timeout"), (SMALL[:-1], "body_timeout")],
)
def test_what_is_late_is_told_by_what_it_is(begun: bytes, code: str) -> None:
    heard = Heard()
    intake = Intake(heard, BOUNDS)
    intake.feed(begun)
    intake.late()
    intake.late()
    assert heard.verdict == (408, code)
    intake.feed(SMALL)
    assert heard.requests == []


def test_what_is_held_is_what_is_not_whole_yet() -> None:
    heard = Heard()
    intake = Intake(heard, BOUNDS)
    data = post(b"x" * 1_000)
    assert intake.held == 0
    for at in range(len(data) - 1):
        intake.feed(data[at : at + 1])
        assert abs(intake.held - at) < 60
    intake.feed(data[-1:])
    assert intake.held == 0
    assert abs(heard.requests[0].size - len(data)) < 10
