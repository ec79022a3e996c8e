"""What the OpenAI Python SDK sees of the gateway: the door's whole surface, on a real model."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam, ChatCompletionToolParam

from embedded_gateway import EmbeddedGateway

MODEL = "smollm2-135m-instruct"
QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Why is the sky blue?"}]
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 24}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": CITY},
}


def test_a_question_gets_a_sensible_answer_with_its_usage(client: OpenAI) -> None:
    reply = client.chat.completions.create(model="auto", messages=QUESTION, **GREEDY)
    assert "light" in (reply.choices[0].message.content or "")
    assert reply.choices[0].finish_reason == "length"
    assert reply.model == MODEL
    assert reply.object == "chat.completion"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 24
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 24
    assert reply._request_id is not None
    assert reply._request_id.startswith("d-")


def test_a_stream_tells_the_same_story_as_the_single_reply(client: OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, **GREEDY)
    with client.chat.completions.create(
        model=MODEL, messages=QUESTION, stream=True, stream_options={"include_usage": True}, **GREEDY
    ) as stream:
        chunks = list(stream)
    parts = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(part.delta.content or "" for part in parts) == whole.choices[0].message.content
    assert [part.finish_reason for part in parts if part.finish_reason] == [whole.choices[0].finish_reason]
    assert parts[0].delta.role == "assistant"
    usage = chunks[-1].usage
    assert usage is not None
    assert whole.usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (whole.usage.prompt_tokens, 24)


def test_usage_comes_in_a_stream_only_when_it_is_asked_for(client: OpenAI) -> None:
    with client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True, **GREEDY) as stream:
        chunks = list(stream)
    assert len(chunks) > 1
    assert all(chunk.usage is None for chunk in chunks)


def test_the_async_client_streams_several_answers_at_once(embedded: EmbeddedGateway) -> None:
    async def ask(client: AsyncOpenAI, seed: int) -> str:
        stream = await client.chat.completions.create(
            model="auto", messages=QUESTION, stream=True, max_tokens=12, seed=seed
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def ask_all() -> list[str]:
        async with AsyncOpenAI(base_url=f"{embedded.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, seed) for seed in range(5)))

    answers = asyncio.run(ask_all())
    assert len(answers) == 5
    assert all(answers)


def test_the_same_seed_gives_the_same_answer(client: OpenAI) -> None:
    def ask(seed: int) -> str | None:
        reply = client.chat.completions.create(
            model=MODEL, messages=QUESTION, temperature=1.2, seed=seed, max_tokens=16
        )
        return reply.choices[0].message.content

    assert ask(7) == ask(7)
    assert len({ask(seed) for seed in range(1, 6)}) > 1


def test_n_alternatives_come_numbered_and_whole(client: OpenAI) -> None:
    reply = client.chat.completions.create(model=MODEL, messages=QUESTION, n=2, max_tokens=6, seed=1)
    assert [choice.index for choice in reply.choices] == [0, 1]
    assert all(choice.message.content and choice.finish_reason for choice in reply.choices)


def test_more_alternatives_than_the_engine_has_slots_are_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="'n'"):
        client.chat.completions.create(model=MODEL, messages=QUESTION, n=3, max_tokens=6)


def test_a_stop_word_ends_the_answer_before_it(client: OpenAI) -> None:
    reply = client.chat.completions.create(model=MODEL, messages=QUESTION, stop=[" "], **GREEDY)
    assert " " not in (reply.choices[0].message.content or "")
    assert reply.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_come_for_every_token(client: OpenAI, stream: bool) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "logprobs": True, "top_logprobs": 2, "max_tokens": 5}
    if stream:
        chunks = client.chat.completions.create(**asked, stream=True, temperature=0)
        found = [chunk.choices[0].logprobs for chunk in chunks if chunk.choices and chunk.choices[0].logprobs]
        tokens = [token for logprobs in found for token in logprobs.content or ()]
    else:
        reply = client.chat.completions.create(**asked, temperature=0)
        assert reply.choices[0].logprobs is not None
        tokens = reply.choices[0].logprobs.content or []
    assert len(tokens) == 5
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens)


def test_a_json_schema_is_kept(client: OpenAI) -> None:
    reply = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "What is the capital of France? Answer in JSON."}],
        response_format={"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": CITY}},
        max_tokens=60,
    )
    answer = json.loads(reply.choices[0].message.content or "")
    assert list(answer) == ["city"]
    assert isinstance(answer["city"], str)


def test_a_json_object_is_one(client: OpenAI) -> None:
    reply = client.chat.completions.create(
        model=MODEL, messages=QUESTION, response_format={"type": "json_object"}, max_tokens=200, temperature=0
    )
    text = reply.choices[0].message.content or ""
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)
    else:
        assert text.lstrip().startswith("{")


def test_tools_are_refused_where_the_models_template_has_no_place_for_them(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"tools = true under \[tier_a\]") as caught:
        client.chat.completions.create(model=MODEL, messages=QUESTION, tools=[WEATHER], **GREEDY)
    assert (caught.value.param, caught.value.code) == ("tools", "unsupported_field")


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A client of a gateway whose operator says that the model takes tools, whatever its template says."""
    folder = tmp_path_factory.mktemp("trusting")
    with (
        EmbeddedGateway(folder, MODEL, tier_a="tools = true") as gateway,
        OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def test_tools_that_need_not_be_called_leave_a_plain_answer(trusting: OpenAI) -> None:
    reply = trusting.chat.completions.create(model=MODEL, messages=QUESTION, tools=[WEATHER], **GREEDY)
    assert reply.choices[0].message.content or reply.choices[0].message.tool_calls


def test_a_tool_that_had_to_be_called_and_was_not_is_a_502_that_says_so(trusting: OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        trusting.chat.completions.create(
            model=MODEL, messages=QUESTION, tools=[WEATHER], tool_choice="required", **GREEDY
        )
    assert caught.value.status_code == 502
    assert caught.value.code == "engine_ignored_request"
    assert "required" in caught.value.message


def test_the_same_in_a_stream_is_an_error_event(trusting: OpenAI) -> None:
    stream = trusting.chat.completions.create(
        model=MODEL, messages=QUESTION, tools=[WEATHER], tool_choice="required", stream=True, **GREEDY
    )
    chunks: list[ChatCompletionChunk] = []
    with pytest.raises(openai.APIError, match="required"):
        chunks.extend(stream)
    assert chunks
    assert not any(choice.finish_reason for chunk in chunks for choice in chunk.choices)


def test_completions_go_on_with_a_text(client: OpenAI) -> None:
    reply = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=5, temperature=0)
    assert "Paris" in reply.choices[0].text
    assert reply.object == "text_completion"
    stream = client.completions.create(
        model=MODEL, prompt="The capital of France is", max_tokens=5, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == reply.choices[0].text


def test_completions_take_several_prompts(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": ["Roses are", "The sky is"], "max_tokens": 3, "temperature": 0}
    reply = client.completions.create(**asked)
    texts: dict[int, str] = {}
    for chunk in client.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    assert len(reply.choices) == 2
    assert [texts[choice.index] for choice in reply.choices] == [choice.text for choice in reply.choices]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("audio", {"voice": "alloy", "format": "wav"}),
        ("modalities", ["text", "audio"]),
        ("prediction", {"type": "content", "content": "x"}),
        ("web_search_options", {"search_context_size": "low"}),
        ("functions", [{"name": "f"}]),
        ("store", True),
        ("service_tier", "flex"),
        ("verbosity", "low"),
    ],
)
def test_fields_that_the_engine_cannot_honour_are_refused_by_name(client: OpenAI, field: str, value: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=QUESTION, extra_body={field: value}, max_tokens=2)
    assert caught.value.param == field
    assert caught.value.code == "unsupported_field"


def test_an_image_is_refused_with_its_place(client: OpenAI) -> None:
    parts: Any = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    assert caught.value.param == "messages[0].content[1].type"


def test_fields_that_openai_does_not_publish_reach_the_engine(client: OpenAI) -> None:
    reply = client.chat.completions.create(
        model=MODEL, messages=QUESTION, extra_body={"ignore_eos": True, "top_k": 1}, max_tokens=40
    )
    assert reply.choices[0].finish_reason == "length"


def test_a_prompt_beyond_the_context_is_refused_with_the_engines_own_words(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="context"):
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 1500}])


def test_a_prompt_gets_the_whole_context_that_was_asked_for(client: OpenAI) -> None:
    """llama.cpp divides its context by the slots; 1024 tokens were asked for each of the two."""
    reply = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "word " * 900}], max_tokens=1
    )
    assert reply.usage is not None
    assert 900 < reply.usage.prompt_tokens < 1024


def test_models_lists_what_can_be_asked_for(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["auto", MODEL]
    assert client.models.retrieve(MODEL).owned_by == "embedded"
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.models.retrieve("gpt-4")


def test_an_unknown_model_is_a_404_that_lists_the_known(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-4", messages=QUESTION)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["lumbre"]["valid"] == ["auto", "tier-a", MODEL]
    assert caught.value.code == "model_not_found"
