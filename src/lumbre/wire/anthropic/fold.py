"""How a stream of the Messages API becomes the Message that the same call without `stream` would have had. Pure; the
relay feeds it.

What the engine adds is kept. What it tells wrongly or leaves out is told right (`mending`).
"""

from collections.abc import Mapping
from typing import Any

from lumbre.wire.anthropic.mending import mended_counts, mended_stop
from lumbre.wire.anthropic.message import CUT_STOPS, begun_message, input_of, written
from lumbre.wire.openai.story import MalformedReply

_TEXT_DELTAS: Mapping[str, str] = {"text_delta": "text", "thinking_delta": "thinking"}


class MessageFold:
    """Collects the events of one stream.

    Args:
        message_id: such as `msg_…`; of the Message if the engine does not begin it.
        model: the name that such a Message gives.
    """

    def __init__(self, message_id: str = "", model: str = "") -> None:
        self._identity = (message_id, model)
        self._message: dict[str, Any] | None = None
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the next event's object; kinds that nobody here knows are passed over.

        Raises:
            MalformedReply: it has not the shape of its kind, or speaks of a block that has not begun.
        """
        match chunk.get("type"):
            case "message_start":
                self._message = dict(_object(chunk, "message"))
                self._count(self._message.get("usage"))
            case "content_block_start":
                self._begin()
                self._blocks[_index(chunk)] = _Block(_object(chunk, "content_block"))
            case "content_block_delta":
                if (block := self._blocks.get(_index(chunk))) is None:
                    raise MalformedReply("a delta of a block that has not begun")
                block.add(_object(chunk, "delta"))
            case "message_delta":
                self._begin().update(_object(chunk, "delta"))
                self._count(chunk.get("usage"))
            case _:
                pass

    def body(self) -> bytes:
        """The finished Message.

        Raises:
            MalformedReply: there is none, or the input of a call is no JSON object.
        """
        if self._message is None:
            raise MalformedReply("a stream in which no message begins")
        message = mended_stop(self._message)
        cut = message.get("stop_reason") in CUT_STOPS
        content = [self._blocks[index].whole(cut=cut) for index in sorted(self._blocks)]
        return written({**message, "content": content, "usage": mended_counts(self._usage)})

    def _begin(self) -> dict[str, Any]:
        if self._message is None:
            self._message = dict(begun_message(*self._identity))
            self._count(self._message["usage"])
        return self._message

    def _count(self, usage: object) -> None:
        """Take counts: they are totals so far, and one that is not told again stands."""
        for key, value in (usage if isinstance(usage, dict) else {}).items():
            if value is not None or key not in self._usage:
                self._usage[key] = value


class _Block:
    """A content block in the making."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self._start = start
        self._texts: dict[str, list[str]] = {}
        self._rest: dict[str, Any] = {}
        self._inputs: list[str] = []
        self._citations: list[Any] = []

    def add(self, delta: Mapping[str, Any]) -> None:
        kind = str(delta.get("type"))
        if (name := _TEXT_DELTAS.get(kind)) is not None:
            self._texts.setdefault(name, []).append(_text(delta, name))
        elif kind == "input_json_delta":
            self._inputs.append(_text(delta, "partial_json"))
        elif kind == "signature_delta":
            self._rest["signature"] = _text(delta, "signature")
        elif kind == "citations_delta":
            self._citations.append(delta.get("citation"))

    def whole(self, *, cut: bool) -> dict[str, Any]:
        begun = {name: self._start.get(name) for name in self._texts}
        texts = {
            name: (first if isinstance(first := begun[name], str) else "") + "".join(pieces)
            for name, pieces in self._texts.items()
        }
        block = {**self._start, **texts, **self._rest}
        if arguments := "".join(self._inputs):
            block["input"] = input_of(arguments, cut=cut)
        if self._citations:
            block["citations"] = self._citations
        return block


def _index(chunk: Mapping[str, Any]) -> int:
    index = chunk.get("index")
    if type(index) is not int or index < 0:
        raise MalformedReply(f"an index of {str(index)[:20]}")
    return index


def _object(chunk: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = chunk.get(name)
    if not isinstance(value, dict):
        raise MalformedReply(f"{name} is no object")
    return value


def _text(delta: Mapping[str, Any], name: str) -> str:
    value = delta.get(name)
    if not isinstance(value, str):
        raise MalformedReply(f"{name} is no text")
    return value
