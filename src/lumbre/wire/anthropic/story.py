"""What a reply in the Messages API's own words has said so far. Pure; the relay asks where an engine speaks this API.

What was said becomes the one `Choice` of a chat reply, its stop reason in the chat API's words, so that the same checks
serve both. An engine may send anything: what is not of the API's shape is passed over here, and is the relay's.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson

from lumbre.wire.json_text import parse
from lumbre.wire.openai.story import Beat, Choice, Seen, ToolCall, Usage
from lumbre.wire.sse import Event

_REASONS: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_SAID = ("text", "thinking", "partial_json")
_PROMPT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class MessageStory:
    """Follows one stream.

    Args:
        keep_text: keep text and inputs, for replies that have to be checked at their end.
    """

    def __init__(self, *, keep_text: bool = False) -> None:
        self._keep_text = keep_text
        self._counts: dict[str, int] = {}
        self._counted = False
        self.choices: dict[int, Choice] = {}
        self.pieces = 0
        """Events that carried a part of an answer; engines send one token in each."""
        self.done = False
        self.failed = False
        """The engine itself reported an error inside the stream."""

    @property
    def finished(self) -> bool:
        """Whether the engine said that it finished: `message_stop`, or a stop reason."""
        return self.done or any(choice.finish_reason is not None for choice in self.choices.values())

    @property
    def usage(self) -> Usage:
        """The engine's own count; before its last word on it, an estimate of the answer from the pieces seen."""
        prompt = sum(self._counts.get(name, 0) for name in _PROMPT_COUNTS)
        told = self._counts.get("output_tokens", 0)
        if self._counted:
            return Usage(prompt, told, estimated=False)
        return Usage(prompt, max(told, self.pieces), estimated=True)

    def see(self, event: Event) -> Seen:
        """Take note of one event."""
        if event.data is None:
            return Seen(Beat.QUIET)
        try:
            chunk = parse(event.data)
        except ValueError:
            return Seen(Beat.QUIET)
        return Seen(self._read(chunk), chunk) if isinstance(chunk, dict) else Seen(Beat.QUIET)

    def _read(self, chunk: Mapping[str, Any]) -> Beat:
        kind = chunk.get("type")
        if kind == "error" or chunk.get("error"):
            self.failed = True
            return Beat.ERROR
        match kind:
            case "message_start":
                self._choice()
                self._count(_dict(chunk.get("message")).get("usage"))
            case "content_block_start":
                return self._spoken(self._read_start(_index(chunk), _dict(chunk.get("content_block"))))
            case "content_block_delta":
                return self._spoken(self._read_delta(_index(chunk), _dict(chunk.get("delta"))))
            case "content_block_stop":
                self._read_stop(_index(chunk))
            case "message_delta":
                return self._read_ending(chunk)
            case "message_stop":
                self.done = True
                return Beat.DONE
            case _:
                pass
        return Beat.PROGRESS if "prompt_progress" in chunk else Beat.QUIET

    def _spoken(self, said: bool) -> Beat:
        self.pieces += said
        return Beat.TOKEN if said else Beat.QUIET

    def _read_start(self, index: int, block: Mapping[str, Any]) -> bool:
        if block.get("type") != "tool_use":
            return self._say(block.get("text")) or bool(block.get("thinking"))
        if self._keep_text:
            call = self._choice().tool_calls.setdefault(index, ToolCall())
            if isinstance(name := block.get("name"), str):
                call.names.append(name)
            if given := _dict(block.get("input")):
                with contextlib.suppress(orjson.JSONEncodeError):
                    call.argument_pieces.append(orjson.dumps(given).decode())
        return True

    def _read_delta(self, index: int, delta: Mapping[str, Any]) -> bool:
        arguments = delta.get("partial_json")
        call = self._choice().tool_calls.get(index)
        if call is not None and isinstance(arguments, str):
            call.argument_pieces.append(arguments)
        self._say(delta.get("text"))
        return any(delta.get(name) for name in _SAID)

    def _say(self, text: object) -> bool:
        if self._keep_text and isinstance(text, str):
            self._choice().pieces.append(text)
        return bool(text)

    def _read_stop(self, index: int) -> None:
        call = self._choice().tool_calls.get(index)
        if call is not None and not call.arguments.strip():
            call.argument_pieces.append("{}")  # the input that such a call has in this API

    def _read_ending(self, chunk: Mapping[str, Any]) -> Beat:
        usage = chunk.get("usage")
        self._count(usage)
        reason = _dict(chunk.get("delta")).get("stop_reason")
        if not isinstance(reason, str):
            return Beat.QUIET
        self._counted = "output_tokens" in _dict(usage)
        choice = self._choice()
        choice.finish_reason = _REASONS.get(reason, "stop")
        choice.refused = reason == "refusal"
        return Beat.FINISH

    def _choice(self) -> Choice:
        return self.choices.setdefault(0, Choice())

    def _count(self, usage: object) -> None:
        for name, value in _dict(usage).items():
            if type(value) is int and value >= 0:
                self._counts[name] = value


def _index(chunk: Mapping[str, Any]) -> int:
    index = chunk.get("index")
    return index if type(index) is int else 0


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
