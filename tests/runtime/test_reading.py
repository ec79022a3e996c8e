"""How an upstream's reply becomes the chat reply that the relay reads: from another API, with hidden values back."""

import json
from typing import Any

import pytest

from lumbre.gateway.redaction import Redaction
from lumbre.gateway.sensitive import Finder
from lumbre.runtime.reading import Reading
from lumbre.wire.openai.story import MalformedReply
from lumbre.wire.sse import DONE, Event, data_event

MAIL = "ana@example.org"
HIDDEN = "<EMAIL_1>"


def a_redaction() -> Redaction:
    redaction = Redaction(Finder({}))
    assert redaction.hide(f"Write to {MAIL}.") == f"Write to {HIDDEN}."
    return redaction


def a_reading(*, from_messages: bool = False, redacted: bool = False, include_usage: bool = True) -> Reading:
    redaction = a_redaction() if redacted else None
    return Reading("vast", 7, from_messages=from_messages, include_usage=include_usage, redaction=redaction)


def event(document: Any) -> Event:
    data = json.dumps(document).encode()
    return Event(data_event(data), data)


def chunk(text: str) -> Event:
    return event({"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]})


def message(*events: dict[str, Any]) -> list[Event]:
    return [
        event({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3, "output_tokens": 0}}}),
        event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        *(event(each) for each in events),
        event({"type": "content_block_stop", "index": 0}),
        event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        event({"type": "message_stop"}),
    ]


def delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def told(reading: Reading, events: list[Event]) -> list[Event]:
    return [each for one in events for each in reading.events(one)]


def content(events: list[Event]) -> str:
    chunks = [json.loads(each.data) for each in events if each.data not in (None, DONE)]
    return "".join(
        choice["delta"].get("content") or "" for each in chunks for choice in each["choices"] if choice["delta"]
    )


def test_a_chat_stream_with_nothing_hidden_is_passed_on_as_it_is() -> None:
    events = [chunk("a"), chunk("b"), Event(b": a comment\n\n", None), Event(data_event(DONE), DONE)]
    assert told(a_reading(), events) == events


@pytest.mark.parametrize("cut", range(1, len(HIDDEN)))
@pytest.mark.parametrize("from_messages", [False, True])
def test_what_was_hidden_is_put_back_wherever_a_stream_is_cut(from_messages: bool, cut: int) -> None:
    pieces = ["Mail ", HIDDEN[:cut], HIDDEN[cut:], " now"]
    if from_messages:
        events = message(*(delta(piece) for piece in pieces))
    else:
        end = event({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        events = [*(chunk(piece) for piece in pieces), end, Event(data_event(DONE), DONE)]
    read = told(a_reading(from_messages=from_messages, redacted=True), events)
    assert content(read) == f"Mail {MAIL} now"
    assert read[-1].data == DONE


def test_a_stream_of_messages_becomes_one_of_chat() -> None:
    read = told(a_reading(from_messages=True), message(delta("hel"), delta("lo")))
    assert content(read) == "hello"
    first, *_, usage, done = read
    assert first.data is not None
    assert json.loads(first.data)["model"] == "vast"
    assert json.loads(first.data)["created"] == 7
    assert usage.data is not None
    assert json.loads(usage.data)["usage"]["total_tokens"] == 5
    assert done.data == DONE


def test_the_usage_is_left_out_where_it_is_not_wanted() -> None:
    read = told(a_reading(from_messages=True, include_usage=False), message(delta("x")))
    assert not any(each.data and b'"usage"' in each.data for each in read)


def test_two_readings_share_nothing() -> None:
    one, other = a_reading(redacted=True), a_reading(redacted=True)
    one.events(chunk("<EMA"))
    assert content(other.events(chunk("IL_1> stays"))) == "IL_1> stays"


def completion(text: str) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


def test_a_whole_reply_is_read_alike() -> None:
    said = {"type": "message", "role": "assistant", "stop_reason": "end_turn", "id": "msg_1"}
    whole = {**said, "content": [{"type": "text", "text": HIDDEN}], "usage": {"input_tokens": 1, "output_tokens": 2}}
    read = a_reading(from_messages=True, redacted=True).whole(whole)
    assert read["choices"][0]["message"]["content"] == MAIL
    assert (read["model"], read["usage"]["completion_tokens"]) == ("vast", 2)
    assert a_reading(redacted=True).whole(completion(HIDDEN)) == completion(MAIL)
    assert a_reading().whole(completion(HIDDEN)) == completion(HIDDEN)


def test_what_is_no_reply_of_the_upstreams_api_is_malformed() -> None:
    with pytest.raises(MalformedReply):
        a_reading(from_messages=True).whole({"choices": []})
    with pytest.raises(MalformedReply):
        told(a_reading(from_messages=True), [event({"type": "message_stop"})])


@pytest.mark.parametrize("from_messages", [False, True])
def test_a_refusals_words_are_put_back_too(from_messages: bool) -> None:
    error = {"type": "invalid_request_error", "message": f"{HIDDEN} is not allowed"}
    refusal = {"type": "error", "error": error} if from_messages else {"error": error}
    read = a_reading(from_messages=from_messages, redacted=True).refusal(refusal, 400)
    assert read["error"]["message"] == f"{MAIL} is not allowed"
    assert HIDDEN in a_reading(from_messages=from_messages).refusal(refusal, 400)["error"]["message"]


@pytest.mark.parametrize("document", [{}, {"error": "no"}, {"error": {"message": 7}}, {"error": None}])
def test_a_refusal_without_words_of_its_own_is_no_fault(document: dict[str, Any]) -> None:
    assert a_reading(redacted=True).refusal(document, 400) == document
