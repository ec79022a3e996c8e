"""How a stream becomes the single JSON reply that the same call without `stream` would have had. Pure; the relay
feeds it.

llama.cpp cannot be stopped in the middle of a plain JSON call or of a prompt: it looks at the connection only when it
writes. So the gateway asks it for a stream even when the client wants one object, and folds the stream here. What the
engine adds (`timings`, `reasoning_content`, fields nobody has heard of) is kept.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from lumbre.wire.openai.calls import CallFragments
from lumbre.wire.openai.story import MalformedReply, index_of

__all__ = ["Fold", "MalformedReply"]

_CHUNK_OBJECTS = {"chat.completion.chunk": "chat.completion"}


class Fold:
    """Collects the chunks of one stream."""

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the next chunk: choices by their index, everything else as last said.

        Raises:
            MalformedReply: the chunk is none.
        """
        for key, value in chunk.items():
            if key != "choices" and value is not None:
                self._top[key] = value
        for part in _list_of_dicts(chunk.get("choices"), "choices"):
            self._choices.setdefault(_index(part), _Choice()).add(part)

    def body(self) -> bytes:
        """The finished reply.

        Raises:
            MalformedReply: it is nested too deep to be written.
        """
        top = dict(self._top)
        top["object"] = _CHUNK_OBJECTS.get(str(top.get("object")), top.get("object"))
        choices = [self._choices[index].whole() for index in sorted(self._choices)]
        try:
            return orjson.dumps({"choices": choices, **top})
        except orjson.JSONEncodeError as error:
            raise MalformedReply(str(error)) from error


class _Pieces:
    """An object whose texts come in pieces; what is no text is as last said."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._rest: dict[str, Any] = {}

    def add(self, key: str, value: object) -> None:
        if isinstance(value, str):
            self._texts.setdefault(key, []).append(value)
        elif value is not None:
            self._rest[key] = value

    def put(self, key: str, value: object) -> None:
        """Take a value that does not grow."""
        if value is not None or key not in self._rest:
            self._rest[key] = value

    def put_first(self, key: str, value: object) -> None:
        """Take a value that is told once; later ones do not count."""
        if not self._rest.get(key):
            self._rest[key] = value

    def whole(self) -> dict[str, Any]:
        return {**self._rest, **{key: "".join(pieces) for key, pieces in self._texts.items()}}


class _Choice:
    def __init__(self) -> None:
        self._fields = _Pieces()
        self._message: _Pieces | None = None
        self._fragments = CallFragments()
        self._calls: list[tuple[_Pieces, _Pieces]] = []
        self._logprobs: dict[str, Any] | None = None

    def add(self, part: Mapping[str, Any]) -> None:
        for key, value in part.items():
            if key == "delta":
                self._add_delta(value if isinstance(value, dict) else {})
            elif key == "text":
                self._fields.add(key, value or "")
            elif key == "logprobs":
                self._add_logprobs(value)
            else:
                self._fields.put(key, value)

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        if self._message is None:
            self._message = _Pieces()
            self._message.put("role", "assistant")
            self._message.put("content", None)
        for key, value in delta.items():
            if key == "tool_calls":
                self._add_calls(value)
            elif key == "role":
                self._message.put(key, value)
            else:
                self._message.add(key, value)

    def _add_calls(self, fragments: object) -> None:
        for position, fragment in enumerate(_list_of_dicts(fragments, "tool_calls")):
            taken = self._fragments.take(fragment, position)
            if taken is None:
                raise MalformedReply(f"a call of the index {str(fragment.get('index'))[:20]}")
            if taken.number == len(self._calls):
                self._calls.append((_Pieces(), _Pieces()))
                self._calls[-1][0].put("type", "function")
            call, function = self._calls[taken.number]
            for key, value in fragment.items():
                if key == "id":
                    call.put_first(key, value)
                elif key != "index" and key != "function":
                    call.put(key, value)
            given = fragment.get("function")
            for key, value in (given if isinstance(given, dict) else {}).items():
                function.add(key, taken.name if key == "name" and isinstance(value, str) else value)

    def _add_logprobs(self, more: object) -> None:
        if not isinstance(more, dict):
            self._fields.put("logprobs", None)
            return
        if self._logprobs is None:
            self._logprobs = {}
        for key, value in more.items():
            so_far = self._logprobs.get(key)
            if isinstance(so_far, list) and isinstance(value, list):
                so_far.extend(value)
            elif value is not None or key not in self._logprobs:
                self._logprobs[key] = value

    def whole(self) -> dict[str, Any]:
        choice = self._fields.whole()
        if self._logprobs is not None:
            choice["logprobs"] = self._logprobs
        if self._message is not None:
            choice["message"] = self._message.whole()
            if not self._calls and choice["message"]["content"] is None:
                choice["message"]["content"] = ""  # an answer of no words; null is for one that only calls tools
            if self._calls:
                calls = [{**call.whole(), "function": function.whole()} for call, function in self._calls]
                choice["message"]["tool_calls"] = calls
        return choice


def _index(part: Mapping[str, Any]) -> int:
    index = index_of(part)
    if index is None:
        raise MalformedReply(f"an index of {str(part.get('index'))[:20]}")
    return index


def _list_of_dicts(value: object, name: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise MalformedReply(f"{name} is no list of objects")
    return value
