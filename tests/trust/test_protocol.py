"""What a connection may do to the gateway: endless heads, no HTTP at all, a second request too early, never reading."""

import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import Call, openai_error, poll

CHAT = "/v1/chat/completions"
Connect = Callable[[GatewayProcess], socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens raw connections; those that a test leaves open are closed."""
    with contextlib.ExitStack() as opened:

        def open_one(gateway: GatewayProcess) -> socket.socket:
            address = urlsplit(gateway.url)
            raw = socket.create_connection((address.hostname, address.port), timeout=10)
            return opened.enter_context(raw)

        yield open_one


def request(gateway: GatewayProcess, body: dict[str, Any] | None = None, path: str = CHAT, **headers: str) -> bytes:
    """A request as bytes; without a body it is a GET."""
    raw = b"" if body is None else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {urlsplit(gateway.url).netloc}"]
    told = {"Content-Length": str(len(raw)), **headers} if raw else headers
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in told.items()]
    return "\r\n".join([*lines, "", ""]).encode() + raw


def asked(**wish: Any) -> dict[str, Any]:
    return {"model": "rogue", "messages": [{"role": "user", "content": "hi"}], "rogue": wish}


def read_all(raw: socket.socket) -> bytes:
    """Read until the gateway closes the connection."""
    data = bytearray()
    while more := raw.recv(65_536):
        data += more
    return bytes(data)


def told(reply: bytes) -> tuple[int, str]:
    """The status and the code of an error that is a whole reply."""
    head, _, body = reply.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert b"content-type: application/json" in lines
    assert b"content-length: %d" % len(body) in lines
    assert b"connection: close" in lines
    return int(head.split()[1]), openai_error(json.loads(body))["code"]


def holds(gateway: GatewayProcess, raw: socket.socket) -> bool:
    """Whether the gateway still has its end of a connection."""
    mine = raw.getsockname()[1]
    return any(getattr(each.raddr, "port", 0) == mine for each in psutil.Process(gateway.process.pid).net_connections())


@pytest.mark.parametrize(
    ("opening", "more"),
    [
        (b"GET /healthz HTTP/1.1\r\n", b"X-Note: %b\r\n" % (b"x" * 1000)),
        (b"GET /healthz HTTP/1.1\r\nX-Note: ", b"x" * 1000),
        (b"GET /healthz HTTP/1.1\r\n", b"x" * 1000),
        (b"GET /", b"x" * 1000),
        (
            b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X-Note: " + b"x" * 1000 + b"\r\n",
        ),
    ],
    ids=["many headers", "one long value", "one long name", "a long line", "trailers"],
)
def test_a_head_without_end_is_a_431(gateway: GatewayProcess, connect: Connect, opening: bytes, more: bytes) -> None:
    raw = connect(gateway)
    raw.sendall(opening.replace(b"\r\n", b"\r\nHost: %b\r\n" % urlsplit(gateway.url).netloc.encode(), 1))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(400):
            raw.sendall(more)
    assert told(read_all(raw)) == (431, "head_too_large")


def test_a_large_head_that_is_allowed_is_served(gateway: GatewayProcess, connect: Connect) -> None:
    raw = connect(gateway)
    raw.sendall(request(gateway, path="/healthz", X_Note="x" * 60_000, Connection="close"))
    assert read_all(raw).endswith(b'{"alive":true}')
    raw = connect(gateway)
    raw.sendall(request(gateway, path="/healthz", X_Note="x" * 65_536))
    assert told(read_all(raw)) == (431, "head_too_large")


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"GET /healthz\r\nno header\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
    ],
    ids=["TLS", "SSH", "no version", "no length", "no chunk"],
)
def test_what_is_no_http_is_a_400_in_the_usual_shape(gateway: GatewayProcess, connect: Connect, said: bytes) -> None:
    raw = connect(gateway)
    raw.sendall(said)
    assert told(read_all(raw)) == (400, "invalid_http")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "early",
    [request, lambda gateway: request(gateway, asked()), lambda _: b"nonsense\r\n\r\n"],
    ids=["GET", "POST", "?"],
)
def test_a_client_that_pipelines_and_leaves_is_seen_leaving(
    gateway: GatewayProcess,
    rogue: RogueProcess,
    connect: Connect,
    name: str,
    early: Callable[[GatewayProcess], bytes],
    stream: bool,
) -> None:
    raw = connect(gateway)
    raw.sendall(request(gateway, {**asked(id=name, do="silent"), "stream": stream}))
    rogue.wait(name, "started")
    raw.sendall(early(gateway) * 100)
    with gateway.get("/healthz") as call:  # the gateway has taken in what came before this
        assert call.status == 200
    assert gateway.busy()[0] == 1
    raw.close()
    rogue.wait(name, "gone", timeout_s=1)
    poll(lambda: gateway.busy() == (0, 0), 1)


def test_a_client_that_pipelines_gets_its_answers_in_their_order(
    gateway: GatewayProcess, rogue: RogueProcess, connect: Connect, name: str
) -> None:
    raw = connect(gateway)
    raw.sendall(request(gateway, asked(id=name, hold=True)))
    rogue.wait(name, "held")
    early = request(gateway, {**asked(id=f"{name}-early"), "stream": True})
    raw.sendall(early + request(gateway, path="/healthz", Connection="close"))
    with gateway.get("/healthz") as call:
        call.read()
    assert [one["id"] for one in rogue.log()["requests"]] == [name]
    rogue.release(name, 9)
    first, second, third = read_all(raw).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert b'"finish_reason":"stop"' in first.replace(b" ", b"")
    assert b"data: [DONE]" in second
    assert third.endswith(b'{"alive":true}')
    assert [one["id"] for one in rogue.log()["requests"]] == [name, f"{name}-early"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("early", ["too much", "no http"])
def test_a_client_that_sends_too_much_ahead_gets_its_first_answer_whole(
    gateway: GatewayProcess, rogue: RogueProcess, connect: Connect, name: str, early: str, stream: bool
) -> None:
    raw = connect(gateway)
    raw.sendall(request(gateway, {**asked(id=name, hold=True), "stream": stream}))
    rogue.wait(name, "held")
    ahead = request(gateway, asked(id=f"{name}-early"))
    raw.sendall(ahead + (b"no http\r\n\r\n" if early == "no http" else ahead * 400))
    with gateway.get("/healthz") as call:
        call.read()
    rogue.release(name, 99)
    head, _, body = read_all(raw).partition(b"\r\n\r\n")
    if stream:
        assert body.count(b"data: [DONE]\n\n") == 1
        assert body.endswith(b"\r\n0\r\n\r\n")
    else:
        assert b"connection: close" in head.lower()
        assert json.loads(body)["choices"][0]["finish_reason"] == "stop"
    assert [one["id"] for one in rogue.log()["requests"]] == [name]


def test_one_connection_carries_one_request_after_the_other(gateway: GatewayProcess) -> None:
    with gateway.chat({"rogue": {"text": "x" * 1_000_000}}) as call:
        assert call.status == 200
        call.read()
        for _ in range(3):
            call.connection.request("GET", "/healthz")
            with call.connection.getresponse() as reply:
                assert reply.read() == b'{"alive":true}'


@pytest.mark.parametrize("stream", [False, True])
def test_the_connection_of_a_client_that_does_not_read_is_cut_at_the_total_deadline(
    open_gateway: Opener, rogue: RogueProcess, connect: Connect, name: str, stream: bool
) -> None:
    gateway = open_gateway(deadlines={"total_s": 2}).ready()
    raw = connect(gateway)
    wish = {"text": "x" * 12_000_000, "chunks": 1}
    raw.sendall(request(gateway, {**asked(id=name, **wish), "stream": stream}))
    rogue.wait(name, "started")
    assert holds(gateway, raw)
    poll(lambda: gateway.busy() == (0, 0), 5, "its slot is still taken")
    poll(lambda: not holds(gateway, raw), 3, "its connection still lies there")
    with contextlib.suppress(ConnectionResetError):
        assert len(read_all(raw)) < 12_000_000


def test_a_body_that_stalls_is_a_408(open_gateway: Opener, rogue: RogueProcess, connect: Connect) -> None:
    gateway = open_gateway(sections={"limits": {"body_s": 0.5}}).ready()
    raw = connect(gateway)
    raw.sendall(request(gateway, asked())[:-5])
    assert told(read_all(raw)) == (408, "body_timeout")
    assert rogue.log()["seen"] == 0


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"messages": [1] * 2_500_000}, "messages[0]"),
        ({"messages": [{"role": "user", "content": [1] * 2_500_000}]}, "messages[0].content[0]"),
        ({"stop": [1] * 2_500_000}, "stop[0]"),
        ({"tools": [1] * 2_500_000}, "tools[0]"),
        ({"logit_bias": {str(number): "x" for number in range(300_000)}}, "logit_bias"),
    ],
    ids=["messages", "parts", "stop", "tools", "logit_bias"],
)
def test_a_large_body_of_faults_costs_no_more_than_itself(
    gateway: GatewayProcess, wrong: dict[str, Any], param: str
) -> None:
    process = psutil.Process(gateway.process.pid)
    before = process.memory_info().rss
    with gateway.chat(wrong) as call, gateway.get("/healthz") as health:
        assert health.status == 200
        assert (call.status, call.error()["param"]) == (400, param)
    assert process.memory_info().rss - before < 150_000_000


@pytest.mark.parametrize("prompt", [[{}] * 1_600_000, [1, *["x"] * 1_000_000]], ids=["objects", "mixed"])
def test_a_large_prompt_of_faults_costs_no_more_than_itself(gateway: GatewayProcess, prompt: list[Any]) -> None:
    process = psutil.Process(gateway.process.pid)
    before = process.memory_info().rss
    with gateway.get("/v1/completions", body={"prompt": prompt}) as call:
        assert call.status == 400
        assert call.error()["param"].startswith("prompt[")
    assert process.memory_info().rss - before < 400_000_000


@pytest.mark.parametrize("levels", [201, 300, 900])
def test_json_deeper_than_the_gateway_writes_is_a_400(gateway: GatewayProcess, levels: int) -> None:
    nested = '{"a":' * (levels - 1) + "1" + "}" * (levels - 1)
    body = json.dumps({**asked(), "vendor": 0}).replace('"vendor": 0', f'"vendor": {nested}')
    with Call(f"{gateway.url}{CHAT}", body) as call:
        assert call.status == 400
        error = call.error()
    assert error["code"] == "too_deep"
    assert "200" in error["message"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "[::1"}, "host_not_allowed"),
        ({"Host": "localhost:port"}, "host_not_allowed"),
        ({"Host": "localhost:99999"}, "host_not_allowed"),
        ({"Host": ""}, "host_not_allowed"),
        ({"Origin": "http://["}, "origin_not_allowed"),
        ({"Origin": "null"}, "origin_not_allowed"),
        ({"Origin": "http://localhost:port"}, "origin_not_allowed"),
    ],
    ids=str,
)
def test_an_address_that_is_none_is_a_403(gateway: GatewayProcess, headers: dict[str, str], code: str) -> None:
    with gateway.get("/healthz", headers=headers) as call:
        assert (call.status, call.error()["code"]) == (403, code)


def test_a_client_that_resets_in_the_middle_of_its_head_leaves_nothing(
    gateway: GatewayProcess, connect: Connect
) -> None:
    raw = connect(gateway)
    raw.sendall(b"GET /hea")
    poll(lambda: holds(gateway, raw))
    port = raw.getsockname()[1]
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()
    process = psutil.Process(gateway.process.pid)
    poll(lambda: all(getattr(each.raddr, "port", 0) != port for each in process.net_connections()))
