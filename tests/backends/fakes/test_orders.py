"""What a test orders the rogue to do, and which requests it refuses when it is strict."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from lumbre.backends.fakes.rogue.orders import Orders
from lumbre.backends.fakes.rogue.wish import WishError, read_ask
from rogue_process import RogueProcess
from wire_client import Call

OPENAI = {"Authorization": "Bearer k"}
ANTHROPIC = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path_factory.mktemp("rogue")) as process:
        yield process


@pytest.fixture
def rogue(process: RogueProcess) -> Iterator[RogueProcess]:
    yield process
    put(process, "order", {})
    put(process, "demand")
    process.wait_running(0)
    process.forget()


def put(rogue: RogueProcess, what: str, body: object = None, **query: object) -> None:
    with Call(f"{rogue.url}/rogue/{what}?{urlencode(query)}", json.dumps(body), method="PUT") as call:
        assert call.status == 200


def ask(rogue: RogueProcess, body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str) -> Call:
    return Call(rogue.url + path, {"model": "m", "messages": HELLO, **body}, headers, deadline_s=10)


def status(rogue: RogueProcess, body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str) -> int:
    with ask(rogue, body, path, **headers) as call:
        call.read()
        return call.status


def test_an_order_stands_over_what_a_request_wishes_for_so_many_requests() -> None:
    orders = Orders()
    orders.give({"do": "refuse", "status": 503}, 2)
    wished = read_ask(b'{"rogue": {"do": "stall", "id": "x", "chunks": 9}, "stream": true}')
    for _ in range(2):
        ordered = orders.take(wished)
        assert (ordered.wish.do, ordered.wish.status, ordered.wish.id, ordered.wish.chunks) == ("refuse", 503, "x", 9)
        assert ordered.stream
    assert orders.take(wished) is wished


def test_an_order_without_a_number_holds_until_it_is_taken_back() -> None:
    orders = Orders()
    orders.give({"chunks": 5}, 0)
    wished = read_ask(b"{}")
    assert {orders.take(wished).wish.chunks for _ in range(9)} == {5}
    orders.give({}, 0)
    assert orders.take(wished) is wished


@pytest.mark.parametrize("wish", [[], {"dance": 1}, {"chunks": "many"}, {"hold": 1}], ids=str)
def test_an_order_that_means_nothing_is_refused(wish: object) -> None:
    with pytest.raises(WishError):
        Orders().give(wish, 0)


def test_it_obeys(rogue: RogueProcess) -> None:
    put(rogue, "order", {"do": "refuse", "status": 529, "retry_after": "4"}, times=1)
    with ask(rogue, {}) as call:
        assert (call.status, call.header("retry-after")) == (529, "4")
    assert status(rogue, {}) == 200


@pytest.mark.parametrize(
    ("do", "path"), [(do, path) for do in ("error_event", "cut") for path in ("chat/completions", "messages")]
)
def test_nothing_of_the_answer_comes_before_a_bare_failure(rogue: RogueProcess, do: str, path: str) -> None:
    put(rogue, "order", {"do": do, "bare": True, "id": "x"})
    with ask(rogue, {"stream": True}, f"/v1/{path}") as call:
        assert call.status == 200
        sent = call.response.read() if do == "error_event" else b""
    assert sent == rogue.sent("x")
    assert b"word0" not in sent


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("path", ["chat/completions", "messages"])
def test_it_says_what_it_was_told(rogue: RogueProcess, path: str, stream: bool) -> None:
    turns = [*HELLO, {"role": "assistant", "content": "x"}, {"role": "user", "content": [{"text": "Is it so?"}]}]
    put(rogue, "order", {"do": "echo", "chunks": 1})
    with ask(rogue, {"messages": turns, "stream": stream}, f"/v1/{path}") as call:
        assert "Is it so?" in call.read().decode()
    put(rogue, "order", {"do": "echo", "chunks": 1, "tool_arguments": "{}"})
    with ask(rogue, {"messages": turns, "stream": stream}, f"/v1/{path}") as call:
        assert r"said" in call.read().decode()


def test_a_strict_openai_takes_its_key_and_its_own_fields(rogue: RogueProcess) -> None:
    put(rogue, "demand", api="openai", key="k")
    assert status(rogue, {"user": "ana"}, **OPENAI) == 200
    assert status(rogue, {}) == status(rogue, {}, Authorization="Bearer other") == 401
    assert status(rogue, {"lumbre": {}}, **OPENAI) == 400
    assert status(rogue, {}, "/v1/messages", **OPENAI) == 404
    put(rogue, "demand")
    assert status(rogue, {"lumbre": {}}) == 200


def test_a_strict_anthropic_takes_its_key_its_version_and_its_own_fields(rogue: RogueProcess) -> None:
    put(rogue, "demand", api="anthropic", key="k")
    whole = {"max_tokens": 9}
    path = "/v1/messages"
    assert status(rogue, whole, path, **ANTHROPIC) == 200
    assert status(rogue, whole, path, **{**ANTHROPIC, "x-api-key": "other"}) == 401
    assert status(rogue, whole, path, **{"x-api-key": "k"}) == 400
    assert status(rogue, {}, path, **ANTHROPIC) == 400
    assert status(rogue, {**whole, "stop": ["x"]}, path, **ANTHROPIC) == 400
    with ask(rogue, whole, "/v1/chat/completions", **ANTHROPIC) as call:
        assert call.status == 404
        assert call.json()["error"]["type"] == "not_found_error"


def test_whoever_holds_an_answer_sees_its_client_go(rogue: RogueProcess) -> None:
    call = ask(rogue, {"rogue": {"id": "x", "hold": True}})
    rogue.wait("x", "held")
    call.leave()
    assert rogue.wait("x", "gone")["ended_s"] is not None
