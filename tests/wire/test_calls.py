"""However an engine numbers the calls that it streams, all that put calls together make the same of them."""

import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.anthropic.fold import MessageFold
from lumbre.wire.anthropic.translation import MessageTranslation
from lumbre.wire.openai.calls import MOST_CALLS, CallFragments, Fragment
from lumbre.wire.openai.fold import Fold, MalformedReply
from lumbre.wire.openai.story import Story
from lumbre.wire.responses.translation import ResponseTranslation
from lumbre.wire.sse import Event, Splitter

Deltas = Sequence[Sequence[dict[str, Any]]]
"""The fragments of each chunk."""
Calls = list[tuple[str, str]]
"""Names and arguments."""


def fragment(name: str | None = None, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**more, "function": {key: value for key, value in function.items() if value is not None}}


def chunks_of(deltas: Deltas) -> list[dict[str, Any]]:
    parts = [{"index": 0, "delta": {"tool_calls": list(each)}, "finish_reason": None} for each in deltas]
    return [{"choices": [part]} for part in (*parts, {"index": 0, "delta": {}, "finish_reason": "tool_calls"})]


def events_of(raw: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(event.data or b"") for event in Splitter().feed(raw)]


def completion_of(deltas: Deltas) -> dict[str, Any]:
    fold = Fold()
    for chunk in chunks_of(deltas):
        fold.add(chunk)
    completion: dict[str, Any] = orjson.loads(fold.body())
    return completion


def followed(deltas: Deltas) -> Calls:
    story = Story(keep_text=True)
    for chunk in chunks_of(deltas):
        story.see(Event(b"", orjson.dumps(chunk)))
    return [(call.name, call.arguments) for call in story.choices[0].tool_calls.values()]


def folded(deltas: Deltas) -> Calls:
    calls = completion_of(deltas)["choices"][0]["message"]["tool_calls"]
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def message_of(deltas: Deltas) -> dict[str, Any]:
    # Read by `json`, since `orjson` makes floats of large numbers.
    told, fold = MessageTranslation("msg_1", "m"), MessageFold()
    for event in events_of(b"".join(map(told.chunk, chunks_of(deltas))) + told.ending()):
        fold.add(event)
    message: dict[str, Any] = json.loads(fold.body())
    return message


def response_of(deltas: Deltas) -> dict[str, Any]:
    told = ResponseTranslation("resp_1", 5, "m", {})
    response: dict[str, Any] = events_of(b"".join(map(told.chunk, chunks_of(deltas))) + told.ending())[-1]["response"]
    return response


def check(deltas: Deltas, calls: Calls) -> None:
    """All make these calls, and the whole replies say what the streams say."""
    assert followed(deltas) == folded(deltas) == calls
    message, response, completion = message_of(deltas), response_of(deltas), completion_of(deltas)
    assert [(each["name"], each["input"]) for each in message["content"]] == [(n, json.loads(a)) for n, a in calls]
    assert [(each["name"], each["arguments"]) for each in response["output"]] == calls
    assert json.loads(MessageTranslation("msg_1", "m").reply(completion)) == message
    assert orjson.loads(ResponseTranslation("resp_1", 5, "m", {}).reply(completion)) == response
    assert len({each["id"] for each in message["content"]}) == len(calls)
    assert len({each["call_id"] for each in response["output"]}) == len(calls)


WAYS: dict[str, Deltas] = {
    "numbered": [
        [fragment("get", "", index=0, id="a"), fragment("put", '{"b":', index=1, id="b")],
        [fragment(None, "2}", index=1), fragment(None, '{"a":1}', index=0)],
    ],
    "numbered from 1": [[fragment("get", '{"a":1}', index=1, id="a")], [fragment("put", '{"b":2}', index=2, id="b")]],
    "not numbered, a whole call a chunk": [[fragment("get", '{"a":1}', id="a")], [fragment("put", '{"b":2}', id="b")]],
    "not numbered, and without ids": [[fragment("get", '{"a":1}')], [fragment("put", '{"b":2}')]],
    "not numbered, of one id": [[fragment("get", '{"a":1}', id="c")], [fragment("put", '{"b":2}', id="c")]],
    "not numbered, all in one chunk": [[fragment("get", '{"a":1}'), fragment("put", '{"b":2}')]],
    "not numbered, in pieces": [
        [fragment("get", id="a")],
        [fragment(None, '{"a":1}')],
        [fragment("put", "", index=None, id="b")],
        [fragment(None, '{"b":', id="b"), fragment(None, "2}")],
    ],
    "all 0, of different ids": [
        [fragment("get", '{"a":1}', index=0, id="a")],
        [fragment("put", '{"b":2}', index=0, id="b")],
    ],
    "all 0, of different ids, mixed": [
        [fragment("get", '{"a":', index=0, id="a"), fragment("put", '{"b":', index=0, id="b")],
        [fragment(None, "1", index=0, id="a"), fragment(None, "2", index=0, id="b"), fragment(None, "}", index=0)],
        [fragment(None, "}", index=0, id="a")],
    ],
    "all 0, and without ids": [
        [fragment("get", '{"a":1}', index=0, id="")],
        [fragment("put", '{"b":2}', index=0, id="")],
    ],
    "the name in each fragment": [
        [fragment("get", "", index=0, id="a"), fragment("put", "", index=1, id="b")],
        [fragment("get", '{"a":', index=0, id="a"), fragment("get", "1}", index=0, id="a")],
        [fragment("put", '{"b":2}', index=1, id="")],
    ],
    "the name in pieces": [
        [fragment("g", index=0, id="a"), fragment("et", '{"a":1}', index=0)],
        [fragment("pu", index=1, id="b"), fragment("t", index=1), fragment(None, '{"b":2}', index=1)],
    ],
    "a new id in each fragment": [
        [fragment("get", '{"a":', index=0, id="a"), fragment(None, "1}", index=0, id="x")],
        [fragment("put", '{"b":', index=1, id="b"), fragment(None, "2}", index=1, id="y")],
    ],
    "an id twice": [[fragment("get", '{"a":1}', index=0, id="c"), fragment("put", '{"b":2}', index=1, id="c")]],
}


@pytest.mark.parametrize("deltas", WAYS.values(), ids=WAYS.keys())
def test_whatever_the_engines_way_they_are_the_same_two_calls(deltas: Deltas) -> None:
    check(deltas, [("get", '{"a":1}'), ("put", '{"b":2}')])


names = st.sampled_from(["get", "put", "getget"])
arguments = st.dictionaries(st.sampled_from("ab"), st.integers(0, 10**25), min_size=1).map(json.dumps)


@st.composite
def told_in_some_way(draw: st.DrawFn, calls: Calls) -> list[list[dict[str, Any]]]:
    """Calls one after another, in pieces, in one of the ways in which they can still be told apart."""
    numbers, has_ids, says_again = (
        draw(st.sampled_from([None, "own", "zero"])),
        draw(st.booleans()),
        draw(st.booleans()),
    )
    deltas = []
    for number, (name, whole) in enumerate(calls):
        index = {None: {}, "own": {"index": number}, "zero": {"index": 0}}[numbers]
        identity = {"id": f"call_{number}"} if has_ids or numbers == "zero" else {}
        at = draw(st.integers(0, len(whole)))
        again = {"name": name, **identity} if says_again and numbers is not None else {}
        deltas += [
            [fragment(name, whole[:at], **index, **identity)],
            [fragment(again.pop("name", None), whole[at:], **index, **again)],
        ]
    return deltas


@given(st.data(), st.lists(st.tuples(names, arguments), min_size=1, max_size=3))
def test_what_can_be_told_apart_is_put_together(data: st.DataObject, calls: Calls) -> None:
    deltas = data.draw(told_in_some_way(calls))
    check(deltas, calls)


scraps = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([None, 0, 1, 7]),
        "id": st.sampled_from([None, "", "a", "b"]),
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from([None, "", "f", "g"]),
                "arguments": st.sampled_from([None, "", " ", "{", "}"]),
            },
        ),
    },
)


@given(st.lists(st.lists(scraps, max_size=3), max_size=5))
def test_calls_are_counted_as_they_begin_and_their_names_are_what_was_added(deltas: Deltas) -> None:
    calls = CallFragments()
    begun: list[str] = []
    for each in deltas:
        for position, scrap in enumerate(each):
            taken = calls.take(scrap, position)
            assert taken is not None
            assert taken.number <= len(begun)
            if taken.number == len(begun):
                begun.append("")
            begun[taken.number] += taken.name
    fold = Fold()
    for chunk in chunks_of(deltas):
        fold.add(chunk)
    told = orjson.loads(fold.body())["choices"][0]["message"].get("tool_calls", [])
    assert [call["function"].get("name", "") for call in told] == begun


@pytest.mark.parametrize("index", [-1, MOST_CALLS, True, 1.0, "0"])
def test_an_index_that_is_none_has_no_place(index: object) -> None:
    assert CallFragments().take(fragment("get", "{}", index=index)) is None
    with pytest.raises(MalformedReply):
        completion_of([[fragment("get", "{}", index=index)]])
    assert followed([[fragment("get", "{}", index=index)]]) == []


def test_calls_without_numbers_or_arguments_are_told_apart_by_their_place_in_the_chunk() -> None:
    calls = CallFragments()
    taken = [calls.take(fragment(name), position) for position, name in enumerate(["now", "today"])]
    assert taken == [Fragment(0, "now"), Fragment(1, "today")]


def test_there_are_no_more_calls_than_the_api_allows() -> None:
    calls = CallFragments()
    taken = [calls.take(fragment("get", "{}")) for _ in range(MOST_CALLS + 1)]
    assert taken == [*(Fragment(number, "get") for number in range(MOST_CALLS)), None]


def test_the_calls_of_a_whole_reply_are_its_own_whatever_they_are_numbered() -> None:
    calls = [fragment("get", '{"a":1}', index=0, id="c"), fragment("get", '{"a":1}', index=0, id="c")]
    completion = {"choices": [{"index": 0, "message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    message = orjson.loads(MessageTranslation("msg_1", "m").reply(completion))
    response = orjson.loads(ResponseTranslation("resp_1", 5, "m", {}).reply(completion))
    assert [each["id"] for each in message["content"]] == ["c", "toolu_1_1"]
    assert [each["call_id"] for each in response["output"]] == ["c", "call_1_1"]
    assert [each["arguments"] for each in response["output"]] == ['{"a":1}'] * 2
