"""What a reply has said so far: text, tool calls, usage, and whether it said that it finished. Pure; the relay asks it.

Both forms of a reply, the stream and the single JSON object, become the same `Choice` values, so one set of checks
serves both. An engine may send anything: what is not of the API's shape is passed over here, and is the relay's.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lumbre.wire.json_text import parse
from lumbre.wire.openai.calls import CallFragments
from lumbre.wire.sse import DONE, Event

MOST_CHOICES = 128
"""OpenAI's own limit of `n`."""


class MalformedReply(ValueError):
    """An engine's words are not of its API's shape, so no reply can be made of them."""


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
    """A call of a tool, in the pieces that have come."""

    names: list[str] = field(default_factory=list)
    argument_pieces: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What is called."""
        return "".join(self.names)

    @property
    def arguments(self) -> str:
        """The JSON text of its arguments, as far as it has come."""
        return "".join(self.argument_pieces)


@dataclass(slots=True)
class Choice:
    """One of a reply's alternatives, in the pieces that have come."""

    pieces: list[str] = field(default_factory=list)
    refused: bool = False
    tool_calls: dict[int, ToolCall] = field(default_factory=dict)
    finish_reason: str | None = None
    has_logprobs: bool = False

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. `estimated`: counted here from the pieces delivered, since the engine never said."""

    prompt: int
    completion: int
    estimated: bool


@dataclass(slots=True)  # not frozen: a stream makes one of every event
class Seen:
    """One event as the story took it.

    Attributes:
        chunk: its object; None if it has none.
    """

    beat: Beat
    chunk: Mapping[str, Any] | None = None


class Story:
    """Follows one stream.

    Args:
        keep_text: keep text and arguments, for replies that have to be checked at their end.
        choices: how many alternatives were asked for.
    """

    def __init__(self, *, keep_text: bool = False, choices: int = 1) -> None:
        self._keep_text = keep_text
        self._expected = choices
        self._usage: Usage | None = None
        self._calls: dict[int, CallFragments] = {}
        self.choices: dict[int, Choice] = {}
        self.pieces = 0
        """Events that carried a part of an answer; engines send one token in each."""
        self.done = False
        self.failed = False
        """The engine itself reported an error inside the stream."""

    @property
    def finished(self) -> bool:
        """Whether the engine said that it finished: `[DONE]`, or a reason for every choice that was asked for."""
        if self.done:
            return True
        all_began = len(self.choices) >= self._expected
        return all_began and all(c.finish_reason is not None for c in self.choices.values())

    @property
    def usage(self) -> Usage:
        """The engine's own count, else an estimate from the pieces seen."""
        return self._usage or Usage(prompt=0, completion=self.pieces, estimated=True)

    def see(self, event: Event) -> Seen:
        """Take note of one event."""
        if event.data is None:
            return Seen(Beat.QUIET)
        if event.data == DONE:
            self.done = True
            return Seen(Beat.DONE)
        try:
            chunk = parse(event.data)
        except ValueError:
            return Seen(Beat.QUIET)
        return Seen(self._read(chunk), chunk) if isinstance(chunk, dict) else Seen(Beat.QUIET)

    def _read(self, chunk: Mapping[str, Any]) -> Beat:
        if chunk.get("error"):
            self.failed = True
            return Beat.ERROR
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage_of(usage)
        beats = {self._read_choice(part) for part in _dicts(chunk.get("choices"))}
        if Beat.FINISH in beats:
            return Beat.FINISH
        if Beat.TOKEN in beats:
            return Beat.TOKEN
        return Beat.PROGRESS if "prompt_progress" in chunk else Beat.QUIET

    def _read_choice(self, part: Mapping[str, Any]) -> Beat:
        index = index_of(part)
        if index is None:
            return Beat.QUIET
        choice = self.choices.setdefault(index, Choice())
        delta = part.get("delta")
        said = self._read_delta(index, choice, delta) if isinstance(delta, dict) else self._read_text(choice, part)
        self.pieces += said
        choice.has_logprobs = choice.has_logprobs or bool(part.get("logprobs"))
        if isinstance(reason := part.get("finish_reason"), str):
            choice.finish_reason = reason
            return Beat.FINISH
        return Beat.TOKEN if said else Beat.QUIET

    def _read_text(self, choice: Choice, part: Mapping[str, Any]) -> bool:
        text = part.get("text")
        if self._keep_text and isinstance(text, str):
            choice.pieces.append(text)
        return bool(text)

    def _read_delta(self, index: int, choice: Choice, delta: Mapping[str, Any]) -> bool:
        text = delta.get("content")
        calls = delta.get("tool_calls")
        if self._keep_text:
            if isinstance(text, str):
                choice.pieces.append(text)
            if calls:
                self._add_calls(index, choice, _dicts(calls))
        choice.refused = choice.refused or bool(delta.get("refusal"))
        return bool(text or calls or delta.get("reasoning_content") or delta.get("reasoning") or delta.get("refusal"))

    def _add_calls(self, index: int, choice: Choice, fragments: Sequence[Mapping[str, Any]]) -> None:
        calls = self._calls.setdefault(index, CallFragments())
        for position, fragment in enumerate(fragments):
            taken, function = calls.take(fragment, position), fragment.get("function")
            if taken is not None and isinstance(function, dict):
                _add_to_call(choice, taken.number, taken.name, function.get("arguments"))


def index_of(part: Mapping[str, Any], default: int = 0) -> int | None:
    """The `index` of a choice; None if it is no sensible one."""
    index = part.get("index", default)
    if index is None:
        return default
    return index if type(index) is int and 0 <= index < MOST_CHOICES else None


def _add_to_call(choice: Choice, number: int, name: object, arguments: object) -> None:
    call = choice.tool_calls.setdefault(number, ToolCall())
    if isinstance(name, str):
        call.names.append(name)
    if isinstance(arguments, str):
        call.argument_pieces.append(arguments)


def choices_of(reply: Mapping[str, Any]) -> list[Choice]:
    """The choices of a whole JSON reply, chat or completion."""
    return [_whole_choice(part) for part in _dicts(reply.get("choices"))]


def count_of(reply: Mapping[str, Any]) -> Usage | None:
    """The tokens that a whole JSON reply says it took, chat or completion; None if it says nothing of them.

    Raises:
        MalformedReply: it is no such reply.
    """
    if not isinstance(reply.get("choices"), list):
        raise MalformedReply("it is JSON, but no completion")
    usage = reply.get("usage")
    return usage_of(usage) if isinstance(usage, dict) else None


def _whole_choice(part: Mapping[str, Any]) -> Choice:
    message = part.get("message")
    source = message if isinstance(message, dict) else part
    text = source.get("content", source.get("text"))
    reason = part.get("finish_reason")
    choice = Choice(
        pieces=[text] if isinstance(text, str) else [],
        refused=bool(source.get("refusal")),
        finish_reason=reason if isinstance(reason, str) else None,
        has_logprobs=bool(part.get("logprobs")),
    )
    for number, call in enumerate(_dicts(source.get("tool_calls"))):
        if isinstance(function := call.get("function"), dict):
            _add_to_call(choice, number, function.get("name"), function.get("arguments"))
    return choice


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Read OpenAI's `usage` object; a count that is missing or no number is 0."""
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), estimated=False)


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
