"""How an error is told in the Responses API: as an event that OpenAI's clients raise, and by the caller's own field."""

from typing import Any

import httpx
import openai
import orjson
import pytest

from lumbre.core.errors import CallerError, UpstreamCut
from lumbre.wire.responses.errors import error_event, in_callers_words
from lumbre.wire.responses.request import to_chat
from lumbre.wire.responses.translation import ResponseTranslation

TOOLS: list[dict[str, Any]] = [{"type": "function", "name": name, "parameters": {}} for name in ("f", "g")]
IMAGE = {"type": "input_image", "image_url": "data:"}
BODY = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}, IMAGE]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "y"},
        {"role": "user", "content": "z"},
    ],
    "tools": TOOLS,
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]},
}
HISTORY = [{"role": "user", "content": [IMAGE, IMAGE]}]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("messages[0].content", "instructions"),
        ("messages[1].content[1].type", "previous_response_id"),
        ("messages[2].content[1].type", "input[0].content[1].type"),
        ("messages[2].content[1].image_url.url", "input[0].content[1].image_url"),
        ("messages[3].tool_calls[0].function.arguments", "input[2]"),
        ("messages[4].content", "input[3]"),
        ("messages[5].content", "input[4].content"),
        ("messages", "input"),
        ("messages[99].content", "input"),
        ("tools[0].function.parameters", "tools[1].parameters"),
        ("tools[0].type", "tools[1].type"),
        ("tool_choice.function.name", "tool_choice.name"),
        ("tool_choice", "tool_choice"),
        ("response_format.json_schema.schema", "text.format.schema"),
        ("response_format.type", "text.format.type"),
        ("reasoning_effort", "reasoning.effort"),
        ("verbosity", "text.verbosity"),
        ("max_tokens", "max_output_tokens"),
        ("max_completion_tokens", "max_output_tokens"),
        ("logprobs", "include"),
        ("temperature", "temperature"),
        ("vendor.field", "vendor.field"),
    ],
)
def test_a_fault_of_the_chat_completion_is_told_by_the_callers_field(theirs: str, ours: str) -> None:
    to_chat(BODY, HISTORY)
    found = CallerError(f"{theirs}: no", param=theirs, code="unsupported_field", status=422, valid=["a"])
    error = in_callers_words(found, BODY, HISTORY)
    assert (error.param, error.message) == (ours, f"{ours}: no")
    assert (error.code, error.status, error.valid) == ("unsupported_field", 422, ("a",))


def test_a_text_is_one_field() -> None:
    found = CallerError("messages[0].content: no", param="messages[0].content")
    assert in_callers_words(found, {"input": "hi"}).param == "input"


def test_an_error_about_no_field_stays_as_it_is() -> None:
    found = CallerError("no")
    assert in_callers_words(found, BODY) is found


def test_the_event_has_the_next_number_and_says_what_a_reply_would_have_said() -> None:
    told = ResponseTranslation("resp_1", 5, "m", {"input": "hi"})
    told.chunk({"choices": [{"delta": {"content": "x"}}]})
    raw = error_event(UpstreamCut("it was cut"), "d-1", told.sequence_number)
    name, data = raw.decode().split("\n", 1)
    event = orjson.loads(data.removeprefix("data: "))
    assert name == "event: error"
    assert event["error"]["lumbre"] == {"decision": "d-1", "switch": None, "valid": None}
    assert event["error"]["code"] == "upstream_cut"
    event.pop("error")
    assert event == {
        "type": "error",
        "code": "upstream_cut",
        "message": "it was cut",
        "param": None,
        "sequence_number": 5,
    }


def test_an_event_whose_number_nobody_knows_says_none() -> None:
    event = orjson.loads(error_event(UpstreamCut("it was cut"), None).split(b"data: ")[1])
    assert event["type"] == "error"
    assert "sequence_number" not in event


def test_openais_client_raises_what_the_event_says() -> None:
    told = ResponseTranslation("resp_1", 5, "m", {"input": "hi"})
    stream = told.chunk({"choices": [{"delta": {"content": "x"}}]})
    stream += error_event(UpstreamCut("it was cut"), "d-1", told.sequence_number)

    def respond(_request: Any) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx.Client(transport=httpx.MockTransport(respond))
    with openai.OpenAI(api_key="x", base_url="http://gateway.invalid/v1", http_client=http) as client:
        events = client.responses.create(model="m", input="hi", stream=True)
        kinds = [next(events).type for _ in range(5)]
        with pytest.raises(openai.APIError, match="it was cut") as caught:
            next(events)
    assert kinds[-1] == "response.output_text.delta"
    assert caught.value.code == "upstream_cut"
