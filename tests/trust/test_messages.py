"""Anthropic's SDK before an engine that knows OpenAI's API alone: answers, streams, counts, models."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from anthropic.types import Message

from gateway_process import GatewayProcess, Opener
from messages_client import ASKED, HELLO, ChatAnswer, async_sdk, facts, post, sdk, wish
from rogue_process import RogueProcess


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[Anthropic]:
    with sdk(gateway.url) as made:
        yield made


@pytest.fixture(scope="module")
def lively(open_for_module: Opener) -> GatewayProcess:
    """A gateway that lets no stream be silent for more than half a second."""
    return open_for_module(sections={"gateway": {"keepalive_s": 0.5}}).ready()


def streamed(client: Anthropic, **asked: Any) -> Message:
    with client.messages.stream(**{**ASKED, **asked}) as stream:
        return stream.get_final_message()


def sent(rogue: RogueProcess, name: str) -> dict[str, Any]:
    """What the engine was asked."""
    found = rogue.find(name)
    assert found["path"] == "/v1/chat/completions"
    body: dict[str, Any] = json.loads(found["body"])
    return body


def test_a_chat_engine_answers_as_a_message(client: Anthropic, name: str) -> None:
    message = client.messages.create(**ASKED, **wish({"id": name}))
    assert message.id.startswith("msg_")
    assert facts(message) == {
        "type": "message",
        "role": "assistant",
        "model": "rogue",
        "content": [{"type": "text", "text": "word0 word1 word2 "}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 7,
            "output_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


ANSWERS = {
    "a text": ChatAnswer(text="The sea is blue."),
    "a thought and a text": ChatAnswer(thought="Sky, sea…", text="Both are blue."),
    "cut at its length": ChatAnswer(text="The sea is", finish="length"),
    "a refusal": ChatAnswer(text="I will not say.", finish="content_filter"),
    "a stop sequence": ChatAnswer(text="The sea", more=(("stop_reason", "END"),)),
    "a stop word as llama.cpp tells it": ChatAnswer(text="The sea", more=(("stopping_word", "END"),)),
    "nothing": ChatAnswer(),
    "a cached prompt": ChatAnswer(text="Blue.", cached_tokens=16),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_stream_folds_into_its_plain_twin(client: Anthropic, case: str) -> None:
    answer = ANSWERS[case]
    asked = {**ASKED, "stop_sequences": ["END"]}
    plain = client.messages.create(**asked, **wish(answer.recited(stream=False)))
    assert facts(streamed(client, **asked, **wish(answer.recited(stream=True)))) == facts(plain)


@pytest.mark.parametrize(
    ("case", "stop_reason", "stop_sequence"),
    [
        ("a text", "end_turn", None),
        ("cut at its length", "max_tokens", None),
        ("a refusal", "refusal", None),
        ("a stop sequence", "stop_sequence", "END"),
        ("a stop word as llama.cpp tells it", "stop_sequence", "END"),
    ],
)
def test_why_it_stopped_is_told_by_name(client: Anthropic, case: str, stop_reason: str, stop_sequence: str) -> None:
    asked = {**ASKED, "stop_sequences": ["END"]}
    message = client.messages.create(**asked, **wish(ANSWERS[case].recited(stream=False)))
    assert (message.stop_reason, message.stop_sequence) == (stop_reason, stop_sequence)


def test_tokens_from_a_cache_are_counted_apart(client: Anthropic) -> None:
    usage = streamed(client, **wish(ANSWERS["a cached prompt"].recited(stream=True))).usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (4, 16, 9)


def test_the_events_of_a_raw_stream_come_in_the_apis_order(client: Anthropic, name: str) -> None:
    with client.messages.create(**ASKED, stream=True, **wish({"id": name, "chunks": 2})) as stream:
        events = list(stream)
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_text_reaches_the_caller_while_the_engine_still_speaks(
    client: Anthropic, rogue: RogueProcess, name: str
) -> None:
    held = wish({"id": name, "hold": True})
    rogue.release(name, 2)  # the head comes with the first token
    with client.messages.stream(**{**ASKED, **held}) as stream:
        texts = iter(stream.text_stream)
        assert next(texts) == "word0 "
        assert rogue.find(name)["ended_s"] is None
        rogue.release(name, 9)
        assert "".join(texts) == "word1 word2 "


def test_the_async_client_streams_several_answers_at_once(gateway: GatewayProcess) -> None:
    async def ask_all() -> list[str]:
        async with async_sdk(gateway.url) as client:

            async def ask(number: int) -> str:
                asked = {**ASKED, **wish({"text": f"answer {number}"})}
                async with client.messages.stream(**asked) as stream:
                    return "".join([text async for text in stream.text_stream])

            plain = await client.messages.create(**ASKED, **wish({"text": "plain"}))
            return [*await asyncio.gather(*map(ask, range(8))), facts(plain)["content"][0]["text"]]

    assert asyncio.run(ask_all()) == [*(f"answer {number}" for number in range(8)), "plain"]


@pytest.mark.parametrize(
    "system", ["Be brief.\n\nBe kind.", [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]]
)
def test_a_system_prompt_is_the_first_message(client: Anthropic, rogue: RogueProcess, name: str, system: Any) -> None:
    client.messages.create(**ASKED, system=system, **wish({"id": name}))
    assert sent(rogue, name)["messages"] == [{"role": "system", "content": "Be brief.\n\nBe kind."}, *HELLO]


def test_the_controls_of_a_request_reach_the_engine(client: Anthropic, rogue: RogueProcess, name: str) -> None:
    controls: dict[str, Any] = {
        "stop_sequences": ["END", "\n\nHuman:"],
        "service_tier": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "extra_body": {"temperature": 0.25, "top_p": 0.5, "top_k": 7},  # older SDKs have names for them
    }
    streamed(client, **controls, **wish({"id": name}))
    body = sent(rogue, name)
    assert {key: body[key] for key in body.keys() - {"messages", "user"}} == {
        "model": "rogue",
        "max_tokens": 100,
        "temperature": 0.25,
        "top_p": 0.5,
        "top_k": 7,
        "stop": ["END", "\n\nHuman:"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_reply_says_who_answered_and_under_which_id(gateway: GatewayProcess, stream: bool) -> None:
    with post(gateway, {"stream": stream}) as call:
        assert call.status == 200
        assert (call.header("x-lumbre-tier"), call.header("x-lumbre-node")) == ("A", "rogue")
        request_id = call.header("request-id") or ""
        assert request_id.startswith("d-")
        assert request_id == call.header("x-request-id") == call.header("x-lumbre-decision")
        call.read()


def test_the_sdk_knows_the_request_by_its_id(client: Anthropic) -> None:
    assert (client.messages.create(**ASKED)._request_id or "").startswith("d-")


def test_keep_alive_comments_do_not_disturb_the_sdk(lively: GatewayProcess, name: str) -> None:
    silent = {"id": name, "do": "silent", "silent_s": 1.3}
    with post(lively, {"stream": True, **wish(silent)}) as call:
        assert call.read_until(b"\n\n").startswith(b":")
        call.read()
    with sdk(lively.url) as client:
        assert facts(streamed(client, **wish({**silent, "id": f"{name}-sdk"})))["content"][0]["text"].startswith(
            "word0"
        )


def test_tokens_are_estimated_where_the_engine_does_not_count(client: Anthropic, rogue: RogueProcess) -> None:
    raw = client.messages.with_raw_response.count_tokens(model="rogue", messages=HELLO, system="Be brief. " * 40)
    assert raw.headers["x-lumbre-estimated"] == "true"
    assert (raw.headers["request-id"] or "").startswith("d-")
    assert 80 < raw.parse().input_tokens < 200
    assert rogue.log()["seen"] == 0


def test_a_count_leaves_a_record(gateway: GatewayProcess) -> None:
    counted = []
    for model, status in (("rogue", 200), ("nobody", 404)):
        asked = {"model": model, "messages": HELLO}
        with gateway.get("/v1/messages/count_tokens", body=asked) as call:
            assert call.status == status
            counted.append(call.header("x-lumbre-decision"))
            call.read()
    records = [record for each in counted for record in gateway.ledger(each)]
    assert [(one["kind"], one["endpoint"], one["node"], one["status"], one["outcome"]) for one in records] == [
        ("request", "/messages/count_tokens", "rogue", 200, "ok"),
        ("request", "/messages/count_tokens", None, 404, "model_not_found"),
    ]


def test_models_are_listed_in_the_words_of_the_api_that_asks(client: Anthropic, gateway: GatewayProcess) -> None:
    listed = list(client.models.list(limit=5))
    assert [model.id for model in listed[:2]] == ["auto", "rogue"]
    assert all(model.display_name for model in listed)
    assert len(listed) > 5, "the pages did not go on"
    assert client.models.retrieve("rogue").id == "rogue"
    with gateway.get("/v1/models") as call:
        assert call.json()["object"] == "list"
