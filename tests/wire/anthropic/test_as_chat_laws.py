"""The law of a Message told as a chat completion: a client who folds the stream has what the whole completion says, in
the official types; and what is hostile is malformed at most.
"""

import json
from collections.abc import Iterable
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from lumbre.wire.anthropic.as_chat import ChatEvents, chat_error, to_completion
from lumbre.wire.openai.fold import Fold, MalformedReply
from lumbre.wire.sse import DONE, Event, Splitter
from message_events import END, block, delta, ending, sent, start, stop

Json = dict[str, Any]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
blocks = st.lists(
    st.builds(lambda said: {"type": "text", "text": said}, text)
    | st.builds(lambda said: {"type": "thinking", "thinking": said, "signature": "s"}, text)
    | st.builds(
        lambda given: {"type": "tool_use", "name": "get", "input": given}, st.dictionaries(text, values, max_size=3)
    ),
    max_size=5,
)
counts = st.fixed_dictionaries(
    {"input_tokens": st.integers(0, 99), "output_tokens": st.integers(0, 99)},
    optional={
        "cache_read_input_tokens": st.none() | st.integers(0, 99),
        "output_tokens_details": st.just({"thinking_tokens": 3}),
    },
)
reasons = st.sampled_from(["end_turn", "stop_sequence", "max_tokens", "tool_use", "refusal", "pause_turn"])


@st.composite
def messages(draw: st.DrawFn) -> Json:
    content = draw(blocks)
    for number, each in enumerate(content):
        if each["type"] == "tool_use":
            each["id"] = f"toolu_{number}"
    return {**start(content=content)["message"], "stop_reason": draw(reasons), "usage": draw(counts)}


@st.composite
def cuts(draw: st.DrawFn, whole: Any, most: int = 4) -> list[Any]:
    """A text or bytes in pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=most)))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]


@st.composite
def streams(draw: st.DrawFn, message: Json) -> list[Json]:
    """The events of a stream that says a Message."""
    usage = message["usage"]
    events = [start(usage={**usage, "output_tokens": 1})]
    for index, each in enumerate(message["content"]):
        kind = each["type"]
        if kind == "tool_use":
            whole = orjson.dumps(each["input"]).decode()
            begins_whole = draw(st.booleans())
            pieces = [] if begins_whole else draw(cuts(whole))
            begun = each["input"] if begins_whole else {}
            events.append(block(kind, index, id=each["id"], name=each["name"], input=begun))
            events += [delta("input_json_delta", piece, index) for piece in pieces]
        else:
            first, *pieces = draw(cuts(each[kind]))
            events.append(block(kind, index, **{kind: first}))
            events += [delta(f"{kind}_delta", piece, index) for piece in pieces]
        events += [stop(index), {"type": "ping"}]
    return [*events, ending(message["stop_reason"], output_tokens=usage["output_tokens"]), END]


def folded(events: Iterable[Event]) -> Json:
    fold = Fold()
    for event in events:
        if event.data in (None, DONE):
            continue
        chunk = orjson.loads(event.data)
        ChatCompletionChunk.model_validate(without_thoughts(chunk, "delta"), extra="forbid")
        fold.add(chunk)
    completion: Json = orjson.loads(fold.body())
    return completion


def without_thoughts(reply: Json, name: str) -> Json:
    """A reply without what OpenAI does not publish."""
    choices = [
        {**choice, name: {key: value for key, value in choice[name].items() if key != "reasoning_content"}}
        for choice in reply["choices"]
    ]
    return {**reply, "choices": choices}


@given(st.data(), messages())
def test_the_folded_stream_is_the_whole_completion(data: st.DataObject, message: Json) -> None:
    splitter, chat = Splitter(), ChatEvents("gpt-x", 1700, include_usage=True)
    raw = b": hello\n\n" + b"".join(map(sent, data.draw(streams(message))))
    out = [each for piece in data.draw(cuts(raw, 20)) for event in splitter.feed(piece) for each in chat(event)]
    completion = to_completion(message, "gpt-x", 1700)
    ChatCompletion.model_validate(without_thoughts(completion, "message"), extra="forbid")
    assert folded(out) == completion
    assert out[-1].data == DONE


kinds = st.sampled_from(
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop error ping "
    "text_delta input_json_delta thinking_delta tool_use text thinking".split()
)
names = st.sampled_from(
    "type index message content_block delta usage error id name input text thinking partial_json stop_reason "
    "input_tokens output_tokens_details content".split()
)
hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "\ud800", "x"]) | kinds,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6),
    max_leaves=12,
)
likely = st.fixed_dictionaries(
    {"type": kinds},
    optional={"index": st.integers(0, 2) | hostile, "delta": hostile, "content_block": hostile, "message": hostile}
    | {"usage": hostile, "error": hostile},
)


@given(st.lists(likely | hostile | st.binary(max_size=9), max_size=6))
def test_hostile_events_are_malformed_at_most(events: list[Any]) -> None:
    chat = ChatEvents("m", 1, include_usage=True)
    for given_event in events:
        data = given_event if isinstance(given_event, bytes) else json.dumps(given_event).encode()
        try:
            out = chat(Event(b"", data))
        except MalformedReply:
            return
        for event in out:
            assert event.data == DONE or isinstance(orjson.loads(event.data or b""), dict)


@given(st.dictionaries(names, hostile, max_size=6) | st.fixed_dictionaries({"content": st.lists(likely | hostile)}))
def test_hostile_messages_are_malformed_at_most(message: Json) -> None:
    orjson.dumps(chat_error(message, 500))
    try:
        orjson.dumps(to_completion(message, "m", 1))
    except MalformedReply:
        return
