"""Whatever goes wrong before Anthropic's SDK comes as the error that it raises for that, and never as an answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, APIStatusError

from gateway_process import GatewayProcess, Opener
from messages_client import ASKED, WEATHER, post, sdk, told, wish
from rogue_process import RogueProcess
from wire_client import poll

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[Anthropic]:
    with sdk(gateway.url) as made:
        yield made


@pytest.fixture(scope="module")
def strict(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(sections={"tier_a": {"strict_json": True}}).ready()


@pytest.fixture(scope="module")
def hasty(open_for_module: Opener) -> GatewayProcess:
    limits = {"header_s": 0.5, "first_token_s": 0.6, "idle_s": 0.7, "total_s": 1.6}
    return open_for_module(deadlines=limits, sections={"limits": {"body_bytes": 20_000}}).ready()


def refused(client: Anthropic, kind: type[APIStatusError], **asked: Any) -> dict[str, Any]:
    """The error of a refused request, the same whether it asks for a stream or not."""
    found = []
    for stream in (False, True):
        with pytest.raises(kind) as caught:
            client.messages.create(**{**ASKED, **asked, "stream": stream})
        error = caught.value
        assert type(error) is kind, error
        assert error.request_id is None or error.request_id == told(error)["lumbre"]["decision"]
        found.append(told(error))
    assert found[0]["type"] == found[1]["type"]
    return found[0]


def broken(client: Anthropic, **asked: Any) -> tuple[list[str], dict[str, Any], APIStatusError]:
    """A stream that fails on its way: the types of the events before that, and the error."""
    seen: list[str] = []
    with (
        pytest.raises(APIStatusError) as caught,
        client.messages.create(**{**ASKED, **asked, "stream": True}) as stream,
    ):
        seen.extend(event.type for event in stream)
    return seen, told(caught.value), caught.value


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"max_tokens": 0}, "unsupported_field", "max_tokens"),
    ({"extra_body": {"temperature": 1.5}}, "invalid_type", "temperature"),
    ({"messages": []}, "invalid_type", "messages"),
    ({"messages": [{"role": "user", "content": []}]}, "invalid_value", "messages[0].content"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "invalid_type", "messages[0].role"),
    ({"tool_choice": {"type": "any"}}, "invalid_value", "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "radar"}}, "invalid_value", "tool_choice.name"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "unsupported_field", "tools[0].type"),
    (
        {"extra_body": {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}},
        "unsupported_field",
        "mcp_servers",
    ),
    (
        {"tools": [{**WEATHER, "strict": True, "input_schema": {"type": "objekt"}}]},
        "invalid_request",
        "tools[0].input_schema",
    ),
    (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "objekt"}}}},
        "invalid_request",
        "output_config.format.schema",
    ),
    ({"extra_body": {"lumbre": {"tier": "Q"}}}, "unknown_tier", "lumbre.tier"),
]


@pytest.mark.parametrize(("wrong", "code", "param"), WRONG, ids=[param for _, _, param in WRONG])
def test_a_wrong_request_is_told_by_the_callers_own_field(
    strict: GatewayProcess, rogue: RogueProcess, wrong: dict[str, Any], code: str, param: str
) -> None:
    with sdk(strict.url) as client:
        error = refused(client, anthropic.BadRequestError, **wrong)
    assert error["type"] == "invalid_request_error"
    assert (error["lumbre"]["code"], error["lumbre"]["param"]) == (code, param)
    assert rogue.log()["seen"] == 0


def test_a_field_that_must_be_there_is_named(gateway: GatewayProcess) -> None:
    for missing in ("max_tokens", "messages"):
        body = {key: value for key, value in ASKED.items() if key != missing}
        with gateway.get("/v1/messages", body=body) as call:
            assert call.status == 400
            error = call.json()["error"]
        assert error["lumbre"]["param"] == missing


def test_without_the_key_nobody_comes_in(open_gateway: Opener) -> None:
    gateway = open_gateway(arguments=("--new-key",)).ready()
    with sdk(gateway.url, key="lumbre-wrong") as client:
        error = refused(client, anthropic.AuthenticationError)
        assert (error["type"], error["lumbre"]["code"]) == ("authentication_error", "invalid_api_key")
        with pytest.raises(anthropic.AuthenticationError):
            client.models.list()
    key = next(told["key"] for told in gateway.events if "key" in told)
    with sdk(gateway.url, key=key) as client:
        assert client.messages.create(**ASKED).content
        assert client.models.list().data
    with Anthropic(base_url=gateway.url, auth_token=key, max_retries=0) as client:
        assert client.messages.create(**ASKED).content


def test_an_unknown_model_is_not_found_and_the_known_ones_are_told(client: Anthropic) -> None:
    error = refused(client, anthropic.NotFoundError, model="claude-of-tomorrow")
    assert (error["type"], error["lumbre"]["code"]) == ("not_found_error", "model_not_found")
    assert "rogue" in error["lumbre"]["valid"]
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.models.retrieve("claude-of-tomorrow")
    assert told(caught.value)["type"] == "not_found_error"


def test_a_body_over_the_limit_is_too_large(hasty: GatewayProcess) -> None:
    with sdk(hasty.url) as client:
        error = refused(client, anthropic.ContentTooLargeError, system="x" * 30_000)
    assert error["type"] == "request_too_large"
    assert "body_bytes" in error["message"]


def test_a_full_house_is_a_rate_limit_that_says_when_to_come_again(
    open_gateway: Opener, rogue: RogueProcess, name: str
) -> None:
    gateway = open_gateway(slots=1, sections={"limits": {"waiting": 0}}).ready()
    with post(gateway, wish({"id": name, "hold": True})) as first, sdk(gateway.url) as client:
        rogue.wait(name, "held")
        with pytest.raises(anthropic.RateLimitError) as caught:
            client.messages.create(**ASKED)
        assert told(caught.value)["type"] == "rate_limit_error"
        assert told(caught.value)["lumbre"]["code"] == "saturated"
        assert int(caught.value.response.headers["retry-after"]) >= 1
        rogue.release(name, 9)
        assert first.status == 200
        first.read()


REFUSALS: dict[str, dict[str, Any]] = {
    "code": {"message": "context of 10 tokens", "type": "x", "param": None, "code": "context_length_exceeded"},
    "llama.cpp": {"message": "context of 10 tokens", "type": "exceed_context_size_error", "code": 400},
}


@pytest.mark.parametrize("case", REFUSALS)
def test_an_engine_that_finds_the_prompt_too_long_is_told_in_the_words_that_clients_act_on(
    open_gateway: Opener, tmp_path: Path, case: str
) -> None:
    with RogueProcess(tmp_path) as engine:
        engine.lay("/v1/chat/completions", {"error": REFUSALS[case]}, status=400)
        gateway = open_gateway(upstreams={"engine": engine.url}).ready()
        with sdk(gateway.url) as client:
            error = refused(client, anthropic.BadRequestError)
        with gateway.chat({}) as call:
            assert call.status == 400
            relayed = call.error()
    assert error["message"] == "prompt is too long: context of 10 tokens"
    assert (error["type"], error["lumbre"]["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert (relayed["code"], relayed["message"]) == ("context_length_exceeded", "context of 10 tokens")


def test_what_only_another_tier_could_do_is_an_overload(client: Anthropic, rogue: RogueProcess) -> None:
    strict = {"format": {"type": "json_schema", "schema": CITY}}
    error = refused(client, anthropic.ServiceUnavailableError, model="auto", output_config=strict)
    assert (error["type"], error["lumbre"]["code"]) == ("overloaded_error", "strict_json_needs_b")
    assert rogue.log()["seen"] == 0


@pytest.mark.parametrize("act", ["not_json", "wrong_json", "empty", "redirect", "garbage", "cut_before_head", "zipped"])
def test_an_engine_that_gives_no_answer_is_a_502(client: Anthropic, act: str) -> None:
    with pytest.raises(anthropic.InternalServerError) as caught:
        client.messages.create(**ASKED, **wish({"do": act}))
    assert caught.value.status_code == 502
    assert told(caught.value)["type"] == "api_error"
    assert told(caught.value)["lumbre"]["code"] in {"engine_failed", "upstream_cut"}
    assert (caught.value.request_id or "").startswith("d-")


KINDS = {
    400: (anthropic.BadRequestError, "invalid_request_error"),
    403: (anthropic.PermissionDeniedError, "permission_error"),
    404: (anthropic.NotFoundError, "not_found_error"),
    413: (anthropic.ContentTooLargeError, "request_too_large"),
    422: (anthropic.UnprocessableEntityError, "invalid_request_error"),
    429: (anthropic.RateLimitError, "rate_limit_error"),
    500: (anthropic.InternalServerError, "api_error"),
    503: (anthropic.ServiceUnavailableError, "overloaded_error"),
}


@pytest.mark.parametrize("status", KINDS)
def test_an_engines_refusal_keeps_its_status_and_its_words(client: Anthropic, status: int) -> None:
    kind, word = KINDS[status]
    error = refused(client, kind, **wish({"do": "refuse", "status": status}))
    assert error["type"] == word
    assert "the rogue refuses" in error["message"]


@pytest.mark.parametrize("status", [429, 503])
def test_an_engines_retry_after_reaches_the_sdk(open_gateway: Opener, status: int) -> None:
    # A gateway of its own: the upstream is then left alone for as long as it asked.
    with sdk(open_gateway().ready().url) as client, pytest.raises(APIStatusError) as caught:
        client.messages.create(**ASKED, **wish({"do": "refuse", "status": status, "retry_after": "7"}))
    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(("deadline", "act"), [("header", "no_header"), ("first_token", "silent"), ("total", "drip")])
def test_a_deadline_is_a_504(hasty: GatewayProcess, deadline: str, act: str) -> None:
    with sdk(hasty.url) as client, pytest.raises(anthropic.GatewayTimeoutError) as caught:
        client.messages.create(**ASKED, **wish({"do": act, "pause_s": 0.1}))
    assert told(caught.value)["type"] == "timeout_error"
    assert told(caught.value)["lumbre"]["code"] == f"deadline_{deadline}"


IN_MID_STREAM: dict[str, tuple[dict[str, Any], str]] = {
    "cut with FIN": ({"do": "cut"}, "upstream_cut"),
    "cut with RST": ({"do": "cut", "reset": True, "pause_s": 0.05}, "upstream_cut"),
    "ended unfinished": ({"do": "end_unfinished"}, "upstream_cut"),
    "ended in the middle of an event": ({"do": "cut_in_event"}, "upstream_cut"),
    "broken framing": ({"do": "bad_framing", "pause_s": 0.05}, "upstream_cut"),
    "the engine's own error": ({"do": "error_event"}, "engine_failed"),
    "silence": ({"do": "stall"}, "deadline_idle"),
    "no end": ({"do": "drip", "pause_s": 0.1}, "deadline_total"),
}


@pytest.mark.parametrize("case", IN_MID_STREAM)
def test_a_failure_in_mid_stream_raises_and_nothing_is_forged(hasty: GatewayProcess, case: str) -> None:
    act, code = IN_MID_STREAM[case]
    with sdk(hasty.url) as client:
        seen, error, caught = broken(client, **wish(act))
    assert error["lumbre"]["code"] in {code, "engine_failed"} if case == "broken framing" else {code}
    assert error["type"] == ("timeout_error" if code.startswith("deadline") else "api_error")
    assert caught.request_id == error["lumbre"]["decision"]
    assert seen[:3] == ["message_start", "content_block_start", "content_block_delta"]
    assert set(seen[3:]) <= {"content_block_delta"}


def test_the_error_of_a_stream_is_its_last_event(hasty: GatewayProcess) -> None:
    with post(hasty, {"stream": True, **wish({"do": "cut"})}) as call:
        assert call.status == 200
        *before, last = call.events()
    name, data = last.split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: "))["type"] == "error"
    assert not any("message_delta" in event or "message_stop" in event for event in before)


def test_a_stream_helper_raises_too_and_keeps_what_was_said(hasty: GatewayProcess) -> None:
    asked = {**ASKED, **wish({"do": "cut"})}
    with (
        sdk(hasty.url) as client,
        client.messages.stream(**asked) as stream,
        pytest.raises(APIStatusError) as caught,
    ):
        stream.get_final_message()
    assert told(caught.value)["lumbre"]["code"] == "upstream_cut"
    assert stream.current_message_snapshot.content[0].model_dump()["text"] == "word0 word1 word2 "


def test_a_gateway_that_stops_says_so_in_the_stream(open_gateway: Opener, rogue: RogueProcess, name: str) -> None:
    gateway = open_gateway(deadlines={"drain_s": 0.5}).ready()
    with post(gateway, {"stream": True, **wish({"id": name, "do": "stall"})}) as call:
        call.read_until(b"word2")
        gateway.terminate()
        *_, last = call.events()
    assert json.loads(last.split("data: ")[1])["error"]["lumbre"]["code"] == "draining"
    poll(lambda: gateway.process.poll() is not None)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_what_is_no_request_at_all_is_told_in_this_apis_shape(gateway: GatewayProcess, path: str) -> None:
    for body, method, status in ((b"{", "POST", 400), (b"[]", "POST", 400), (None, "GET", 405)):
        with gateway.get(path, body=body, method=method) as call:
            assert call.status == status
            assert call.json()["type"] == "error"
