"""What a reply has said so far: text, tool calls, usage, and whether it said that it finished. Pure; the relay asks it.

Both forms of a reply, the stream and the single JSON object, become the same `Choice` values, so one set of checks
serves both.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from lumbre.wire.sse import DONE, Event


class Beat(enum.Enum):
    """What one event of a stream was."""

    QUIET = enum.auto()
    """A comment, a role, an empty delta, a usage report, or something that is none of OpenAI's."""
    TOKEN = enum.auto()
    FINISH = enum.auto()
    """Some choice said its `finish_reason`."""
    PROGRESS = enum.auto()
    """llama.cpp's report on the prompt; no part of the answer."""
    ERROR = enum.auto()
    DONE = enum.auto()


@dataclass(slots=True)
class ToolCall:
    """A call of a tool; `arguments` is the JSON text as far as it has come."""

    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Choice:
    """One of a reply's alternatives."""

    text: str = ""
    refused: bool = False
    tool_calls: dict[int, ToolCall] = field(default_factory=dict)
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. `estimated`: counted here from the pieces delivered, since the engine never said."""

    prompt: int
    completion: int
    estimated: bool


class Story:
    """Follows one stream.

    Args:
        keep_text: keep text and arguments, for replies that have to be checked at their end.
    """

    def __init__(self, *, keep_text: bool = False) -> None:
        self._keep_text = keep_text
        self._usage: Usage | None = None
        self.choices: dict[int, Choice] = {}
        self.pieces = 0
        """Events that carried a part of an answer; engines send one token in each."""
        self.done = False
        self.failed = False
        """The engine itself reported an error inside the stream."""

    @property
    def finished(self) -> bool:
        """Whether the engine said that it finished: `[DONE]`, or a reason for every choice it began."""
        if self.done:
            return True
        return bool(self.choices) and all(c.finish_reason is not None for c in self.choices.values())

    @property
    def usage(self) -> Usage:
        """The engine's own count, else an estimate from the pieces seen."""
        return self._usage or Usage(prompt=0, completion=self.pieces, estimated=True)

    def see(self, event: Event) -> Beat:
        """Take note of one event."""
        if event.data is None:
            return Beat.QUIET
        if event.data == DONE:
            self.done = True
            return Beat.DONE
        try:
            chunk = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            return Beat.QUIET
        return self.read(chunk) if isinstance(chunk, dict) else Beat.QUIET

    def read(self, chunk: Mapping[str, Any]) -> Beat:
        """Take note of one event's object."""
        if chunk.get("error"):
            self.failed = True
            return Beat.ERROR
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage_of(usage)
        if "prompt_progress" in chunk:
            return Beat.PROGRESS
        beat = Beat.QUIET
        choices = chunk.get("choices")
        for part in choices if isinstance(choices, list) else ():
            if isinstance(part, dict):
                beat = max(beat, self._read_choice(part), key=_BY_WEIGHT.index)
        if beat is not Beat.QUIET:
            self.pieces += beat is Beat.TOKEN
        return beat

    def _read_choice(self, part: Mapping[str, Any]) -> Beat:
        choice = self.choices.setdefault(part.get("index") or 0, Choice())
        delta = part.get("delta")
        said = self._read_delta(choice, delta) if isinstance(delta, dict) else self._read_text(choice, part)
        if isinstance(reason := part.get("finish_reason"), str):
            choice.finish_reason = reason
            self.pieces += said
            return Beat.FINISH
        return Beat.TOKEN if said else Beat.QUIET

    def _read_text(self, choice: Choice, part: Mapping[str, Any]) -> bool:
        text = part.get("text")
        if self._keep_text and isinstance(text, str):
            choice.text += text
        return bool(text)

    def _read_delta(self, choice: Choice, delta: Mapping[str, Any]) -> bool:
        text = delta.get("content")
        calls = delta.get("tool_calls")
        if self._keep_text:
            choice.text += text if isinstance(text, str) else ""
            add_tool_calls(choice, calls if isinstance(calls, list) else ())
        choice.refused = choice.refused or bool(delta.get("refusal"))
        return bool(text or calls or delta.get("reasoning_content") or delta.get("reasoning") or delta.get("refusal"))


_BY_WEIGHT = (Beat.QUIET, Beat.TOKEN, Beat.FINISH)


def add_tool_calls(choice: Choice, calls: Iterable[Any]) -> None:
    """Add fragments, or whole calls, to a choice. A fragment names its call by `index`."""
    for position, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        entry = choice.tool_calls.setdefault(call.get("index", position), ToolCall())
        entry.name += function.get("name") or ""
        entry.arguments += function.get("arguments") or ""


def choices_of(reply: Mapping[str, Any]) -> list[Choice]:
    """The choices of a whole JSON reply, chat or completion."""
    choices = reply.get("choices")
    return [_whole_choice(part) for part in choices if isinstance(part, dict)] if isinstance(choices, list) else []


def _whole_choice(part: Mapping[str, Any]) -> Choice:
    message = part.get("message")
    source = message if isinstance(message, dict) else part
    text = source.get("content", source.get("text"))
    choice = Choice(
        text=text if isinstance(text, str) else "",
        refused=bool(source.get("refusal")),
        finish_reason=part.get("finish_reason"),
    )
    calls = source.get("tool_calls")
    add_tool_calls(choice, calls if isinstance(calls, list) else ())
    return choice


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Read OpenAI's `usage` object; a count that is missing or no number is 0."""
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), estimated=False)


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
