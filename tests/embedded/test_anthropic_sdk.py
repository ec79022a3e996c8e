"""What the Anthropic Python SDK sees of the gateway on a real model, whose engine speaks this API too."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic
from anthropic.types import Message, MessageParam
from pydantic import BaseModel, ConfigDict, Field

from embedded_gateway import EmbeddedGateway
from messages_client import WEATHER, async_sdk, sdk, told
from wire_client import Call

MODEL = "smollm2-135m-instruct"
QUESTION: list[MessageParam] = [{"role": "user", "content": "Why is the sky blue?"}]
LONG: list[MessageParam] = [{"role": "user", "content": "Why is the sky blue? " * 28}]
"""More than goes to the engine in this API's own words."""
SEVERE = {"type": "text", "text": "You are a severe teacher."}
GREEDY: dict[str, Any] = {"model": "auto", "max_tokens": 24, "extra_body": {"temperature": 0}}


@pytest.fixture
def client(embedded: EmbeddedGateway) -> Iterator[Anthropic]:
    with sdk(embedded.url) as made:
        yield made


def streamed(client: Anthropic, **asked: Any) -> Message:
    with client.messages.stream(**asked) as stream:
        return stream.get_final_message()


def text_of(message: Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def prompt_tokens(message: Message) -> int:
    usage = message.usage
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def test_a_question_gets_a_sensible_answer_with_its_usage(client: Anthropic) -> None:
    message = client.messages.create(messages=QUESTION, **GREEDY)
    assert "light" in text_of(message)
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL)
    assert (message.stop_reason, message.stop_sequence) == ("max_tokens", None)
    assert message.usage.output_tokens == 24
    assert prompt_tokens(message) > 10
    assert (message._request_id or "").startswith("d-")


@pytest.mark.parametrize("messages", [QUESTION, LONG], ids=["short", "long"])
def test_a_stream_tells_the_same_story_as_the_single_reply(client: Anthropic, messages: list[MessageParam]) -> None:
    whole, folded = (ask(messages=messages, **GREEDY) for ask in (client.messages.create, _streamer(client)))
    if messages is QUESTION:  # a long prompt that comes from the cache need not give the same text to the letter
        assert text_of(folded) == text_of(whole)
    assert folded.stop_reason == whole.stop_reason
    assert prompt_tokens(folded) == prompt_tokens(whole)
    assert folded.usage.output_tokens == whole.usage.output_tokens == 24


def _streamer(client: Anthropic) -> Any:
    return lambda **asked: streamed(client, **asked)


def test_both_ways_to_the_engine_read_the_same_conversation(client: Anthropic) -> None:
    """A long prompt goes in the chat API's words, or in this one's where there is a stop sequence to be told."""
    asked: dict[str, Any] = {"messages": LONG, "system": "Be brief.", **GREEDY, "max_tokens": 4}
    chat = client.messages.create(**asked)
    own = client.messages.create(**asked, stop_sequences=["###"])
    assert (chat.id[:4], own.id[:4]) == ("msg_", "chat")
    assert prompt_tokens(chat) == prompt_tokens(own)


@pytest.mark.parametrize("messages", [QUESTION, LONG], ids=["short", "long"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_stop_sequence_is_told_by_name(client: Anthropic, messages: list[MessageParam], stream: bool) -> None:
    ask = _streamer(client) if stream else client.messages.create
    message = ask(messages=messages, stop_sequences=["###", " the"], **{**GREEDY, "max_tokens": 60})
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", " the")
    assert " the" not in text_of(message)


def test_an_answer_that_ends_by_itself_is_an_end_of_turn(client: Anthropic) -> None:
    asked: dict[str, Any] = {**GREEDY, "max_tokens": 200, "messages": [{"role": "user", "content": "Say hello."}]}
    message = client.messages.create(**asked)
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.usage.output_tokens < 200


def test_a_system_prompt_counts_as_text_and_as_pieces(client: Anthropic) -> None:
    def counted(**asked: Any) -> int:
        return prompt_tokens(client.messages.create(messages=QUESTION, **asked, **{**GREEDY, "max_tokens": 1}))

    one: Any = [{**SEVERE, "cache_control": {"type": "ephemeral"}}]
    assert counted(system=SEVERE["text"]) == counted(system=one) != counted()
    assert counted(system=[SEVERE, SEVERE]) == counted(system=f"{SEVERE['text']}\n\n{SEVERE['text']}")


@pytest.mark.parametrize("messages", [QUESTION, LONG], ids=["short", "long"])
def test_a_prompt_seen_before_is_read_from_the_cache(client: Anthropic, messages: list[MessageParam]) -> None:
    first = client.messages.create(messages=messages, **GREEDY)
    again = streamed(client, messages=messages, **GREEDY)
    assert prompt_tokens(first) == prompt_tokens(again)
    assert (again.usage.cache_read_input_tokens or 0) > 0.5 * prompt_tokens(again)


def test_the_events_of_a_raw_stream_come_in_the_apis_order(client: Anthropic) -> None:
    with client.messages.create(messages=QUESTION, stream=True, **GREEDY) as stream:
        kinds = [event.type for event in stream]
    assert kinds[:3] == ["message_start", "content_block_start", "content_block_delta"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[3:-3]) == {"content_block_delta"}


def test_the_async_client_streams_several_answers_at_once(embedded: EmbeddedGateway) -> None:
    async def ask_all() -> list[str]:
        async with async_sdk(embedded.url) as client:

            async def ask(number: int) -> str:
                question: list[MessageParam] = [{"role": "user", "content": f"Count from {number}."}]
                async with client.messages.stream(messages=question, **{**GREEDY, "max_tokens": 12}) as stream:
                    return "".join([text async for text in stream.text_stream])

            return await asyncio.gather(*map(ask, range(5)))

    assert all(asyncio.run(ask_all()))


COUNTED: dict[str, dict[str, Any]] = {
    "a question": {"messages": QUESTION},
    "a long one": {"messages": LONG},
    "a system prompt": {"messages": QUESTION, "system": [SEVERE, SEVERE]},
    "a conversation": {
        "messages": [*QUESTION, {"role": "assistant", "content": "It scatters."}, {"role": "user", "content": "ñ🔥"}]
    },
    "several texts in a turn": {"messages": [{"role": "user", "content": [SEVERE, SEVERE]}]},
    "neighbouring turns": {"messages": [*QUESTION, *QUESTION]},
}


@pytest.mark.parametrize("case", COUNTED)
def test_a_count_is_what_the_usage_says_later(client: Anthropic, case: str) -> None:
    asked = COUNTED[case]
    raw = client.messages.with_raw_response.count_tokens(model="auto", **asked)
    assert "x-lumbre-estimated" not in raw.headers
    assert raw.parse().input_tokens == prompt_tokens(client.messages.create(**asked, **{**GREEDY, "max_tokens": 1}))


def test_models_are_listed_with_their_size(client: Anthropic) -> None:
    listed = {model.id: model.model_dump() for model in client.models.list()}
    assert set(listed) == {"auto", MODEL}
    assert listed[MODEL]["max_input_tokens"] == 1024
    assert client.models.retrieve(MODEL).model_dump() == listed[MODEL]
    with pytest.raises(anthropic.NotFoundError, match="claude-of-tomorrow"):
        client.models.retrieve("claude-of-tomorrow")


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(client: Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(messages=[{"role": "user", "content": "word " * 1500}], **GREEDY)
    error = told(caught.value)
    assert (error["type"], error["lumbre"]["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert "1024" in error["message"]


def test_an_image_is_refused_where_it_stands(client: Anthropic) -> None:
    picture: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    content = [{"type": "text", "text": "What is this?"}, picture]
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(messages=[{"role": "user", "content": content}], system="Be brief.", **GREEDY)
    assert told(caught.value)["lumbre"]["param"] == "messages[0].content[1].type"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_tools_are_refused_where_the_models_template_knows_none(client: Anthropic, stream: bool) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(messages=QUESTION, tools=[WEATHER], stream=stream, **GREEDY)
    assert (told(caught.value)["lumbre"]["code"], told(caught.value)["lumbre"]["param"]) == (
        "unsupported_field",
        "tools",
    )


class City(BaseModel):
    """A place."""

    model_config = ConfigDict(extra="forbid")
    city: str = Field(max_length=12)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_schema_is_kept_and_parsed(client: Anthropic, stream: bool) -> None:
    asked: dict[str, Any] = {
        "model": "auto",
        "max_tokens": 60,
        "messages": [{"role": "user", "content": "What is the capital of France? Answer in JSON."}],
        "output_format": City,
    }
    if stream:
        with client.messages.stream(**asked) as events:
            parsed = events.get_final_message().parsed_output
    else:
        parsed = client.messages.parse(**asked).parsed_output
    assert isinstance(parsed, City)


def test_short_prompts_get_the_engines_own_bytes(embedded: EmbeddedGateway) -> None:
    """Its ids show that the Message is the engine's, and none of ours."""
    asked = {"model": "auto", "max_tokens": 4, "messages": QUESTION, "stream": True}
    with Call(f"{embedded.url}/v1/messages", asked) as call:
        first = next(iter(call.events()))
    assert json.loads(first.split("data: ")[1])["message"]["id"].startswith("chatcmpl-")
