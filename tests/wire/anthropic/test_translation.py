"""The law of the translation: a client that folds the stream has what the whole reply says; and what breaks it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.anthropic.fold import MessageFold
from lumbre.wire.anthropic.translation import MessageTranslation
from lumbre.wire.openai.fold import Fold, MalformedReply
from lumbre.wire.sse import Splitter

Delta = dict[str, Any]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
inputs = st.dictionaries(text, values, max_size=3)
finishes = st.sampled_from(["stop", "tool_calls", "length", "content_filter"])
usages = st.none() | st.fixed_dictionaries(
    {"prompt_tokens": st.integers(0, 99), "completion_tokens": st.integers(0, 99)},
    optional={"prompt_tokens_details": st.fixed_dictionaries({"cached_tokens": st.integers(0, 99)})},
)


@st.composite
def cuts(draw: st.DrawFn, whole: str) -> list[str]:
    """A text in pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]


@st.composite
def call_fragments(draw: st.DrawFn, number: int, *, may_end_early: bool) -> list[Delta]:
    whole = json.dumps(draw(inputs), indent=draw(st.none() | st.just(1)), ensure_ascii=draw(st.booleans()))
    if may_end_early:
        whole = whole[: draw(st.integers(0, len(whole)))]
    first, *rest = draw(cuts(whole))
    name = draw(st.sampled_from(["get", "put"]))
    fragments = [{"index": number, "id": f"call_{number}", "function": {"name": name, "arguments": first}}]
    return [*fragments, *({"index": number, "function": {"arguments": piece}} for piece in rest)]


@st.composite
def mixed(draw: st.DrawFn, calls: Sequence[list[Delta]]) -> list[Delta]:
    """The fragments of several calls, in any order that keeps each call's own, the calls beginning in turn."""
    line: list[Delta] = []
    waiting = [list(fragments) for fragments in calls]
    begun = 0
    while any(waiting):
        ready = [n for n, fragments in enumerate(waiting) if fragments and n <= begun]
        number = draw(st.sampled_from(ready))
        begun = max(begun, number + 1)
        line.append({"tool_calls": [waiting[number].pop(0)]})
    return line


@st.composite
def deltas(draw: st.DrawFn, *, finish: str) -> list[Delta]:
    """What a well-behaved engine says: it thinks, speaks, and calls."""
    calls = draw(st.integers(0, 3))
    fragments = [draw(call_fragments(n, may_end_early=finish == "length")) for n in range(calls)]
    thinks = draw(st.sampled_from(["reasoning", "reasoning_content"]))
    thoughts = [{thinks: piece} for piece in draw(cuts(draw(text)))]
    words = [{"content": piece} for piece in draw(cuts(draw(text)))]
    return [{"role": "assistant", "content": None}, *thoughts, *words, *draw(mixed(fragments))]


def chunk(delta: Delta, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def streamed(chunks: Sequence[dict[str, Any]], sequences: Sequence[str] = ()) -> list[dict[str, Any]]:
    told = MessageTranslation("msg_1", "m", sequences)
    splitter = Splitter()
    said = b"".join(told.chunk(each) for each in chunks) + told.ending()
    events = [(event.raw, orjson.loads(event.data or b"null")) for event in splitter.feed(said)]
    assert splitter.tail == b""
    for raw, event in events:
        assert raw.startswith(f"event: {event['type']}\ndata: ".encode())
    return [event for _, event in events]


def folded(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    fold = MessageFold()
    for event in events:
        fold.add(event)
    message: dict[str, Any] = orjson.loads(fold.body())
    return message


def replied(chunks: Sequence[dict[str, Any]], sequences: Sequence[str] = ()) -> dict[str, Any]:
    fold = Fold()
    for each in chunks:
        fold.add(each)
    reply: dict[str, Any] = orjson.loads(MessageTranslation("msg_1", "m", sequences).reply(orjson.loads(fold.body())))
    return reply


def check_order(events: Sequence[dict[str, Any]]) -> None:
    """One block at a time, counted from 0, between a beginning and an end."""
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    index, is_open = -1, False
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert not is_open
            index, is_open = index + 1, True
        assert is_open
        assert event["index"] == index
        is_open = event["type"] != "content_block_stop"
    assert not is_open


@given(st.data(), finishes, usages)
def test_the_folded_stream_is_the_whole_reply(data: st.DataObject, finish: str, usage: Any) -> None:
    chunks = [chunk(delta) for delta in data.draw(deltas(finish=finish))]
    chunks.append(chunk({}, finish, stop_reason=data.draw(st.sampled_from([None, "END", "</s>", 7]))))
    if usage is not None:
        chunks.append({"choices": [], "usage": usage})
    events = streamed(chunks, ["END"])
    check_order(events)
    assert folded(events) == replied(chunks, ["END"])


def by_kind(message: dict[str, Any]) -> dict[str, Any]:
    content = message.pop("content")
    said = {kind: "".join(b[kind] for b in content if b["type"] == kind) for kind in ("text", "thinking")}
    calls = sorted((b["id"], b["name"], orjson.dumps(b["input"])) for b in content if b["type"] == "tool_use")
    return {**message, **said, "calls": calls}


@given(st.data(), finishes)
def test_in_whatever_order_an_engine_speaks_nothing_is_lost(data: st.DataObject, finish: str) -> None:
    calls = [data.draw(call_fragments(n, may_end_early=finish == "length")) for n in range(2)]
    loose = [{kind: piece} for kind in ("content", "reasoning_content") for piece in data.draw(cuts(data.draw(text)))]
    line = data.draw(mixed(calls))
    for delta in loose:
        line.insert(data.draw(st.integers(0, len(line))), delta)
    chunks = [*(chunk(delta) for delta in line), chunk({}, finish)]
    events = streamed(chunks)
    check_order(events)
    assert by_kind(folded(events)) == by_kind(replied(chunks))


def kinds(out: bytes) -> Iterator[str]:
    return (line.removeprefix("event: ") for line in out.decode().splitlines() if line.startswith("event: "))


def test_each_piece_goes_out_when_it_comes() -> None:
    told = MessageTranslation("msg_1", "m")
    assert list(kinds(told.chunk(chunk({"role": "assistant"})))) == ["message_start"]
    assert list(kinds(told.chunk(chunk({"content": "a"})))) == ["content_block_start", "content_block_delta"]
    assert list(kinds(told.chunk(chunk({"content": "b"})))) == ["content_block_delta"]
    assert list(kinds(told.chunk(chunk({}, "stop")))) == ["content_block_stop"]
    assert told.chunk({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}) == b""
    assert list(kinds(told.ending())) == ["message_delta", "message_stop"]


def test_a_call_that_waited_goes_out_when_it_is_the_first() -> None:
    told = MessageTranslation("msg_1", "m")
    told.chunk(chunk(calling('{"a":')))
    assert told.chunk(chunk(calling('{"b":', number=1))) == b""
    assert list(kinds(told.chunk(chunk(calling("1}"))))) == ["content_block_delta"]
    out = told.chunk(chunk(calling("{}", number=2)))
    assert list(kinds(out)) == ["content_block_stop", "content_block_start", "content_block_delta"]
    assert list(kinds(told.chunk(chunk({"tool_calls": [{"index": 1, "function": {"arguments": "2}"}}]})))) == [
        "content_block_delta"
    ]


@pytest.mark.parametrize("arguments", [None, "", " "])
def test_a_call_without_arguments_has_an_empty_input_and_no_delta(arguments: str | None) -> None:
    events = streamed([chunk(calling(arguments)), chunk({}, "tool_calls")])
    assert [event["type"] for event in events[1:-2]] == ["content_block_start", "content_block_stop"]
    assert folded(events)["content"] == [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]


@pytest.mark.parametrize(
    "said",
    [
        {"reasoning": "hm"},
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_content": None},
    ],
)
def test_what_is_thought_is_told_once_by_whatever_name(said: Delta) -> None:
    thought = [{"type": "thinking", "thinking": "hm", "signature": ""}]
    assert folded(streamed([chunk(said)]))["content"] == replied([chunk(said)])["content"] == thought


def test_a_refusal_is_told_as_text() -> None:
    chunks = [chunk({"refusal": "I will not."}, "content_filter")]
    assert (
        folded(streamed(chunks))["content"] == replied(chunks)["content"] == [{"type": "text", "text": "I will not."}]
    )
    assert replied(chunks)["stop_reason"] == "refusal"


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, (9, 0, 2)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, (5, 4, 0)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}, (0, 3, 0)),
        ({"prompt_tokens": "9", "completion_tokens": -1, "prompt_tokens_details": None}, (0, 0, 0)),
    ],
)
def test_what_came_from_a_cache_is_counted_apart(usage: dict[str, Any], told: tuple[int, int, int]) -> None:
    counts = streamed([chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage}])[-2]["usage"]
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    assert tuple(counts[name] for name in names) == told
    assert counts["cache_creation_input_tokens"] == 0


def test_a_stream_of_nothing_at_all_is_an_empty_message() -> None:
    events = streamed([])
    check_order(events)
    assert folded(events)["content"] == []


@pytest.mark.parametrize(
    ("last", "reason", "sequence"),
    [
        ({"finish_reason": "stop"}, "end_turn", None),
        ({"finish_reason": "stop", "stop_reason": "END"}, "stop_sequence", "END"),
        ({"finish_reason": "stop", "stopping_word": "END"}, "stop_sequence", "END"),
        ({"finish_reason": "stop", "stop_reason": "</s>"}, "end_turn", None),
        ({"finish_reason": "length", "stopping_word": "END"}, "max_tokens", None),
        ({"finish_reason": "content_filter"}, "refusal", None),
        ({"finish_reason": "something new"}, "end_turn", None),
    ],
)
def test_why_it_stopped_is_told_in_this_apis_words(last: dict[str, Any], reason: str, sequence: str | None) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": "x"}, **last}]}]
    events = streamed(chunks, ["END"])
    assert events[-2]["delta"] == {"stop_reason": reason, "stop_sequence": sequence}
    assert replied(chunks, ["END"])["stop_reason"] == reason


def test_the_word_that_stopped_it_may_stand_beside_the_choices() -> None:
    events = streamed([{**chunk({"content": "x"}, "stop"), "stopping_word": "END"}], ["END"])
    assert events[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


def test_an_engine_that_ends_without_a_reason_ended_its_turn() -> None:
    assert streamed([chunk({"content": "x"})])[-2]["delta"]["stop_reason"] == "end_turn"


def test_other_choices_are_not_told() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    assert folded(streamed([other, chunk({"content": "yes"}, "stop")]))["content"] == [{"type": "text", "text": "yes"}]


def test_an_error_of_the_engine_is_told_as_an_error() -> None:
    out = MessageTranslation("msg_1", "m").chunk({"error": {"message": "out of memory", "code": 500}})
    assert out == (b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"out of memory"}}\n\n')


def calling(arguments: object, name: object = "f", number: object = 0) -> Delta:
    return {"tool_calls": [{"index": number, "id": "c", "function": {"name": name, "arguments": arguments}}]}


def test_large_numbers_of_an_input_are_the_same_in_both_forms() -> None:
    text = '{ "n": 12345678901234567890123, "n2": 1e300 }'
    chunks = [chunk(calling(text)), chunk({}, "tool_calls")]
    (delta,) = (event["delta"] for event in streamed(chunks) if event["type"] == "content_block_delta")
    call = {"id": "c", "function": {"name": "f", "arguments": text}}
    whole = {"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    assert delta["partial_json"] == text
    assert b'"input":' + text.encode() in MessageTranslation("msg_1", "m").reply(whole)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('{"n": 12345678901234567890123, "s": "lo', b'"input":{"n":12345678901234567890123}'),
        ('{"n": 12345678901234567890123 }', b'"input":{"n": 12345678901234567890123 }'),
    ],
)
def test_large_numbers_of_an_input_that_was_cut_stay_what_they_are(said: str, told: bytes) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": said}}
    whole = {"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "length"}]}
    assert told in MessageTranslation("msg_1", "m").reply(whole)


def test_a_call_that_stays_half_said_is_told_at_the_end() -> None:
    told = MessageTranslation("msg_1", "m")
    told.chunk(chunk(calling('{"a":')))
    with pytest.raises(MalformedReply):
        told.ending()


MALFORMED: dict[str, list[dict[str, Any]]] = {
    "choices that are no list": [{"choices": 5}],
    "a delta that is no object": [chunk("x")],  # type: ignore[arg-type]
    "a text that is none": [chunk({"content": 5})],
    "calls that are no list": [chunk({"tool_calls": {}})],
    "a call that is no object": [chunk({"tool_calls": [5]})],
    "an index that is none": [chunk(calling("{}", number=-1))],
    "arguments that are no text": [chunk(calling({"a": 1}))],
    "a name that is no text": [chunk(calling("{}", name=5))],
    "a call without a name": [chunk(calling("{}", name=None))],
    "a name that goes on": [chunk(calling("{")), chunk(calling("}", name="g"))],
    "arguments after their end": [chunk(calling("{}")), chunk(calling("{}", number=1)), chunk(calling("1"))],
    "arguments that are no JSON": [chunk(calling("{a}"), "tool_calls")],
    "arguments that are no object": [chunk(calling("[1]"), "tool_calls")],
    "arguments that are cut without a reason": [chunk(calling('{"a":'), "tool_calls")],
    "half a surrogate pair": [chunk({"content": "\ud800"})],
}


@pytest.mark.parametrize("chunks", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_chat_stream_is_told(chunks: list[dict[str, Any]]) -> None:
    told = MessageTranslation("msg_1", "m")
    with pytest.raises(MalformedReply):
        [told.chunk(each) for each in chunks]


@pytest.mark.parametrize(
    "completion",
    [
        {},
        {"choices": []},
        {"choices": [{"index": 0, "message": None}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "[]"}}]}}]},
        {"choices": [{"message": {"tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}}]},
        {"choices": [{"message": {"tool_calls": [{"id": "c"}]}}]},
    ],
)
def test_what_is_no_chat_completion_is_told(completion: dict[str, Any]) -> None:
    with pytest.raises(MalformedReply):
        MessageTranslation("msg_1", "m").reply(completion)
