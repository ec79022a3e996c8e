"""Which of an engine's own events say something that is not so, and what they should say. Pure; the relay asks.

llama.cpp speaks this API itself. When a stop sequence ended its answer it names the sequence, and says `end_turn`. An
engine that fails in the middle may say so in the words of its other API, which no client of this one reads.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from lumbre.wire.anthropic.errors import engine_error_event
from lumbre.wire.json_text import parse
from lumbre.wire.sse import Event


def mended(event: Event) -> Event:
    """The event as it should have been; the same object when nothing is wrong with it."""
    if event.data is None or not (b"end_turn" in event.data or b'"error"' in event.data):
        return event
    try:
        told = parse(event.data)
    except ValueError:
        return event  # it is none of this API's, and the relay's to judge
    if isinstance(told, dict) and "type" not in told and told.get("error"):
        raw = engine_error_event(told["error"])
        return Event(raw, raw.partition(b"data: ")[2].rstrip())
    delta = told.get("delta") if isinstance(told, dict) and told.get("type") == "message_delta" else None
    if not isinstance(delta, dict) or (right := mended_stop(delta)) is delta:
        return event
    try:
        data = orjson.dumps({**told, "delta": right})
    except orjson.JSONEncodeError:
        return event
    return Event(b"event: message_delta\ndata: " + data + b"\n\n", data)


def mended_stop(stopped: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same for whatever has `stop_reason` and `stop_sequence`: a `message_delta`'s delta, or a whole Message."""
    sequence = stopped.get("stop_sequence")
    if stopped.get("stop_reason") == "end_turn" and isinstance(sequence, str) and sequence:
        return {**stopped, "stop_reason": "stop_sequence"}
    return stopped
