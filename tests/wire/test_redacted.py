"""Every word that comes back is restored, and nothing else is changed."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.json_strings import JsonStrings, escaped, hidden_in_json
from lumbre.wire.openai.fold import Fold
from lumbre.wire.openai.redacted import RestoredStream, restore_completion
from lumbre.wire.sse import Event, data_event

VALUES = {"<A_1>": "ana@x.com", "<A_2>": 'a "quoted"\nline\\', "<A_3>": "4111111111111111"}
MARKS = re.compile("<A_[0-9]>")
THE_END = Event(b"data: [DONE]\n\n", b"[DONE]")


def hide(text: str) -> str:
    for mark, value in VALUES.items():
        text = text.replace(value, mark)
    return text


def restore(text: str) -> str:
    return MARKS.sub(lambda match: VALUES.get(match[0], match[0]), text)


class Restoring:
    """Holds back what begins with `<` and is shorter than a mark."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        tail = re.search("<(?:A(?:_[0-9]?)?)?$", text)
        at = tail.start() if tail else len(text)
        self._held = text[at:]
        return restore(text[:at])

    def end(self) -> str:
        held, self._held = self._held, ""
        return held


def said(chunk: object) -> Event:
    data = orjson.dumps(chunk)
    return Event(data_event(data), data)


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


def arguments(text: str, index: int = 0) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "function": {"arguments": text}}])


def told(events: Iterable[Event]) -> list[Any]:
    """What the events' choices say, each with its reason, if any."""
    parts = [part for event in events if event.data for part in orjson.loads(event.data)["choices"]]
    return [(part.get("delta", part.get("text")), part["finish_reason"]) for part in parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"to": "ana@x.com"}', '{"to": "<A_1>"}'),
        (r'{"to": "\u0061na@x.com \u00e9"}', '{"to": "<A_1> é"}'),
        (r'{ "a":"\u00e9\/",  "b":[1.50,-2e3,null] }', r'{ "a":"\u00e9\/",  "b":[1.50,-2e3,null] }'),
        ('{"card": 4111111111111111}', '{"card": "<A_3>"}'),
        ('{"ana@x.com": ""}', '{"<A_1>": ""}'),
        (json.dumps({"q": VALUES["<A_2>"]}), '{"q": "<A_2>"}'),
        ("no JSON of ana@x.com", "no JSON of <A_1>"),
        ('{"to": "ana@x.com', '{"to": "<A_1>'),
        ("", ""),
    ],
)
def test_arguments_are_hidden_in_their_strings_and_stay_json(text: str, expected: str) -> None:
    assert hidden_in_json(text, hide) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"to": "<A_1>"}', '{"to": "ana@x.com"}'),
        ('{"to": "<A_2>"}', json.dumps({"to": VALUES["<A_2>"]})),
        (r'{"to": "\u003cA_1\u003E"}', '{"to": "ana@x.com"}'),
        (
            r'{"a": "\\\"<A_1>\\", "<A_1>": "\u00e9\/\ud83d\ude00"}',
            r'{"a": "\\\"ana@x.com\\", "ana@x.com": "\u00e9\/\ud83d\ude00"}',
        ),
        (r'{"a": "<A\n_1>"}', r'{"a": "<A\n_1>"}'),
        (r'{"a": "\u003c b"}', '{"a": "< b"}'),
        ('{"a": "<A_', '{"a": "<A_'),
        (r'{"a": "<A_\u00', r'{"a": "<A_\u00'),
        (r'{"a": "\uZZ <A_1>"}', r'{"a": "\uZZ ana@x.com"}'),
        ("no JSON of <A_1>", "no JSON of ana@x.com"),
        ("", ""),
    ],
)
def test_arguments_are_restored_escaped_however_they_are_cut(text: str, expected: str) -> None:
    for size in range(1, len(text) + 2):
        strings = JsonStrings(Restoring)
        pieces = [strings.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join(pieces) + strings.end() == expected


json_values = st.recursive(
    st.none() | st.integers(0, 99) | st.sampled_from([*VALUES.values(), "é\ud83d", "<A_"]) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.booleans())
def test_arguments_that_were_hidden_are_restored_to_the_same_values(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    strings = JsonStrings(Restoring)
    restored = strings.feed(hidden_in_json(text, hide)) + strings.end()
    assert json.loads(restored) == value


def test_a_lone_surrogate_is_escaped() -> None:
    assert escaped('a"\ud800é') == r"a\"\ud800é"


def test_a_whole_reply_is_restored() -> None:
    call = {"id": "<A_1>", "type": "function", "function": {"name": "<A_1>", "arguments": '{"q":"<A_2>"}'}}
    message = {"role": "assistant", "content": "<A_1>!", "reasoning_content": "<A_1>?", "refusal": None}
    reply = {
        "id": "<A_1>",
        "choices": [
            {"index": 0, "message": {**message, "tool_calls": [call]}, "finish_reason": "stop"},
            {"index": 1, "text": "of <A_1>", "finish_reason": "length"},
            None,
        ],
        "usage": {"total_tokens": 3},
    }
    restored = restore_completion(reply, restore)
    first, second, third = restored.pop("choices")
    assert restored == {"id": "<A_1>", "usage": {"total_tokens": 3}}
    assert (first["message"]["content"], first["message"]["reasoning_content"]) == ("ana@x.com!", "ana@x.com?")
    function = {"name": "<A_1>", "arguments": json.dumps({"q": VALUES["<A_2>"]}, separators=(",", ":"))}
    assert first["message"]["tool_calls"] == [{**call, "function": function}]
    assert (second, third) == ({"index": 1, "text": "of ana@x.com", "finish_reason": "length"}, None)


@pytest.mark.parametrize("reply", [{}, {"choices": None}, {"choices": [1]}, {"choices": [{"message": [], "text": 3}]}])
def test_an_odd_reply_stays_as_it_is(reply: dict[str, Any]) -> None:
    assert restore_completion(reply, restore) == reply


@pytest.mark.parametrize(
    "event",
    [
        Event(b": ping\n\n", None),
        Event(b"data: not json\n\n", b"not json"),
        Event(b"data: [DONE]\n\n", b"[DONE]"),
        Event(
            b'data: {"choices":[{"delta":{"content":"a \\u00e9"}}]}\n\n',
            b'{"choices":[{"delta":{"content":"a \\u00e9"}}]}',
        ),
        said([1]),
        said({"choices": None}),
        said({"choices": [None, {"index": -1, "delta": {"content": "<A_1>"}}]}),
        said({"error": {"message": "no"}}),
        said({"choices": [], "usage": {"total_tokens": 1}}),
        said(delta(role="assistant", content=None)),
        said(delta(finish="stop")),
        said(
            delta(tool_calls=[{"index": 0, "id": "x", "function": {"name": "<A_1>", "arguments": r'{"a":"\u00e9\n'}}])
        ),
        said(delta(tool_calls=[None, {"index": 999, "function": {"arguments": "<A_1>"}}])),
        said({"choices": [{"index": 0, "text": "plain", "finish_reason": None}]}),
    ],
)
def test_an_event_with_nothing_to_restore_is_passed_as_it_is(event: Event) -> None:
    (passed,) = RestoredStream(Restoring)(event)
    assert passed is event


def test_a_placeholder_that_comes_in_pieces_is_restored() -> None:
    stream = RestoredStream(Restoring)
    events = [event for piece in ("to <", "A_", "1>", "!") for event in stream(said(delta(content=piece)))]
    assert [text for text, _ in told(events)] == [{"content": text} for text in ("to ", "", "ana@x.com", "!")]
    assert orjson.loads(events[0].data or b"")["id"] == "c"
    assert events[0].raw == b"data: " + (events[0].data or b"") + b"\n\n"


def test_each_choice_and_each_field_has_its_own_pieces() -> None:
    stream = RestoredStream(Restoring)
    chunks = [
        delta(0, content="<A_"),
        delta(1, content="<A_"),
        delta(0, reasoning_content="<A"),
        delta(0, content="1>"),
        delta(1, content="x"),
        delta(0, reasoning_content="_3>"),
    ]
    events = [event for chunk in chunks for event in stream(said(chunk))]
    assert [text for text, _ in told(events)[3:]] == [
        {"content": "ana@x.com"},
        {"content": "<A_x"},
        {"reasoning_content": VALUES["<A_3>"]},
    ]


def test_what_is_held_back_comes_before_the_reason_to_finish() -> None:
    stream = RestoredStream(Restoring)
    stream(said(delta(content="a <A")))
    finish = said({**delta(finish="stop"), "usage": {"total_tokens": 1}})
    tail, passed = stream(finish)
    assert told([tail]) == [({"content": "<A"}, None)]
    assert b"usage" not in tail.raw
    assert passed is finish


def test_last_words_in_the_chunk_that_finishes_come_before_what_they_leave() -> None:
    stream = RestoredStream(Restoring)
    events = stream(said(delta(content="<A_1> <A", finish="stop")))
    assert told(events) == [({"content": "ana@x.com "}, None), ({"content": "<A"}, None), ({}, "stop")]
    whole = stream(said(delta(1, content="<A_1>", finish="stop")))
    assert told(whole) == [({"content": "ana@x.com"}, "stop")]


def test_what_is_held_back_comes_before_the_end_of_a_stream_without_reasons() -> None:
    stream = RestoredStream(Restoring)
    stream(said({"id": "c", "choices": [{"index": 0, "text": "a <A", "finish_reason": None}]}))
    tail, passed = stream(THE_END)
    assert told([tail]) == [("<A", None)]
    assert passed is THE_END
    assert stream(THE_END) == [THE_END]


def test_arguments_are_restored_call_by_call() -> None:
    stream = RestoredStream(Restoring)
    pieces = [('{"a":"<', 0), ('{"b":"\\u003', 1), ('A_2>"}', 0), ('cA_1\\u003e"}', 1)]
    events = [event for text, index in pieces for event in stream(said(arguments(text, index)))]
    by_call = ["", ""]
    for text, _ in told(events):
        (fragment,) = text["tool_calls"]
        by_call[fragment["index"]] += fragment["function"]["arguments"]
    assert [json.loads(each) for each in by_call] == [{"a": VALUES["<A_2>"]}, {"b": "ana@x.com"}]


def test_words_that_a_strict_writer_refuses_are_passed_on() -> None:
    chunk = b'{"choices":[{"index":0,"delta":{"content":"<A_1>\\ud800"},"finish_reason":null}]}'
    (event,) = RestoredStream(Restoring)(Event(data_event(chunk), chunk))
    assert b"\n" not in event.raw.removesuffix(b"\n\n")
    assert json.loads(event.data or b"")["choices"][0]["delta"]["content"] == "ana@x.com\ud800"


words = st.lists(st.sampled_from([*VALUES, "<", "<A", "_1>", "a", " ", "é"]), max_size=6).map("".join)
written_json = st.dictionaries(words, words, max_size=2).map(json.dumps)
broken_json = st.tuples(written_json, st.integers(1, 4)).map(lambda each: each[0][: -each[1]])
calls = st.lists(written_json | broken_json, max_size=2)
choices = st.lists(st.tuples(words, words, calls, st.booleans()), min_size=1, max_size=2)


@st.composite
def streams(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[dict[str, Any]]:
    """Streams of chat completions: choices interleaved, texts cut anywhere, some finished and some not."""
    queues: list[list[dict[str, Any]]] = []
    for index, (content, reasoning, called, finishes) in enumerate(draw(choices)):
        queue = [delta(index, role="assistant", content="")]
        for name, text in (("reasoning_content", reasoning), ("content", content)):
            queue += [delta(index, **{name: piece}) for piece in cut(draw, text)]
        for number, text in enumerate(called):
            head = {"index": number, "id": f"i{number}", "function": {"name": f"f{number}", "arguments": ""}}
            queue.append(delta(index, tool_calls=[head]))
            for piece in cut(draw, text):
                queue.append(delta(index, tool_calls=[{"index": number, "function": {"arguments": piece}}]))
        if finishes:
            queue[-1]["choices"][0]["finish_reason"] = "stop"
        queues.append(queue)
    chunks = []
    while any(queues):
        queue = draw(st.sampled_from([each for each in queues if each]))
        chunks.append(queue.pop(0))
    return chunks


def cut(draw: Callable[[st.SearchStrategy[Any]], Any], text: str) -> list[str]:
    size = draw(st.integers(1, 7))
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(streams())
def test_folding_the_restored_stream_is_restoring_the_folded(chunks: list[dict[str, Any]]) -> None:
    plain, restored = Fold(), Fold()
    stream = RestoredStream(Restoring)
    events = [event for chunk in chunks for event in stream(said(chunk))] + stream(THE_END)[:-1]
    for chunk in chunks:
        plain.add(chunk)
    for event in events:
        restored.add(orjson.loads(event.data or b""))
    assert orjson.loads(restored.body()) == restore_completion(orjson.loads(plain.body()), restore)


@given(streams())
def test_after_a_reason_to_finish_a_choice_says_no_more(chunks: list[dict[str, Any]]) -> None:
    stream = RestoredStream(Restoring)
    finished = set()
    for event in [event for chunk in chunks for event in stream(said(chunk))] + stream(THE_END)[:-1]:
        for part in orjson.loads(event.data or b"")["choices"]:
            assert part["index"] not in finished
            if part["finish_reason"]:
                finished.add(part["index"])
