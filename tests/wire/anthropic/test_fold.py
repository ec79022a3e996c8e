"""What a stream of the Messages API comes to, its mistakes mended on the way."""

from typing import Any

import orjson
import pytest

from lumbre.wire.anthropic.fold import MessageFold
from lumbre.wire.openai.story import MalformedReply

START = {
    "type": "message_start",
    "message": {
        "id": "chatcmpl-1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "m",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"cache_read_input_tokens": 2, "input_tokens": 3, "output_tokens": 0},
    },
}

CACHES: dict[str, Any] = {"cache_read_input_tokens": 2, "cache_creation_input_tokens": 0}


def folded(*events: dict[str, Any]) -> dict[str, Any]:
    fold = MessageFold()
    for event in events:
        fold.add(event)
    message: dict[str, Any] = orjson.loads(fold.body())
    return message


def block(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def ending(reason: str, sequence: str | None = None, **more: Any) -> dict[str, Any]:
    stop = {"stop_reason": reason, "stop_sequence": sequence, **more}
    return {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 8}}


def test_a_stream_comes_to_its_message() -> None:
    message = folded(
        START,
        {"type": "ping"},
        block(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="hm"),
        delta(0, type="signature_delta", signature="s"),
        {"type": "content_block_stop", "index": 0},
        block(1, type="text", text="S", citations=None),
        delta(1, type="text_delta", text="o."),
        delta(1, type="citations_delta", citation={"cited_text": "x"}),
        delta(1, type="of_the_future_delta", text="?"),
        block(2, type="tool_use", id="t", name="get", input={}),
        delta(2, type="input_json_delta", partial_json=""),
        delta(2, type="input_json_delta", partial_json='{"a": [1'),
        delta(2, type="input_json_delta", partial_json="]}"),
        block(3, type="tool_use", id="u", name="now", input={}),
        ending("tool_use", container={"id": "c"}),
        {"type": "message_stop"},
    )
    begun: Any = START["message"]
    assert message == {
        **begun,
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "So.", "citations": [{"cited_text": "x"}]},
            {"type": "tool_use", "id": "t", "name": "get", "input": {"a": [1]}},
            {"type": "tool_use", "id": "u", "name": "now", "input": {}},
        ],
        "stop_reason": "tool_use",
        "container": {"id": "c"},
        "usage": {**CACHES, "input_tokens": 3, "output_tokens": 8},
    }


def test_a_count_that_is_not_told_again_stands() -> None:
    usage = {"input_tokens": None, "output_tokens": 8, "server_tool_use": None}
    message = folded(START, {**ending("end_turn"), "usage": usage})
    assert message["usage"] == {
        **CACHES,
        "input_tokens": 3,
        "output_tokens": 8,
        "server_tool_use": None,
    }


def test_a_call_that_was_cut_keeps_what_is_whole_of_its_input() -> None:
    begun = [START, block(0, type="tool_use", id="t", name="get", input={})]
    cut = delta(0, type="input_json_delta", partial_json='{"a": 1, "b": "lo')
    assert folded(*begun, cut, ending("max_tokens"))["content"][0]["input"] == {"a": 1}
    with pytest.raises(MalformedReply):
        folded(*begun, cut, ending("tool_use"))


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "message_start"}],
        [{"type": "message_stop"}],
        [START, delta(0, type="text_delta", text="x")],
        [START, block(0, type="text", text=""), delta(0, type="text_delta", text=5)],
        [START, block(0, type="text", text=""), {"type": "content_block_delta", "index": 0}],
        [START, {"type": "content_block_start", "index": "0", "content_block": {}}],
        [START, block(0, type="tool_use"), delta(0, type="input_json_delta", partial_json="[]"), ending("tool_use")],
    ],
)
def test_what_is_no_stream_of_this_api_is_told(events: list[dict[str, Any]]) -> None:
    with pytest.raises(MalformedReply):
        folded(*events)


def test_a_stop_sequence_is_told_by_name() -> None:
    message = folded(START, ending("end_turn", "END"))
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "END")


@pytest.mark.parametrize("said", [[], [block(0, type="text", text=""), delta(0, type="text_delta", text="x")]])
def test_a_message_that_the_engine_does_not_begin_begins_by_itself(said: list[dict[str, Any]]) -> None:
    fold = MessageFold("msg_1", "m")
    for event in (*said, ending("end_turn")):
        fold.add(event)
    assert orjson.loads(fold.body()) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "x"}] if said else [],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 8,
        },
    }


def test_large_numbers_of_an_input_stay_what_they_are() -> None:
    text = '{"n": 12345678901234567890123}'
    fold = MessageFold()
    for event in (
        START,
        block(0, type="tool_use", id="t", name="get", input={}),
        delta(0, type="input_json_delta", partial_json=text),
        ending("tool_use"),
    ):
        fold.add(event)
    assert b'"input":' + text.encode() in fold.body()
