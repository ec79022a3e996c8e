"""What the OpenAI SDK sees of the Responses API on a real model."""

import asyncio
import time
from typing import Any, Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from embedded_gateway import EmbeddedGateway
from engine_use import STOPS_WITHIN_S, engine_of, last_use_at, used_s
from wire_client import Call, poll

MODEL = "smollm2-135m-instruct"
QUESTION = "Why is the sky blue?"
GREEDY: dict[str, Any] = {"temperature": 0, "max_output_tokens": 24}
ENDLESS: dict[str, Any] = {"max_output_tokens": 900, "ignore_eos": True, "temperature": 0, "cache_prompt": False}


class Place(BaseModel):
    """What the answer is to be."""

    city: Literal["Paris", "Rome"]
    inhabitants: int


def test_a_question_gets_the_same_answer_as_by_chat(client: OpenAI) -> None:
    response = client.responses.create(model="auto", instructions="Be brief.", input=QUESTION, **GREEDY)
    chat = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=24,
    )
    assert response.output_text == chat.choices[0].message.content
    assert (response.model, response.status) == (MODEL, "incomplete")
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage is not None
    assert chat.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (chat.usage.prompt_tokens, 24)


def test_a_stream_tells_the_same_story_as_the_plain_response(client: OpenAI) -> None:
    plain = client.responses.create(model=MODEL, input=QUESTION, **GREEDY)
    events = list(client.responses.create(model=MODEL, input=QUESTION, stream=True, **GREEDY))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 5
    last = events[-1]
    assert last.type == "response.incomplete"
    final = last.response
    assert "".join(pieces) == final.output_text == plain.output_text
    assert final.status == plain.status == "incomplete"
    assert plain.usage is not None
    assert final.usage is not None
    assert final.usage.output_tokens == plain.usage.output_tokens


def test_the_async_client_asks_several_at_once(embedded: EmbeddedGateway) -> None:
    async def ask_all() -> list[Response]:
        async with AsyncOpenAI(base_url=f"{embedded.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(
                *(client.responses.create(model="auto", input=QUESTION, max_output_tokens=8) for _ in range(4))
            )

    responses = asyncio.run(ask_all())
    assert len({response.id for response in responses}) == 4
    assert all(response.output_text for response in responses)


def test_an_answer_is_parsed_into_the_callers_type(client: OpenAI) -> None:
    parsed = client.responses.parse(
        model=MODEL, input="What is the capital of France?", text_format=Place, max_output_tokens=60, temperature=0
    )
    assert isinstance(parsed.output_parsed, Place)
    with client.responses.stream(
        model=MODEL, input="What is the capital of France?", text_format=Place, max_output_tokens=60, temperature=0
    ) as stream:
        assert stream.get_final_response().output_parsed == parsed.output_parsed


def test_a_conversation_goes_on_from_what_was_kept(client: OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="My dog is called Rex.", **GREEDY)
    second = client.responses.create(
        model=MODEL, input="What is my dog called?", previous_response_id=first.id, **GREEDY
    )
    told: Any = [
        {"role": "user", "content": "My dog is called Rex."},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "What is my dog called?"},
    ]
    whole = client.responses.create(model=MODEL, input=told, store=False, **GREEDY)
    assert second.output_text == whole.output_text
    assert second.usage is not None
    assert whole.usage is not None
    assert second.usage.input_tokens == whole.usage.input_tokens
    assert client.responses.retrieve(second.id).output_text == second.output_text


def test_log_probabilities_come_for_every_token(client: OpenAI) -> None:
    response = client.responses.create(
        model=MODEL,
        input=QUESTION,
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        temperature=0,
        max_output_tokens=16,
    )
    (message,) = response.output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    assert len(part.logprobs or ()) == 16
    assert all(each.logprob <= 0 and len(each.top_logprobs) == 2 for each in part.logprobs or ())


def test_what_the_model_lacks_is_refused_by_the_callers_field(client: OpenAI) -> None:
    tool: Any = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
    with pytest.raises(openai.BadRequestError) as tools:
        client.responses.create(model=MODEL, input=QUESTION, tools=[tool])
    assert (tools.value.code, tools.value.param) == ("unsupported_field", "tools")
    with pytest.raises(openai.BadRequestError, match=r"\d+ tokens.*1024") as long:
        client.responses.create(model=MODEL, input="word " * 1500)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "input")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("text", ["tell me about the sea. " * 150, "tell me a story"], ids=["prompt", "answer"])
def test_the_engine_stops_when_the_client_has_gone(embedded: EmbeddedGateway, stream: bool, text: str) -> None:
    engine = engine_of(embedded)
    last_use_at(engine)
    before = used_s(engine)
    with Call(f"{embedded.url}/v1/responses", {"input": text, "stream": stream, **ENDLESS}):
        poll(lambda: used_s(engine) > before + 0.1, what="the engine did not begin")
    gone_at = time.monotonic()
    assert last_use_at(engine) - gone_at < STOPS_WITHIN_S
