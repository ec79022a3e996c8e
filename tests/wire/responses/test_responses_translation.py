"""A chat stream told as a Responses stream: the law that both forms agree, and how items grow."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.openai.fold import Fold, MalformedReply
from lumbre.wire.responses.translation import ResponseTranslation
from lumbre.wire.sse import Splitter

REQUEST = {"input": "hi", "tools": [{"type": "function", "name": "f"}], "temperature": 0.5}

text = st.text(min_size=1, max_size=5)
entry = st.fixed_dictionaries({"token": text, "logprob": st.floats(-9, 0)})
logprobs = st.none() | st.fixed_dictionaries({"content": st.lists(entry, max_size=2)})
thought = st.builds(lambda t: {"reasoning_content": t}, text)
said = st.builds(lambda t: {"content": t}, text) | st.just({"content": ""}) | st.just({"role": "assistant"})
argument = st.builds(lambda i, t: {"tool_calls": [{"index": i, "function": {"arguments": t}}]}, st.integers(0, 2), text)
usage = st.fixed_dictionaries({"prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9)})
reason = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])


def opened_call(index: int) -> dict[str, Any]:
    function = {"name": f"f{index}", "arguments": ""}
    return {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Streams that begin with thoughts, then words, then calls; after that words and arguments come as they like."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}, *draw(st.lists(thought, max_size=3))]
    words, calls = draw(st.lists(said, max_size=4)), draw(st.integers(0, 3))
    deltas += words
    deltas += [opened_call(index) for index in range(calls)]
    has_words = any(word.get("content") for word in words)
    if calls:
        later = argument.filter(lambda delta: delta["tool_calls"][0]["index"] < calls)
        deltas += draw(st.lists(later | said if has_words else later, max_size=6))
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": each, "logprobs": draw(logprobs), "finish_reason": None}]} for each in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": draw(reason)}]})
    if draw(st.booleans()):
        chunks.append({"choices": [], "usage": draw(usage)})
    return [{"object": "chat.completion.chunk", "id": "c", **chunk} for chunk in chunks]


def translation() -> ResponseTranslation:
    return ResponseTranslation("resp_1", 5, "m", REQUEST)


def events_of(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    told = translation()
    splitter = Splitter()
    raw = b"".join(told.chunk(chunk) for chunk in chunks) + told.ending()
    events = [orjson.loads(event.data or b"") for event in splitter.feed(raw)]
    assert splitter.tail == b""
    return events


def chunk(delta: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, **more}]}


@given(streams())
def test_the_last_event_has_what_the_call_without_stream_has(chunks: list[dict[str, Any]]) -> None:
    last = events_of(chunks)[-1]
    fold = Fold()
    for each in chunks:
        fold.add(each)
    plain = orjson.loads(translation().reply(orjson.loads(fold.body())))
    assert last["response"] == plain
    assert last["type"] == f"response.{plain['status']}"


@given(streams())
def test_numbers_go_up_by_one_and_the_first_two_events_are_the_same_always(chunks: list[dict[str, Any]]) -> None:
    events = events_of(chunks)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]


deltas_in_any_order = st.lists(
    thought | said | argument | st.integers(0, 2).map(opened_call) | st.builds(lambda t: {"refusal": t}, text),
    max_size=12,
)


@given(deltas_in_any_order, reason)
def test_whatever_is_added_is_done_once_and_is_what_its_deltas_say(deltas: list[dict[str, Any]], why: str) -> None:
    events = events_of([*map(chunk, deltas), chunk({}, finish_reason=why)])
    items: dict[Any, dict[str, Any]] = {}
    parts: dict[Any, str] = {}
    open_parts, open_items = set(), set()
    for event in events:
        kind, number = event["type"], event.get("output_index")
        place = (number, event.get("content_index"))
        if kind == "response.output_item.added":
            assert number == len(items)
            items[number] = event["item"]
            open_items.add(number)
        elif kind == "response.content_part.added":
            assert number in open_items
            assert place not in parts
            open_parts.add(place)
            parts[place] = ""
        elif kind.endswith(".delta"):
            assert number in open_items
            parts[place] = parts.get(place, "") + event["delta"]
        elif kind == "response.content_part.done":
            open_parts.remove(place)
            assert parts[place] == event["part"].get("text", event["part"].get("refusal"))
        elif kind == "response.function_call_arguments.done":
            assert parts.get(place, "") == event["arguments"]
        elif kind == "response.output_item.done":
            open_items.remove(number)
            assert event["item"]["id"] == items[number]["id"]
            items[number] = event["item"]
    assert not open_parts
    assert not open_items
    assert events[-1]["response"]["output"] == [items[number] for number in sorted(items)]


@given(deltas_in_any_order)
def test_nothing_that_was_said_is_lost(deltas: list[dict[str, Any]]) -> None:
    output = events_of([*map(chunk, deltas), chunk({}, finish_reason="stop")])[-1]["response"]["output"]
    for kind, key in (("output_text", "content"), ("refusal", "refusal"), ("reasoning_text", "reasoning_content")):
        parts = [part for item in output for part in item.get("content", ()) if part["type"] == kind]
        told = "".join(part.get("text", part.get("refusal")) for part in parts)
        assert told == "".join(delta.get(key) or "" for delta in deltas)
    asked = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    calls = [item for item in output if item["type"] == "function_call"]
    assert sum(len(item["arguments"]) for item in calls) == sum(len(each["arguments"]) for each in asked)
    assert len({item["call_id"] for item in calls}) == len(calls)


def test_reasoning_is_done_when_the_answer_begins() -> None:
    told = translation()
    told.chunk(chunk({"reasoning": "hm"}))
    events = [orjson.loads(event.data or b"") for event in Splitter().feed(told.chunk(chunk({"content": "x"})))]
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds == [
        *("reasoning_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
    ]
    assert events[2]["item"]["status"] == "completed"


@pytest.mark.parametrize(
    ("why", "status", "reason_told"),
    [("length", "incomplete", "max_output_tokens"), ("content_filter", "incomplete", "content_filter")],
)
def test_a_cut_answer_is_incomplete_and_so_is_its_last_item(why: str, status: str, reason_told: str) -> None:
    deltas = [{"reasoning_content": "hm"}, {"content": "x"}, opened_call(0)]
    response = events_of([*map(chunk, deltas), chunk({}, finish_reason=why)])[-1]["response"]
    assert response["status"] == status
    assert response["incomplete_details"] == {"reason": reason_told}
    assert [item["status"] for item in response["output"]] == ["completed", "completed", "incomplete"]


def test_calls_without_an_id_or_with_anothers_get_one_of_their_own() -> None:
    nameless: dict[str, Any] = {"tool_calls": [{"index": 1, "function": {"name": "g", "arguments": "{}"}}]}
    twin = {"tool_calls": [{**opened_call(2)["tool_calls"][0], "id": "call_0"}]}
    deltas = [opened_call(0), nameless, twin]
    output = events_of([*map(chunk, deltas), chunk({}, finish_reason="tool_calls")])[-1]["response"]["output"]
    assert [item["call_id"] for item in output] == ["call_0", "call_1_1", "call_1_2"]


def test_only_the_first_alternative_is_told() -> None:
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}
    both = {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}, other]}
    response = events_of([both])[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "yes"


def test_a_response_repeats_its_request() -> None:
    request = {
        **REQUEST,
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "store": False,
        "previous_response_id": "resp_0",
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "user": None,
    }
    response = orjson.loads(ResponseTranslation("resp_1", 5, "m", request).reply({"choices": [{"message": {}}]}))
    assert {key: response[key] for key in request if key not in ("input", "reasoning", "text")} == {
        key: value for key, value in request.items() if key not in ("input", "reasoning", "text")
    }
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert "input" not in response


def test_the_result_is_there_before_the_ending_and_can_be_told_not_to_be_stored() -> None:
    told = translation()
    told.chunk(chunk({"content": "x"}, finish_reason="stop"))
    result = told.result
    assert result["store"] is True
    assert told.output_items == result["output"]
    told.unstore()
    last = orjson.loads(Splitter().feed(told.ending())[-1].data or b"")
    assert last["response"] == {**result, "store": False}
    assert told.result["store"] is False


def test_a_whole_completion_may_be_told_again() -> None:
    told = translation()
    completion = {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}], "usage": None}
    first = orjson.loads(told.reply(completion))
    told.unstore()
    assert orjson.loads(told.reply(completion)) == {**first, "store": False}


@pytest.mark.parametrize(
    "broken",
    [
        {"choices": {}},
        {"choices": [1]},
        {"choices": [{"index": -1}]},
        chunk({"content": 5}),
        chunk({"content": [{"type": "text"}]}),
        chunk({"reasoning": {}}),
        chunk({"tool_calls": {}}),
        chunk({"tool_calls": [{"index": "x"}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"name": 1}}]}),
    ],
)
def test_a_chunk_of_another_shape_is_malformed(broken: dict[str, Any]) -> None:
    with pytest.raises(MalformedReply):
        translation().chunk(broken)


@pytest.mark.parametrize("broken", [{}, {"choices": []}, {"choices": [{"message": {"content": 5}}]}])
def test_a_completion_of_another_shape_is_malformed(broken: dict[str, Any]) -> None:
    with pytest.raises(MalformedReply):
        translation().reply(broken)


def test_half_of_a_character_is_malformed_and_no_crash() -> None:
    with pytest.raises(MalformedReply):
        translation().chunk(chunk({"content": "\ud83d"}))


def test_a_count_that_is_none_costs_nothing() -> None:
    usage_told = {"prompt_tokens": "5", "completion_tokens": -1, "prompt_tokens_details": None}
    told = orjson.loads(translation().reply({"choices": [{"message": {"content": "x"}}], "usage": usage_told}))
    assert told["usage"]["total_tokens"] == 0
    assert told["usage"]["input_tokens_details"]["cached_tokens"] == 0
