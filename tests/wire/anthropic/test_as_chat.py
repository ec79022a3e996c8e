"""What a reply of the Messages API is in chat words, event by event and as a whole, told as transcripts."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pytest

from lumbre.wire.anthropic.as_chat import ChatEvents, chat_error, to_completion
from lumbre.wire.openai.fold import MalformedReply
from lumbre.wire.openai.story import Beat, Story, Usage
from lumbre.wire.sse import DONE, Event, Splitter
from message_events import END, block, delta, ending, sent, start, stop

Json = dict[str, Any]

COST = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 7}
TOLD_COST = {
    "prompt_tokens": 10,
    "completion_tokens": 7,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
}


def told(*events: object, include_usage: bool = False) -> list[Event]:
    """The chat events of a stream, each of which is what a client reads of its bytes."""
    chat = ChatEvents("gpt-x", 1700, include_usage=include_usage)
    out = [each for event in Splitter().feed(b"".join(map(sent, events))) for each in chat(event)]
    assert Splitter().feed(b"".join(event.raw for event in out)) == out
    return out


def chunks(events: Iterable[Event]) -> list[Json]:
    return [orjson.loads(event.data or b"") for event in events if event.data != DONE]


def deltas(*events: object) -> list[tuple[Json, str | None]]:
    choices = [chunk["choices"][0] for chunk in chunks(told(*events))]
    return [(choice["delta"], choice["finish_reason"]) for choice in choices]


def test_a_stream_of_text_is_told_chunk_by_chunk() -> None:
    out = told(
        start(usage={**COST, "output_tokens": 1}),
        {"type": "ping"},
        block("text", text=""),
        delta("text_delta", "Hel"),
        delta("text_delta", ""),
        delta("text_delta", "lo"),
        stop(),
        ending("end_turn", output_tokens=7),
        END,
        include_usage=True,
    )
    head = '"id":"msg_1","object":"chat.completion.chunk","created":1700,"model":"gpt-x"'

    def line(said: str, finish: str = "null") -> str:
        choice = f'{{"index":0,"delta":{said},"logprobs":null,"finish_reason":{finish}}}'
        return f'data: {{{head},"choices":[{choice}],"usage":null}}\n\n'

    assert b"".join(event.raw for event in out).decode() == (
        line('{"role":"assistant","content":null}')
        + line('{"content":"Hel"}')
        + line('{"content":"lo"}')
        + line("{}", '"stop"')
        + f'data: {{{head},"choices":[],"usage":{orjson.dumps(TOLD_COST).decode()}}}\n\n'
        + "data: [DONE]\n\n"
    )


def test_thoughts_and_calls_have_deltas_of_their_own() -> None:
    assert deltas(
        start(),
        block("thinking", 0, thinking="", signature=""),
        delta("thinking_delta", "hm", 0),
        delta("signature_delta", "xyz", 0),
        stop(0),
        block("redacted_thinking", 1, data="x"),
        stop(1),
        block("tool_use", 2, id="toolu_a", name="get", input={}),
        delta("input_json_delta", "", 2),
        delta("input_json_delta", '{"a":', 2),
        delta("input_json_delta", "1}", 2),
        stop(2),
        block("tool_use", 3, id="toolu_b", name="put", input={}),
        stop(3),
        ending("tool_use", output_tokens=9),
        END,
    )[1:] == [
        ({"reasoning_content": "hm"}, None),
        (_begun(0, "toolu_a", "get"), None),
        (_more(0, '{"a":'), None),
        (_more(0, "1}"), None),
        (_begun(1, "toolu_b", "put"), None),
        (_more(1, "{}"), None),
        ({}, "tool_calls"),
    ]


def _begun(number: int, identity: str, name: str) -> Json:
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": number, "id": identity, "type": "function", "function": function}]}


def _more(number: int, arguments: str) -> Json:
    return {"tool_calls": [{"index": number, "function": {"arguments": arguments}}]}


def test_an_input_that_came_with_its_call_is_told_at_the_end_of_the_call() -> None:
    call = block("tool_use", id="a", name="get", input={"x": 1})
    assert deltas(start(), call, stop())[2:] == [(_more(0, '{"x":1}'), None)]
    assert deltas(start(), call, ending("tool_use"))[2:] == [(_more(0, '{"x":1}'), None), ({}, "tool_calls")]
    assert deltas(start(), call, call)[2:3] == [(_more(0, '{"x":1}'), None)]


def test_white_space_is_no_arguments() -> None:
    told_call = deltas(start(), block("tool_use", id="a", name="get"), delta("input_json_delta", " "), stop())[2:]
    assert told_call == [(_more(0, " "), None), (_more(0, "{}"), None)]


def test_what_the_service_does_by_itself_is_not_told() -> None:
    search = block("server_tool_use", id="s", name="web_search", input={})
    assert len(told(start(), search, delta("input_json_delta", "{}"), stop(), {"type": "of the future"})) == 1


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
    assert deltas(start(), ending(reason))[-1] == ({}, word)
    whole = to_completion({"content": [], "stop_reason": reason}, "m", 1)
    assert whole["choices"][0]["finish_reason"] == word


def test_a_stream_that_is_cut_does_not_look_finished() -> None:
    events = [start(), block("text", text=""), delta("text_delta", "a"), stop(), ending("end_turn"), END]
    for end in range(4):
        story = Story()
        for event in told(*events[:end], ending(None)):
            story.see(event)
        assert not story.finished
    story = Story()
    for event in told(*events):
        story.see(event)
    assert (story.finished, story.done, story.pieces) == (True, True, 1)


def test_the_end_of_a_message_that_does_not_say_why_is_a_stop() -> None:
    assert [event.data == DONE for event in told(start(), END)] == [False, False, True]
    assert deltas(start(), END)[-1] == ({}, "stop")


def test_a_stream_that_does_not_begin_its_message_is_told_all_the_same() -> None:
    first, said = chunks(told(block("text", text="a")))
    assert (first["id"], said["choices"][0]["delta"]) == ("chatcmpl-1700", {"content": "a"})


def test_nothing_follows_an_error() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    last = told(start(), error, delta("text_delta", "a"), ending("end_turn"), END)[-1]
    story = Story()
    assert (story.see(last).beat, story.finished) == (Beat.ERROR, False)
    assert orjson.loads(last.data or b"") == chat_error(error, 529)
    assert len(told(start(), error, END)) == 2


def test_what_it_cost_is_told_only_where_it_is_known_and_wanted() -> None:
    assert len(told(start(usage=COST), END)) == 3
    assert len(told(start(usage=None), END, include_usage=True)) == 3
    story = Story()
    for event in told(
        start(usage=COST), ending("end_turn", output_tokens=9, input_tokens=None), END, include_usage=True
    ):
        story.see(event)
    assert story.usage == Usage(prompt=10, completion=9, estimated=False)


def test_a_whole_message_becomes_a_completion() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "Let me "},
        {"type": "text", "text": "see."},
        {"type": "tool_use", "id": "toolu_a", "name": "get", "input": {"a": 1}},
    ]
    details = {"thinking_tokens": 4}
    message = {**start(content=content)["message"], "stop_reason": "tool_use"}
    completion = to_completion({**message, "usage": {**COST, "output_tokens_details": details}}, "gpt-x", 1700)
    call = {"id": "toolu_a", "type": "function", "function": {"name": "get", "arguments": '{"a":1}'}}
    said = {"role": "assistant", "content": "Let me see.", "reasoning_content": "hm", "tool_calls": [call]}
    assert completion == {
        "id": "msg_1",
        "object": "chat.completion",
        "created": 1700,
        "model": "gpt-x",
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": {**TOLD_COST, "completion_tokens_details": {"reasoning_tokens": 4}},
    }


def test_calls_without_an_id_get_one_each() -> None:
    use = {"type": "tool_use", "name": "get", "input": {}}
    calls = to_completion({"id": "msg_9", "content": [use, {**use, "id": "a"}, use]}, "m", 1)["choices"][0]["message"]
    assert [call["id"] for call in calls["tool_calls"]] == ["call_9_0", "a", "call_9_2"]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": None},
        {"content": "text"},
        {"content": ["text"]},
        {"content": [{"type": "text", "text": 1}]},
        {"content": [{"type": "text", "text": "\ud800"}]},
        {"content": [{"type": "tool_use", "id": "a", "input": {}}]},
        {"content": [{"type": "tool_use", "id": "a", "name": "get", "input": "x"}]},
        {"content": [{"type": "tool_use", "name": "get"}] * 129},
        {"content": [], "usage": {"input_tokens": 2**70}},
    ],
)
def test_what_is_no_message_is_malformed(message: Json) -> None:
    with pytest.raises(MalformedReply):
        to_completion(message, "m", 1)


@pytest.mark.parametrize(
    "events",
    [
        [END],
        [{"type": "message_start"}],
        [{"type": "content_block_start", "index": 0}],
        [{"type": "content_block_start", "index": -1, "content_block": {"type": "text"}}],
        [{"type": "content_block_delta", "index": 0, "delta": None}],
        [{"type": "content_block_stop"}],
        [{"type": "message_delta", "delta": []}],
        [block("text", text=[])],
        [block("tool_use", id="a", name="")],
        [block("tool_use", name="get", input=[]), stop()],
        [
            block("tool_use", name="get"),
            {**delta("input_json_delta", ""), "delta": {"type": "input_json_delta", "partial_json": 1}},
        ],
        [block("tool_use", index, name="get") for index in range(129)],
    ],
)
def test_an_event_without_the_shape_of_its_kind_is_malformed(events: Sequence[Json]) -> None:
    with pytest.raises(MalformedReply):
        told(*events)
