"""The splitter against an independent reading of the event-stream grammar, for every way of cutting the bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.sse import Event, EventTooLong, Splitter

line_end = st.sampled_from([b"\n", b"\r\n"])
line = st.sampled_from(
    [b"data: {}", b"data:x", b"data", b": comment", b"event: e", b"id: 1", "data: café ñ 漢字".encode(), b"data: a: b"]
)
event = st.tuples(st.lists(line, min_size=1, max_size=4), line_end).map(
    lambda made: made[1].join(made[0]) + made[1] + made[1]
)
stream = st.lists(event, max_size=6).map(b"".join)


def literal_reading(text: bytes) -> list[list[bytes]]:
    """The data of each event, read line by line from the whole text as the grammar says."""
    events: list[list[bytes]] = []
    lines: list[bytes] = []
    begun = False
    for each in text.replace(b"\r\n", b"\n").split(b"\n")[:-1]:
        if each == b"":
            if begun:
                events.append(lines)
            lines, begun = [], False
            continue
        begun = True
        name, _, value = each.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return events


def cut(text: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in pairwise(edges)]


@given(stream, st.lists(st.integers(0, 10_000), max_size=12))
def test_however_the_bytes_are_cut_the_events_are_those_of_the_grammar(text: bytes, places: list[int]) -> None:
    splitter = Splitter()
    events = [event for chunk in cut(text, places) for event in splitter.feed(chunk)]
    assert [[] if e.data is None else e.data.split(b"\n") for e in events if e.raw.strip()] == literal_reading(text)


@given(st.binary(max_size=400), st.lists(st.integers(0, 10_000), max_size=12))
def test_no_byte_is_lost_or_made(text: bytes, places: list[int]) -> None:
    splitter = Splitter()
    events = [event for chunk in cut(text, places) for event in splitter.feed(chunk)]
    assert b"".join(event.raw for event in events) + splitter.tail == text


def test_every_cut_of_one_stream_gives_the_same_events() -> None:
    text = 'data: {"a":"ñ"}\r\n\r\n: ping\n\ndata: one\ndata: two\n\n'.encode()
    expected = [b'{"a":"\xc3\xb1"}', None, b"one\ntwo"]
    for first in range(len(text)):
        for second in range(first, len(text)):
            splitter = Splitter()
            events: list[Event] = []
            for chunk in (text[:first], text[first:second], text[second:]):
                events += splitter.feed(chunk)
            assert [event.data for event in events if event.raw.strip()] == expected


def test_an_event_is_held_until_it_is_whole() -> None:
    splitter = Splitter()
    assert splitter.feed(b'data: {"half":') == []
    assert splitter.tail == b'data: {"half":'
    assert splitter.feed(b"1}\n") == []
    assert [event.data for event in splitter.feed(b"\n")] == [b'{"half":1}']


def test_an_event_without_end_is_refused_and_not_kept_for_ever() -> None:
    splitter = Splitter(limit_bytes=100)
    splitter.feed(b"data: " + b"x" * 90)
    with pytest.raises(EventTooLong):
        splitter.feed(b"x" * 20)
