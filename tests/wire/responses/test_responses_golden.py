"""The golden transcripts of the Responses API: what goes in and what must come out.

Each folder of `golden/responses` holds some of these pairs: `request.json`, after `history.json`, becomes `chat.json`;
`chat.sse` becomes `responses.sse`; `completion.json` becomes `response.json`. The last two pairs say the same.
"""

from pathlib import Path
from typing import Any

import httpx
import openai
import orjson
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from golden import Golden, objects, read
from lumbre.api.openai_schema import CHAT_REQUEST, check
from lumbre.api.responses_schema import RESPONSES_REQUEST
from lumbre.wire.openai.fold import Fold
from lumbre.wire.responses.request import to_chat
from lumbre.wire.responses.translation import ResponseTranslation

GOLDEN = Golden("responses", stream="responses.sse", reply="response.json")


def translation(case: Path) -> ResponseTranslation:
    return ResponseTranslation("resp_golden", 1700000000, "small", read(case, "request.json"))


def test_the_transcripts_cover_what_they_should() -> None:
    GOLDEN.check_cover(
        *("text", "instructions", "tool_call", "tool_loop", "two_calls", "schema", "length", "reasoning"),
        *("refusal", "image", "logprobs", "nothing_said"),
    )


@pytest.mark.parametrize("case", GOLDEN.with_file("request.json"))
def test_a_request_becomes_the_chat_request(case: Path) -> None:
    body = read(case, "request.json")
    check(body, RESPONSES_REQUEST)
    history = read(case, "history.json") if (case / "history.json").exists() else []
    chat = to_chat(body, history)
    assert chat == read(case, "chat.json")
    check(chat, CHAT_REQUEST)


@pytest.mark.parametrize("case", GOLDEN.with_file("chat.sse"))
def test_a_chat_stream_becomes_the_stream_of_events(case: Path) -> None:
    told = translation(case)
    said = b"".join(told.chunk(chunk) for chunk in objects(case / "chat.sse")) + told.ending()
    assert said.decode() == (case / "responses.sse").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", GOLDEN.with_file("completion.json"))
def test_a_chat_completion_becomes_the_response(case: Path) -> None:
    assert orjson.loads(translation(case).reply(read(case, "completion.json"))) == read(case, "response.json")


@pytest.mark.parametrize("case", GOLDEN.with_file("responses.sse"))
def test_both_forms_of_a_transcript_say_the_same(case: Path) -> None:
    fold = Fold()
    for chunk in objects(case / "chat.sse"):
        fold.add(chunk)
    assert orjson.loads(fold.body()) == read(case, "completion.json")
    *_, last = objects(case / "responses.sse")
    assert last["response"] == read(case, "response.json")


@pytest.mark.parametrize("case", GOLDEN.with_file("responses.sse"))
def test_openais_own_types_take_every_event_and_the_response(case: Path) -> None:
    event_type: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    names = [line[7:] for line in (case / "responses.sse").read_text(encoding="utf-8").splitlines() if line[:1] == "e"]
    events = list(objects(case / "responses.sse"))
    assert names == [event["type"] for event in events]
    for event in events:
        assert event_type.validate_python(event, strict=True).type == event["type"]
    assert Response.model_validate(read(case, "response.json"), strict=True).id == "resp_golden"


@pytest.mark.parametrize("case", GOLDEN.with_file("responses.sse"))
def test_openais_own_client_follows_the_stream_to_the_same_response(case: Path) -> None:
    def respond(_request: Any) -> httpx.Response:
        stream = (case / "responses.sse").read_bytes()
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx.Client(transport=httpx.MockTransport(respond))
    with (
        openai.OpenAI(api_key="x", base_url="http://gateway.invalid/v1", http_client=http) as client,
        client.responses.stream(model="m", input="hi") as stream,
    ):
        events = list(stream)
    assert events[-1].type in ("response.completed", "response.incomplete")
    told = events[-1].response.model_dump()["output"]
    expected = Response.model_validate(read(case, "response.json")).output
    assert [item["id"] for item in told] == [item.id for item in expected]
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == Response.model_validate(read(case, "response.json")).output_text
