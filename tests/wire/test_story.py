"""What the story of a stream says after each event, told as transcripts."""

from typing import Any

import orjson
import pytest

from lumbre.wire.openai.story import Beat, Story, Usage, choices_of
from lumbre.wire.sse import Event


def said(value: object) -> Event:
    data = value if isinstance(value, bytes) else orjson.dumps(value)
    return Event(b"data: " + data + b"\n\n", data)


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("event", "beat"),
    [
        (Event(b": ping\n\n", None), Beat.QUIET),
        (said(delta(role="assistant", content=None)), Beat.QUIET),
        (said(delta(content="")), Beat.QUIET),
        (said(delta(content="a")), Beat.TOKEN),
        (said(delta(reasoning_content="hm")), Beat.TOKEN),
        (said(delta(tool_calls=[{"index": 0, "function": {"arguments": "{"}}])), Beat.TOKEN),
        (said({"choices": [{"index": 0, "text": "a", "finish_reason": None}]}), Beat.TOKEN),
        (said(delta(finish="stop")), Beat.FINISH),
        (said(delta(finish="length", content="z")), Beat.FINISH),
        (said({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}), Beat.QUIET),
        (said({**delta(role="assistant"), "prompt_progress": {"processed": 3}}), Beat.PROGRESS),
        (said({"error": {"message": "no"}}), Beat.ERROR),
        (said(b"[DONE]"), Beat.DONE),
        (said(b"not json"), Beat.QUIET),
        (said(b"null"), Beat.QUIET),
        (said([1]), Beat.QUIET),
        (said({"choices": None}), Beat.QUIET),
        (said({"choices": [None, 3]}), Beat.QUIET),
    ],
)
def test_every_event_is_what_it_is(event: Event, beat: Beat) -> None:
    assert Story().see(event).beat is beat


def test_a_stream_is_finished_when_every_choice_that_was_asked_for_has_said_why() -> None:
    story = Story(choices=2)
    finished = [story.finished]
    for chunk in (delta(0, content="a"), delta(0, finish="stop"), delta(1, content="b"), delta(1, finish="length")):
        story.see(said(chunk))
        finished.append(story.finished)
    assert finished == [False, False, False, False, True]
    assert not story.done


def test_usage_is_the_engines_own_or_else_what_was_seen() -> None:
    story = Story()
    story.see(said(delta(content="a")))
    story.see(said(delta(content="b", finish="stop")))
    assert story.usage == Usage(0, 2, estimated=True)
    story.see(said({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}))
    assert story.usage == Usage(5, 7, estimated=False)


def test_tool_calls_are_put_together_from_their_fragments() -> None:
    story = Story(keep_text=True)
    for function in ({"name": "get", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}):
        story.see(said(delta(tool_calls=[{"index": 0, "function": function}])))
    story.see(said(delta(tool_calls=[{"index": 1, "function": {"name": "put", "arguments": "{}"}}])))
    calls = story.choices[0].tool_calls
    assert [(call.name, call.arguments) for call in calls.values()] == [("get", '{"a":1}'), ("put", "{}")]


def test_a_whole_reply_gives_the_same_choice_as_its_stream() -> None:
    story = Story(keep_text=True)
    story.see(said(delta(content="he")))
    story.see(said(delta(content="llo", finish="stop")))
    reply = {"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]}
    (whole,) = choices_of(reply)
    (streamed,) = story.choices.values()
    assert (whole.text, whole.finish_reason) == (streamed.text, streamed.finish_reason) == ("hello", "stop")


@pytest.mark.parametrize("reply", [{}, {"choices": None}, {"choices": [1]}, {"choices": [{"message": None}]}])
def test_an_odd_reply_is_no_reason_to_fall_over(reply: dict[str, Any]) -> None:
    assert all(choice.text == "" for choice in choices_of(reply))
