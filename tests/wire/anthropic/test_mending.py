"""Which of an engine's mistakes are mended in a stream of the Messages API."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.anthropic.fold import MessageFold
from lumbre.wire.anthropic.mending import Mender
from lumbre.wire.sse import Event, Splitter


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def ending(reason: str, sequence: str | None = None, **usage: Any) -> dict[str, Any]:
    stop = {"stop_reason": reason, "stop_sequence": sequence}
    return {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 8, **usage}}


def start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "chatcmpl-1", "content": [], "usage": usage}}


def as_event(value: object) -> Event:
    kind = value["type"] if isinstance(value, dict) else "message_delta"
    data = value if isinstance(value, bytes) else orjson.dumps(value)
    return Event(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n", data)


def begun() -> Mender:
    mender = Mender("msg_1", "m")
    mender(as_event(start(input_tokens=3)))
    return mender


def objects(*events: Event) -> list[dict[str, Any]]:
    splitter = Splitter()
    found = splitter.feed(b"".join(event.raw for event in events))
    assert splitter.tail == b""
    for event in found:
        assert event.raw.startswith(b"event: " + orjson.loads(event.data or b"")["type"].encode() + b"\n")
    return [orjson.loads(event.data or b"") for event in found]


def test_a_stop_that_was_told_wrongly_is_told_right() -> None:
    assert begun()(as_event(ending("end_turn", "e"))) == as_event(ending("stop_sequence", "e"))


@pytest.mark.parametrize(
    "event",
    [
        Event(b": end_turn\n\n", None),
        as_event(ending("end_turn")),
        as_event(ending("end_turn", "")),
        as_event(ending("max_tokens", "e")),
        as_event({**ending("end_turn", "e"), "type": "message_stop"}),
        as_event({"type": "message_delta", "delta": "end_turn"}),
        as_event(b'["end_turn"]'),
        as_event(b'{"end_turn'),
        as_event(delta(0, type="text_delta", text='"stop_reason":"end_turn","stop_sequence":"e"')),
        as_event(delta(0, type="text_delta", text="cache_read_input_tokens")),
        as_event(ending("end_turn", cache_read_input_tokens=1, cache_creation_input_tokens=2)),
        as_event({"type": "message_delta", "usage": {"cache_read_input_tokens": None}}),
    ],
)
def test_an_event_with_nothing_wrong_stays_the_same_object(event: Event) -> None:
    assert begun()(event) is event


@pytest.mark.parametrize("mender", [Mender("msg_1", "m"), begun()], ids=["first", "later"])
def test_an_engines_failure_in_its_other_words_is_told_in_this_apis(mender: Mender) -> None:
    data = b'{"error":{"code":500,"message":"out of memory","type":"server_error"}}'
    event = mender(Event(b"event: error\ndata: " + data + b"\n\n", data))
    assert event.raw == b"event: error\ndata: " + (event.data or b"") + b"\n\n"
    assert orjson.loads(event.data or b"") == {
        "type": "error",
        "error": {"type": "api_error", "message": "out of memory"},
    }


@pytest.mark.parametrize("mender", [Mender("msg_1", "m"), begun()], ids=["first", "later"])
def test_an_error_of_this_apis_own_shape_is_left_as_it_is(mender: Mender) -> None:
    event = as_event({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    assert mender(event) is event


@pytest.mark.parametrize(
    "first",
    [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        delta(0, type="text_delta", text="🌟"),
        ending("max_tokens"),
        {"type": "message_stop"},
    ],
)
def test_a_message_that_the_engine_does_not_begin_is_begun_once(first: dict[str, Any]) -> None:
    mender = Mender("msg_1", "m")
    event = as_event(first)
    mended = mender(event)
    counts = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": counts}
    assert objects(mended) == [{"type": "message_start", "message": message}, first]
    assert mended.data == event.data
    assert mender(event) is event


def test_what_says_nothing_of_the_message_neither_begins_it_nor_is_touched() -> None:
    mender = Mender("msg_1", "m")
    before = [
        Event(b": keep-alive\n\n", None),
        as_event({"type": "ping"}),
        as_event(b"null"),
        as_event(b"{"),
        as_event(b'{"prompt_progress":{"total":9}}'),
        as_event(start(input_tokens=3)),
    ]
    assert all(mender(event) is event for event in before)
    piece = as_event(delta(0, type="text_delta", text="x"))
    assert mender(piece) is piece


def test_an_event_may_lack_a_beginning_and_say_something_wrong() -> None:
    _, last = objects(Mender("msg_1", "m")(as_event(ending("end_turn", "e"))))
    assert last == ending("stop_sequence", "e")


def test_where_what_was_read_from_a_cache_is_counted_so_is_what_was_written() -> None:
    mender = Mender("msg_1", "m")
    events = [mender(as_event(start(cache_read_input_tokens=2))), mender(as_event(ending("end_turn")))]
    events.append(mender(as_event(ending("end_turn", cache_read_input_tokens=2))))
    told: dict[str, Any] = {"cache_read_input_tokens": 2, "cache_creation_input_tokens": 0}
    assert objects(*events) == [start(**told), ending("end_turn"), ending("end_turn", **told)]


counts = st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 9) for name in ("input_tokens", "cache_read_input_tokens")}
)


@given(st.booleans(), counts, st.lists(st.text(max_size=3), max_size=3), st.sampled_from([None, "e"]), counts)
def test_the_mended_stream_comes_to_what_the_fold_of_the_engines_own_says(
    begins: bool, before: dict[str, int], pieces: list[str], sequence: str | None, after: dict[str, int]
) -> None:
    said = [start(**before)] if begins else []
    if pieces:
        said.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    said += [delta(0, type="text_delta", text=piece) for piece in pieces]
    said.append(ending("end_turn", sequence, **after))
    mender, own, mended = Mender("msg_1", "m"), MessageFold("msg_1", "m"), MessageFold()
    for chunk in said:
        own.add(chunk)
        for event in objects(mender(as_event(chunk))):
            mended.add(event)
    assert orjson.loads(mended.body()) == orjson.loads(own.body())
