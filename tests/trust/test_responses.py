"""OpenAI's Responses API with the real SDK, over an engine that only knows chat completions."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall, ResponseInputParam

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import Call, poll

WITHIN_S = 1.0
MODEL = "rogue"
LOOKUP: FunctionToolParam = {
    "type": "function",
    "name": "lookup",
    "description": "Looks a city up.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


def sdk(gateway: GatewayProcess) -> OpenAI:
    """Told not to retry: a test wants to see the first answer."""
    return OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=30)


def wish(name: str, **more: Any) -> dict[str, Any]:
    """What the SDK adds to a body, so that the engine knows how to behave."""
    return {"rogue": {"id": name, **more}}


def heard(rogue: RogueProcess, name: str) -> dict[str, Any]:
    """The body that the engine got."""
    body: dict[str, Any] = json.loads(rogue.find(name)["body"])
    return body


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[OpenAI]:
    with sdk(gateway) as made:
        yield made


def test_a_question_gets_a_response_with_its_usage(client: OpenAI, name: str) -> None:
    response = client.responses.create(model=MODEL, input="hello", extra_body=wish(name))
    assert response.output_text == "word0 word1 word2 "
    assert (response.object, response.status, response.error) == ("response", "completed", None)
    assert response.id.startswith("resp_")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (7, 3, 10)
    assert (response._request_id or "").startswith("d-")
    assert response.id.removeprefix("resp_") == (response._request_id or "").removeprefix("d-")


def test_a_stream_tells_the_same_story_as_the_plain_response(client: OpenAI) -> None:
    plain = client.responses.create(model=MODEL, input="hello")
    events = list(client.responses.create(model=MODEL, input="hello", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1]
    assert last.type == "response.completed"
    assert said == last.response.output_text == plain.output_text
    assert last.response.usage == plain.usage


def test_the_sdks_stream_helper_hands_out_the_same_response(client: OpenAI) -> None:
    with client.responses.stream(model=MODEL, input="hello") as stream:
        words = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert words == ["word0 ", "word1 ", "word2 "]
    assert final.output_text == "".join(words)


def test_the_async_client_streams_several_at_once(gateway: GatewayProcess) -> None:
    async def ask(client: AsyncOpenAI, number: int) -> str:
        stream = await client.responses.create(
            model=MODEL, input="hello", stream=True, extra_body={"rogue": {"text": f"answer {number}"}}
        )
        return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])

    async def ask_all() -> list[str]:
        async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(6)))

    assert asyncio.run(ask_all()) == [f"answer {number}" for number in range(6)]


def test_instructions_and_items_reach_the_engine_as_one_conversation(
    client: OpenAI, rogue: RogueProcess, name: str
) -> None:
    items: ResponseInputParam = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]},
        {"type": "message", "role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    client.responses.create(
        model=MODEL,
        instructions="Speak Spanish.",
        input=items,
        max_output_tokens=9,
        temperature=0.5,
        extra_body=wish(name),
    )
    body = heard(rogue, name)
    assert body["messages"] == [
        {"role": "system", "content": "Speak Spanish."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    assert (body["max_tokens"], body["temperature"]) == (9, 0.5)
    assert body.keys().isdisjoint({"input", "instructions", "store", "max_output_tokens"})


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_tool_loop_goes_round_twice_and_ends_in_words(
    client: OpenAI, rogue: RogueProcess, name: str, stream: bool
) -> None:
    said: ResponseInputParam = [{"role": "user", "content": "Where are Cádiz and Ronda?"}]
    for number, city in enumerate(("Cádiz", "Ronda")):
        arguments = json.dumps({"city": city})
        call = asked_for_call(client, said, wish(f"{name}-{number}", tool_arguments=arguments), stream=stream)
        assert (call.name, call.arguments) == ("lookup", arguments)
        said += [
            {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
            {"type": "function_call_output", "call_id": call.call_id, "output": f"{city} is in Spain"},
        ]
    last = client.responses.create(model=MODEL, input=said, tools=[LOOKUP], extra_body=wish(f"{name}-end"))
    assert last.output_text == "word0 word1 word2 "
    body = heard(rogue, f"{name}-end")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "assistant", "tool"]
    assert body["messages"][1]["tool_calls"][0]["function"] == {
        "name": "lookup",
        "arguments": '{"city": "C\\u00e1diz"}',
    }
    assert body["messages"][4]["content"] == "Ronda is in Spain"
    assert body["messages"][4]["tool_call_id"] == body["messages"][3]["tool_calls"][0]["id"]
    assert body["tools"][0]["function"]["name"] == "lookup"


def asked_for_call(
    client: OpenAI, said: ResponseInputParam, extra: dict[str, Any], *, stream: bool
) -> ResponseFunctionToolCall:
    """The one call of an answer, plain or from a stream's pieces."""
    if not stream:
        (item,) = client.responses.create(model=MODEL, input=said, tools=[LOOKUP], extra_body=extra).output
    else:
        events = list(client.responses.create(model=MODEL, input=said, tools=[LOOKUP], extra_body=extra, stream=True))
        pieces = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
        last = events[-1]
        assert last.type == "response.completed"
        (item,) = last.response.output
        assert isinstance(item, ResponseFunctionToolCall)
        assert len(pieces) > 1
        assert "".join(pieces) == item.arguments
    assert isinstance(item, ResponseFunctionToolCall)
    return item


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_two_calls_in_one_breath_are_two_items_and_their_outputs_go_back(
    client: OpenAI, name: str, stream: bool
) -> None:
    text = 'call lookup {"city": "Cádiz"}\ncall lookup {"city": "Ronda"}'
    obey: dict[str, Any] = {"tools": [LOOKUP], "extra_body": {"rogue": {"do": "obey"}}}
    if stream:
        *_, last = client.responses.create(model=MODEL, input=text, stream=True, **obey)
        assert last.type == "response.completed"
        first = last.response
    else:
        first = client.responses.create(model=MODEL, input=text, **obey)
    calls = [item for item in first.output if item.type == "function_call"]
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Cádiz", "Ronda"]
    assert len({call.call_id for call in calls} | {call.id for call in calls}) == 4
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"sunny in {number}"}
        for number, call in enumerate(calls)
    ]
    second = client.responses.create(model=MODEL, input=outputs, previous_response_id=first.id, **obey)
    assert second.output_text == "The tools said: sunny in 0; sunny in 1"


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no input": ({"input": []}, "missing_field", "input"),
    "a role that is none": ({"input": [{"role": "king", "content": "x"}]}, "invalid_type", "input[0].role"),
    "an item of a kind that nobody runs": (
        {"input": [{"role": "user", "content": "x"}, {"type": "web_search_call", "id": "w"}]},
        "unsupported_field",
        "input[1].type",
    ),
    "an output without its call": (
        {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
        "invalid_value",
        "input[0].call_id",
    ),
    "a file": (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        "unsupported_field",
        "input[0].content[0].type",
    ),
    "a tool that runs elsewhere": ({"tools": [{"type": "web_search"}]}, "unsupported_field", "tools[0].type"),
    "a format without its schema": (
        {"text": {"format": {"type": "json_schema", "name": "n"}}},
        "missing_field",
        "text.format.schema",
    ),
    "a schema that is none": (
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "nonsense"}}}},
        "invalid_request",
        "text.format.schema",
    ),
    "background": ({"background": True}, "unsupported_field", "background"),
    "a conversation": ({"conversation": "conv_1"}, "unsupported_field", "conversation"),
    "a response that is not kept": (
        {"previous_response_id": "resp_none"},
        "previous_response_not_found",
        "previous_response_id",
    ),
    "a name that is none": ({"model": "gpt-99"}, "model_not_found", "model"),
    "too many log probabilities": ({"top_logprobs": 21}, "invalid_type", "top_logprobs"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_told_by_the_callers_own_field_and_no_engine_hears_of_it(
    client: OpenAI, rogue: RogueProcess, case: str, stream: bool
) -> None:
    asked, code, param = FAULTS[case]
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(model=MODEL, input="hello", stream=stream, extra_body=asked)
    assert (caught.value.code, caught.value.param) == (code, param)
    assert param in caught.value.message
    assert caught.value.status_code == (404 if code == "model_not_found" else 400)
    assert rogue.log()["seen"] == 0


ENDINGS: dict[str, tuple[dict[str, Any], str]] = {
    "a cut": ({"do": "cut"}, "upstream_cut"),
    "an end without a finish": ({"do": "end_unfinished"}, "upstream_cut"),
    "an engine's own error": ({"do": "error_event"}, "engine_failed"),
    "broken framing": ({"do": "bad_framing"}, "engine_failed"),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_a_stream_that_breaks_raises_in_the_sdk_after_what_was_said(client: OpenAI, name: str, case: str) -> None:
    how, code = ENDINGS[case]
    stream = client.responses.create(model=MODEL, input="hello", stream=True, extra_body=wish(name, **how))
    events: list[Any] = []
    with pytest.raises(openai.APIError) as caught:
        events.extend(stream)
    assert caught.value.code == code
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == "word0 word1 word2 "
    assert not any(event.type in ("response.completed", "response.incomplete") for event in events)


def test_the_error_event_goes_on_with_the_numbers_of_the_stream(gateway: GatewayProcess, name: str) -> None:
    asked = {"model": MODEL, "input": "hello", "stream": True, **wish(name, do="cut")}
    with Call(f"{gateway.url}/v1/responses", asked) as call:
        told = [json.loads(event.split("\n")[1].removeprefix("data: ")) for event in call.events()]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert (told[-1]["type"], told[-1]["code"], told[-1]["error"]["code"]) == ("error", "upstream_cut", "upstream_cut")
    assert told[-1]["error"]["lumbre"]["decision"] == call.header("x-lumbre-decision")


@pytest.mark.parametrize(
    ("how", "status", "kind"),
    [
        ({"do": "cut"}, 502, openai.InternalServerError),
        ({"do": "refuse", "status": 429}, 429, openai.RateLimitError),
        ({"do": "refuse", "status": 400}, 400, openai.BadRequestError),
        ({"do": "redirect"}, 502, openai.InternalServerError),
    ],
    ids=["cut", "rate limit", "refusal", "redirect"],
)
def test_an_engine_that_fails_is_told_by_status_and_words(
    client: OpenAI, name: str, how: dict[str, Any], status: int, kind: type[openai.APIStatusError]
) -> None:
    with pytest.raises(kind) as caught:
        client.responses.create(model=MODEL, input="hello", extra_body=wish(name, **how))
    assert caught.value.status_code == status
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["message"]
    if how["do"] != "refuse":  # an engine's own refusal is passed on as it is
        assert caught.value.body["lumbre"]["decision"].startswith("d-")


def test_a_silent_stream_is_kept_alive_and_the_sdk_does_not_mind(open_gateway: Opener, name: str) -> None:
    gateway = open_gateway(sections={"gateway": {"keepalive_s": 0.1}}).ready()
    asked = wish(name, do="silent", silent_s=0.5)
    with Call(f"{gateway.url}/v1/responses", {"model": MODEL, "input": "hi", "stream": True, **asked}) as call:
        events = list(call.events())
    assert events[0] == ": keep-alive"
    assert events[-1].startswith("event: response.completed")
    with sdk(gateway) as client:
        stream = client.responses.create(model=MODEL, input="hi", stream=True, extra_body=wish(f"{name}-sdk"))
        assert [event.type for event in stream][-1] == "response.completed"


@pytest.mark.parametrize("do", ["no_header", "silent", "drip"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_client_that_leaves_stops_the_engine_and_nothing_is_kept(
    open_gateway: Opener, rogue: RogueProcess, name: str, do: str, stream: bool
) -> None:
    gateway = open_gateway(slots=1).ready()
    asked = {"model": MODEL, "input": "hi", "stream": stream, **wish(name, do=do, pause_s=0.02)}
    call = Call(f"{gateway.url}/v1/responses", asked)
    rogue.wait(name, "started")
    response_id = ""
    if stream and do == "drip":
        first = call.read_until(b"word0")
        response_id = json.loads(first.split(b"\n")[1].removeprefix(b"data: "))["response"]["id"]
    left_s = time.monotonic()
    call.leave()
    assert rogue.wait(name, "gone")["gone_s"] - left_s < WITHIN_S
    poll(lambda: gateway.busy() == (0, 0), 1)
    if response_id:
        with gateway.get(f"/v1/responses/{response_id}") as kept:
            assert kept.status == 404


def test_a_schema_that_the_engine_did_not_keep_is_told_on(open_gateway: Opener, name: str) -> None:
    gateway = open_gateway(sections={"tier_a": {"strict_json": True}}).ready()
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    text: Any = {"format": {"type": "json_schema", "name": "place", "schema": schema, "strict": True}}
    with sdk(gateway) as client:
        kept = client.responses.create(
            model=MODEL, input="hi", text=text, extra_body=wish(name, text='{"city": "Cádiz"}')
        )
        assert json.loads(kept.output_text) == {"city": "Cádiz"}
        with pytest.raises(openai.InternalServerError) as caught:
            client.responses.create(model=MODEL, input="hi", text=text, extra_body=wish(f"{name}-no", text="{}"))
    assert caught.value.code == "engine_ignored_request"


@pytest.mark.parametrize(
    ("model", "status", "code"), [("auto", 503, "strict_json_needs_b"), (MODEL, 422, "affinity_conflict")]
)
def test_strict_json_is_refused_with_the_way_out(
    client: OpenAI, rogue: RogueProcess, model: str, status: int, code: str
) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}}
    with pytest.raises(openai.APIStatusError, match="strict_json") as caught:
        client.responses.create(model=model, input="hi", text=text)
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert rogue.log()["seen"] == 0
