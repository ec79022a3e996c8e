"""How a stream becomes the single JSON reply that the same call without `stream` would have had. Pure; the relay
feeds it.

llama.cpp cannot be stopped in the middle of a plain JSON call or of a prompt: it looks at the connection only when it
writes. So the gateway asks it for a stream even when the client wants one object, and folds the stream here. What the
engine adds (`timings`, `reasoning_content`, fields nobody has heard of) is kept.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

_CHUNK_OBJECTS = {"chat.completion.chunk": "chat.completion"}


class Fold:
    """Collects the chunks of one stream."""

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the next chunk: choices by their index, everything else as last said."""
        for key, value in chunk.items():
            if key != "choices" and value is not None:
                self._top[key] = value
        for part in chunk.get("choices") or ():
            if isinstance(part, dict):
                choice = self._choices.setdefault(part.get("index") or 0, {})
                _add_part(choice, part)

    def body(self) -> bytes:
        """The finished reply."""
        top = dict(self._top)
        top["object"] = _CHUNK_OBJECTS.get(top.get("object", ""), top.get("object"))
        choices = [self._choices[index] for index in sorted(self._choices)]
        return orjson.dumps({"choices": choices, **top})


def _add_part(choice: dict[str, Any], part: Mapping[str, Any]) -> None:
    for key, value in part.items():
        if key == "delta":
            if isinstance(value, dict):
                _add_delta(choice.setdefault("message", {"role": "assistant", "content": None}), value)
        elif key == "text":
            choice["text"] = choice.get("text", "") + (value or "")
        elif key == "logprobs":
            choice["logprobs"] = _joined_logprobs(choice.get("logprobs"), value)
        elif value is not None or key not in choice:
            choice[key] = value


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key, value in delta.items():
        if key == "tool_calls":
            _add_calls(message.setdefault("tool_calls", []), value or ())
        elif isinstance(value, str) and key != "role":
            message[key] = (message.get(key) or "") + value
        elif value is not None:
            message[key] = value


def _add_calls(calls: list[dict[str, Any]], fragments: Iterable[Any]) -> None:
    for fragment in fragments:
        if not isinstance(fragment, dict):
            continue
        index = fragment.get("index", len(calls))
        while len(calls) <= index:
            calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
        call = calls[index]
        function = fragment.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""
        call.update({key: value for key, value in fragment.items() if key not in ("index", "function")})


def _joined_logprobs(so_far: Any, more: Any) -> Any:
    if not isinstance(so_far, dict) or not isinstance(more, dict):
        return more if isinstance(more, dict) else so_far
    return {key: _joined(so_far.get(key), more.get(key)) for key in {**so_far, **more}}


def _joined(so_far: Any, more: Any) -> Any:
    if isinstance(so_far, list) and isinstance(more, list):
        return [*so_far, *more]
    return so_far if more is None else more
