"""Which of an engine's own events say something that is not so, and what they should say. Pure; the relay asks.

llama.cpp speaks this API itself. When a stop sequence ended its answer it names the sequence, and says `end_turn`. It
leaves out `message_start` when its first token is only a part of a character, and counts what it read from its cache,
but not what it wrote there. An engine that fails in the middle may say so in the words of its other API, which no
client of this one reads.
"""

from collections.abc import Callable

import orjson

from lumbre.wire.anthropic.errors import engine_error_event
from lumbre.wire.anthropic.message import Json, begun_message, event
from lumbre.wire.json_text import parse
from lumbre.wire.sse import Event

_INSIDE = ("content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop")
"""The events that come after `message_start`; any other says nothing about where the stream is."""

_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"


class Mender:
    """Corrects the events of one stream.

    Args:
        message_id: such as `msg_…`; of the Message if the engine does not begin it.
        model: the name that such a Message gives.
    """

    def __init__(self, message_id: str, model: str) -> None:
        self._identity = (message_id, model)
        self._began = False

    def __call__(self, given: Event) -> Event:
        """The event as it should have been; the same object when nothing is wrong with it.

        Its `raw` may hold a `message_start` before it; `data` is its own.
        """
        if given.data is None or (self._began and not _may_be_wrong(given.data)):
            return given
        try:
            told = parse(given.data)
        except ValueError:
            return given  # it is none of this API's, and the relay's to judge
        if not isinstance(told, dict):
            return given
        mended, kind = _mended(given, told), told.get("type")
        is_missing = not self._began and kind in _INSIDE
        self._began = self._began or is_missing or kind == "message_start"
        if not is_missing:
            return mended
        start = event("message_start", {"message": begun_message(*self._identity)})
        return Event(start + mended.raw, mended.data)


def _may_be_wrong(data: bytes) -> bool:
    return b"end_turn" in data or b'"error"' in data or _READ.encode() in data


def _mended(given: Event, told: Json) -> Event:
    kind = told.get("type")
    if kind is None and told.get("error"):
        raw = engine_error_event(told["error"])
        return Event(raw, raw.partition(b"data: ")[2].rstrip())
    right = told
    if kind == "message_start":
        right = _with(told, "message", lambda message: _with(message, "usage", mended_counts))
    elif kind == "message_delta":
        right = _with(_with(told, "delta", mended_stop), "usage", mended_counts)
    if right is told:
        return given
    try:
        data = orjson.dumps(right)
    except orjson.JSONEncodeError:
        return given
    return Event(b"event: " + str(kind).encode() + b"\ndata: " + data + b"\n\n", data)


def _with(told: Json, name: str, mend: Callable[[Json], Json]) -> Json:
    """An object whose part of this name is mended; the same object when nothing is wrong with it."""
    part = told.get(name)
    if not isinstance(part, dict) or (right := mend(part)) is part:
        return told
    return {**told, name: right}


def mended_stop(stopped: Json) -> Json:
    """The same for whatever has `stop_reason` and `stop_sequence`: a `message_delta`'s delta, or a whole Message."""
    sequence = stopped.get("stop_sequence")
    if stopped.get("stop_reason") == "end_turn" and isinstance(sequence, str) and sequence:
        return {**stopped, "stop_reason": "stop_sequence"}
    return stopped


def mended_counts(usage: Json) -> Json:
    """The same for a `usage`: where the count of what was read from a cache is told, so is that of what was written."""
    if usage.get(_READ) is not None and usage.get(_WRITTEN) is None:
        return {**usage, _WRITTEN: 0}
    return usage
