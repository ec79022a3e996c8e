"""An engine that speaks Anthropic's API itself: its own words in, its own bytes out, its errors understood."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, APIStatusError

from gateway_process import GatewayProcess, Opener
from messages_client import ASKED, WEATHER, ChatAnswer, facts, post, sdk, told, wish
from rogue_process import RogueProcess

BOTH = ["messages", "chat/completions"]
PICTURE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


@pytest.fixture(scope="module")
def fluent(open_for_module: Opener) -> GatewayProcess:
    """In front of an engine that knows both APIs."""
    sections = {"tier_a": {"endpoints": BOTH, "strict_json": True}}
    return open_for_module(sections=sections, deadlines={"idle_s": 0.7, "total_s": 1.6, "first_token_s": 1}).ready()


@pytest.fixture
def client(fluent: GatewayProcess) -> Iterator[Anthropic]:
    with sdk(fluent.url) as made:
        yield made


def sent(rogue: RogueProcess, name: str) -> tuple[str, dict[str, Any]]:
    """Where the engine was asked, and what."""
    found = rogue.find(name)
    return found["path"], json.loads(found["body"])


SPELLINGS: list[dict[str, Any]] = [
    {},
    {"newline": "\r\n"},
    {"vendor": True},
    {"vendor": True, "comments": True, "newline": "\r\n"},
    {"split": "joined"},
    {"split": "bytes"},
    {"split": "wire"},
    {"tool_arguments": '{"city": "Lima"}', "vendor": True},
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_the_engines_bytes_reach_the_client_as_they_are(
    fluent: GatewayProcess, rogue: RogueProcess, name: str, spelling: dict[str, Any], stream: bool
) -> None:
    """Pings, events and fields that nobody has published among them."""
    asked = {"stream": stream, "tools": [WEATHER], **wish({"id": name, **spelling})}
    with post(fluent, asked) as call:
        assert call.status == 200
        assert call.read() == rogue.sent(name)


def test_what_the_sdk_makes_of_them_is_the_answer(client: Anthropic) -> None:
    vendor = wish({"vendor": True, "comments": True})
    plain = client.messages.create(**ASKED, **vendor)
    asked = {**ASKED, **vendor}
    with client.messages.stream(**asked) as stream:
        message = stream.get_final_message()
    assert facts(message) == facts(plain)
    assert facts(plain)["content"] == [{"type": "text", "text": "word0 word1 word2 "}]
    assert facts(plain)["rogue_mood"] == "calm"


def test_the_request_goes_out_in_its_own_words(fluent: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    asked: dict[str, Any] = {
        **ASKED,
        "model": "auto",
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [WEATHER],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
        "stop_sequences": ["END"],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "a_field_of_tomorrow": {"x": [1, 2]},
        **wish({"id": name}),
    }
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "tomorrow-1"}
    with post(fluent, {**asked, "lumbre": {"tier": "A"}}, headers={**headers, "x-api-key": "secret"}) as call:
        assert call.status == 200
        call.read()
    assert sent(rogue, name) == ("/v1/messages", {**asked, "model": "rogue"})
    came = {key.lower(): value for key, value in rogue.find(name)["headers"]}
    assert headers.items() <= came.items()
    assert "x-api-key" not in came


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_engines_count_is_counted(fluent: GatewayProcess, stream: bool) -> None:
    def counted(kind: str) -> float:
        return fluent.metric("lumbre_tokens_total", kind=kind, estimated="false")

    prompt, completion = counted("prompt"), counted("completion")
    with post(fluent, {"stream": stream, **wish({"chunks": 4})}) as call:
        call.read()
    assert (counted("prompt"), counted("completion")) == (prompt + 7, completion + 4)


def test_a_schema_goes_by_the_chat_api_whose_engines_keep_it(client: Anthropic, rogue: RogueProcess, name: str) -> None:
    answer = ChatAnswer(text='{"city": "Lima"}').recited(stream=False, exchange_id=name)
    form: Any = {"format": {"type": "json_schema", "schema": WEATHER["input_schema"]}}
    assert facts(client.messages.create(**ASKED, output_config=form, **wish(answer)))["stop_reason"] == "end_turn"
    assert sent(rogue, name)[0] == "/v1/chat/completions"


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "cut with FIN": ({"do": "cut"}, "upstream_cut"),
    "cut with RST": ({"do": "cut", "reset": True, "pause_s": 0.05}, "upstream_cut"),
    "ended unfinished": ({"do": "end_unfinished"}, "upstream_cut"),
    "ended in the middle of an event": ({"do": "cut_in_event"}, "upstream_cut"),
    "silence": ({"do": "stall"}, "deadline_idle"),
    "no end": ({"do": "drip", "pause_s": 0.1}, "deadline_total"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_stream_that_did_not_finish_ends_with_an_error(client: Anthropic, case: str) -> None:
    act, code = BROKEN[case]
    seen: list[str] = []
    with (
        pytest.raises(APIStatusError) as caught,
        client.messages.create(**ASKED, stream=True, **wish(act)) as stream,
    ):
        seen.extend(event.type for event in stream)
    assert told(caught.value)["lumbre"]["code"] == code
    assert "content_block_delta" in seen
    assert not {"message_delta", "message_stop"} & set(seen)


def test_the_engines_own_error_in_mid_stream_is_relayed_as_it_is(
    fluent: GatewayProcess, client: Anthropic, rogue: RogueProcess, name: str
) -> None:
    with post(fluent, {"stream": True, **wish({"id": name, "do": "error_event"})}) as call:
        assert call.read() == rogue.sent(name)
    with (
        pytest.raises(APIStatusError) as caught,
        client.messages.create(**ASKED, stream=True, **wish({"do": "error_event"})) as stream,
    ):
        list(stream)
    assert (caught.value.type, caught.value.api_message) == ("overloaded_error", "the rogue broke")
    assert fluent.metric("lumbre_requests_total", outcome="engine_failed") >= 2


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (503, anthropic.ServiceUnavailableError, None),
    ],
)
def test_an_engines_refusal_keeps_its_status_type_and_message(
    client: Anthropic, stream: bool, status: int, kind: type[APIStatusError], word: str | None
) -> None:
    with pytest.raises(kind) as caught:
        client.messages.create(**ASKED, stream=stream, **wish({"do": "refuse", "status": status}))
    assert word is None or caught.value.type == word
    assert "the rogue refuses" in str(caught.value.api_message)
    assert (caught.value.request_id or "").startswith("d-")


@pytest.mark.parametrize("act", ["not_json", "wrong_json", "empty", "html", "stream_for_json"])
def test_a_plain_reply_that_is_no_message_is_a_502(client: Anthropic, act: str) -> None:
    with pytest.raises(anthropic.InternalServerError) as caught:
        client.messages.create(**ASKED, **wish({"do": act, "status": 200}))
    assert caught.value.status_code == 502
    assert told(caught.value)["lumbre"]["code"] in {"engine_failed", "upstream_cut", "engine_ignored_request"}


IGNORED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "any, and none": ({"tool_choice": {"type": "any"}}, {}),
    "this one, and another": ({"tool_choice": {"type": "tool", "name": "weather"}}, {"tool_arguments": "{}"}),
    "none, and one": ({"tool_choice": {"type": "none"}}, {"tool_arguments": "{}"}),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("case", IGNORED)
def test_an_engine_that_ignores_what_was_asked_is_told_on(client: Anthropic, case: str, stream: bool) -> None:
    asked, act = IGNORED[case]
    asked = {**ASKED, "tools": [WEATHER], **asked, **wish(act)}
    with pytest.raises(APIStatusError) as caught:
        list(client.messages.create(**asked, stream=stream))
    assert told(caught.value)["lumbre"]["code"] == "engine_ignored_request"


def test_a_call_that_was_demanded_and_made_is_relayed(client: Anthropic) -> None:
    lookup: Any = {"name": "lookup", "input_schema": {"type": "object"}}
    made = wish({"tool_arguments": '{"city": "Lima"}'})
    message = client.messages.create(**ASKED, tools=[lookup], tool_choice={"type": "any"}, **made)
    assert facts(message)["content"] == [
        {"type": "tool_use", "id": "toolu_rogue", "name": "lookup", "input": {"city": "Lima"}}
    ]


def test_an_engine_of_this_api_alone_can_be_used(open_gateway: Opener, rogue: RogueProcess, name: str) -> None:
    gateway = open_gateway(sections={"tier_a": {"endpoints": ["messages"]}}).ready()
    with sdk(gateway.url) as client:
        assert client.messages.create(**ASKED, **wish({"id": name})).content
    assert sent(rogue, name)[0] == "/v1/messages"
    with gateway.chat() as call:
        assert (call.status, call.error()["code"]) == (400, "unsupported_endpoint")


# Images


@pytest.mark.parametrize("endpoints", [["chat/completions"], BOTH], ids=["translated", "relayed"])
def test_a_model_that_sees_is_shown_the_picture(
    open_gateway: Opener, rogue: RogueProcess, name: str, endpoints: list[str]
) -> None:
    gateway = open_gateway(sections={"tier_a": {"images": True, "endpoints": endpoints}}).ready()
    content = [PICTURE, {"type": "text", "text": "What is this?"}]
    with post(gateway, {"messages": [{"role": "user", "content": content}], **wish({"id": name})}) as call:
        assert call.status == 200
        call.read()
    path, body = sent(rogue, name)
    if path == "/v1/messages":
        assert body["messages"][0]["content"] == content
    else:
        assert body["messages"][0]["content"] == [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            content[1],
        ]


@pytest.mark.parametrize("endpoints", [["chat/completions"], BOTH], ids=["translated", "relayed"])
def test_a_model_that_does_not_see_refuses_the_picture_where_it_stands(
    open_gateway: Opener, rogue: RogueProcess, endpoints: list[str]
) -> None:
    gateway = open_gateway(sections={"tier_a": {"images": False, "endpoints": endpoints}}).ready()
    asked: dict[str, Any] = {**ASKED, "system": "Be brief.", "messages": [{"role": "user", "content": [PICTURE]}]}
    with sdk(gateway.url) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(**asked)
        error = told(caught.value)
    assert (error["lumbre"]["code"], error["lumbre"]["param"]) == ("unsupported_field", "messages[0].content[0].type")
    assert "messages[0].content[0].type" in error["message"]
    assert rogue.log()["seen"] == 0
