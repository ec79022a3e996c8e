"""What the story of a Messages stream says after each event, told as transcripts."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.anthropic.story import MessageStory
from lumbre.wire.openai.promise import broken, promises_of
from lumbre.wire.openai.story import Beat, Usage
from lumbre.wire.sse import Event


def said(value: object) -> Event:
    data = value if isinstance(value, bytes) else orjson.dumps(value)
    return Event(b"event: x\ndata: " + data + b"\n\n", data)


def start(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": usage}}


def block(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def told(*events: object, keep_text: bool = True) -> MessageStory:
    story = MessageStory(keep_text=keep_text)
    for event in events:
        story.see(said(event))
    return story


@pytest.mark.parametrize(
    ("event", "beat"),
    [
        (Event(b": keep-alive\n\n", None), Beat.QUIET),
        (said({"type": "ping"}), Beat.QUIET),
        (said(start()), Beat.QUIET),
        (said(block("text", text="")), Beat.QUIET),
        (said(block("text", text="a")), Beat.TOKEN),
        (said(block("tool_use", id="t", name="get", input={})), Beat.TOKEN),
        (said(delta(type="text_delta", text="a")), Beat.TOKEN),
        (said(delta(type="text_delta", text="")), Beat.QUIET),
        (said(delta(type="thinking_delta", thinking="a")), Beat.TOKEN),
        (said(delta(type="signature_delta", signature="a")), Beat.QUIET),
        (said(delta(type="input_json_delta", partial_json="{")), Beat.TOKEN),
        (said(stop()), Beat.QUIET),
        (said(ending("end_turn")), Beat.FINISH),
        (said(ending(None)), Beat.QUIET),
        (said({"type": "message_stop"}), Beat.DONE),
        (said({"type": "error", "error": {"type": "api_error", "message": "x"}}), Beat.ERROR),
        (said({"error": {"message": "x"}}), Beat.ERROR),
        (said({"prompt_progress": {"total": 9}}), Beat.PROGRESS),
        (said(b"[1]"), Beat.QUIET),
        (said(b"no json"), Beat.QUIET),
        (said({"type": "of the future"}), Beat.QUIET),
    ],
)
def test_each_event_has_its_beat(event: Event, beat: Beat) -> None:
    assert MessageStory(keep_text=True).see(event).beat is beat


def test_a_stream_is_finished_when_it_says_why_it_stopped() -> None:
    story = told(start(), block("text", text=""), delta(type="text_delta", text="a"), stop())
    assert not story.finished
    story.see(said(ending("end_turn")))
    assert (story.finished, story.done) == (True, False)
    story.see(said({"type": "message_stop"}))
    assert (story.finished, story.done, story.failed) == (True, True, False)


def test_an_error_of_the_engine_is_no_finish() -> None:
    story = told(start(), {"type": "error", "error": {"type": "overloaded_error"}})
    assert (story.finished, story.failed) == (False, True)


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("of the future", "stop"),
    ],
)
def test_why_it_stopped_is_told_in_chat_words(reason: str, word: str) -> None:
    choice = told(start(), ending(reason)).choices[0]
    assert (choice.finish_reason, choice.refused) == (word, reason == "refusal")


def test_texts_and_calls_are_kept_where_they_are_to_be_checked() -> None:
    events = [
        start(),
        block("text", 0, text="so"),
        delta(0, type="text_delta", text=" it is"),
        stop(0),
        block("tool_use", 1, id="a", name="get", input={}),
        delta(1, type="input_json_delta", partial_json='{"a":'),
        delta(1, type="input_json_delta", partial_json="1}"),
        stop(1),
        block("tool_use", 2, id="b", name="now", input={}),
        stop(2),
        block("tool_use", 3, id="c", name="put", input={"b": 2}),
        stop(3),
        ending("tool_use"),
    ]
    choice = told(*events).choices[0]
    assert choice.text == "so it is"
    calls = [(call.name, call.arguments) for call in choice.tool_calls.values()]
    assert calls == [("get", '{"a":1}'), ("now", "{}"), ("put", '{"b":2}')]
    unkept = told(*events, keep_text=False).choices[0]
    assert (unkept.text, unkept.tool_calls, unkept.finish_reason) == ("", {}, "tool_calls")


def test_promises_can_be_held_to_it() -> None:
    tools = [{"type": "function", "function": {"name": "get", "parameters": {"required": ["a"]}, "strict": True}}]
    promises = promises_of({"tools": tools, "tool_choice": "required"})
    events = [start(), block("tool_use", 0, id="a", name="get", input={}), stop(0), ending("tool_use")]
    silent = told(start(), ending("end_turn"))
    assert broken(promises, list(silent.choices.values())) is not None
    assert "breaks required" in (broken(promises, list(told(*events).choices.values())) or "")
    events.insert(2, delta(0, type="input_json_delta", partial_json='{"a": 1}'))
    assert broken(promises, list(told(*events).choices.values())) is None


def test_usage_is_the_engines_own_with_what_came_from_caches() -> None:
    usage = told(
        start(input_tokens=5, cache_creation_input_tokens=2, cache_read_input_tokens=3, output_tokens=1),
        ending("end_turn", output_tokens=7),
    ).usage
    assert usage == Usage(prompt=10, completion=7, estimated=False)


def test_counts_told_at_the_end_stand_for_those_at_the_beginning() -> None:
    usage = told(start(input_tokens=0), ending("end_turn", input_tokens=9, output_tokens=2)).usage
    assert usage == Usage(prompt=9, completion=2, estimated=False)


def test_usage_of_a_stream_that_was_cut_is_an_estimate() -> None:
    piece = delta(type="text_delta", text="a")
    usage = told(start(input_tokens=4, output_tokens=1), block("text", text=""), piece, piece, piece).usage
    assert usage == Usage(prompt=4, completion=3, estimated=True)


def test_usage_that_was_never_counted_to_the_end_is_an_estimate() -> None:
    piece = delta(type="text_delta", text="a")
    assert told(start(input_tokens=4, output_tokens=1), piece, piece, ending("end_turn")).usage == Usage(4, 2, True)


def test_a_stream_need_not_begin_its_message() -> None:
    said = [block("text", text=""), delta(type="text_delta", text="a"), stop(), ending("end_turn", output_tokens=2)]
    story = told(*said)
    assert (story.finished, story.choices[0].text, story.usage) == (True, "a", Usage(0, 2, estimated=False))


keys = st.sampled_from(
    ["type", "index", "delta", "content_block", "message", "usage", "text", "input", "name", "partial_json", "error"]
)
kinds = st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta", "tool_use"])
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | kinds | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(json_value, max_size=6))
def test_an_engine_may_send_anything(values: list[Any]) -> None:
    story = MessageStory(keep_text=True)
    for value in values:
        data = json.dumps(value).encode()
        assert story.see(Event(data, data)).beat in Beat
    assert story.usage.completion >= 0
