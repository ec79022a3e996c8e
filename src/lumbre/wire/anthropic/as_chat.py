"""How a reply in the Messages API's own words reads as a chat completion, streamed or whole. Pure; the relay asks where
an upstream of that API serves a client of the chat API.

A client that folds the stream has what `to_completion` says of the same Message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lumbre.wire.anthropic.chat_words import (
    arguments_of,
    call_ids,
    call_of,
    chat_error,
    chat_usage,
    finish_of,
    identity_of,
    streamed_error,
    text_of,
    word_of,
)
from lumbre.wire.anthropic.content import CallIds
from lumbre.wire.anthropic.message import Json, objects, written
from lumbre.wire.json_text import parse
from lumbre.wire.openai.story import MalformedReply
from lumbre.wire.sse import DONE, Event, data_event

__all__ = ["ChatEvents", "chat_error", "to_completion"]

_SAID: Mapping[str, str] = {"text": "content", "thinking": "reasoning_content"}
"""Which field of a chat reply a block is said in. Its text is under its type's own name, in it and in its deltas."""


@dataclass(slots=True)
class _Call:
    number: int
    input: object
    has_arguments: bool = False


class ChatEvents:
    """Tells one stream; a new one for each reply.

    Args:
        model: the name that the chunks give.
        created: Unix seconds.
        include_usage: end with a chunk that says what it cost, if the engine says so.
    """

    def __init__(self, model: str, created: int, *, include_usage: bool = False) -> None:
        self._head: dict[str, Any] = {"object": "chat.completion.chunk", "created": created, "model": model}
        self._include_usage = include_usage
        self._ids = CallIds("")
        self._count = 0
        """The calls so far."""
        self._open: dict[int, _Call] = {}
        """Those that have not ended, by the index of their block."""
        self._usage: dict[str, Any] | None = None
        self._has_begun = self._is_finished = self._is_over = False

    def __call__(self, event: Event) -> list[Event]:
        """The chat events that one event becomes. Nothing follows an error or `[DONE]`.

        An event that nobody knows, or that is no JSON, becomes none.

        Raises:
            MalformedReply: it has not the shape of its kind.
        """
        if event.data is None or self._is_over:
            return []
        try:
            told = parse(event.data)
        except ValueError:
            return []
        return self._told(told) if isinstance(told, dict) else []

    def _told(self, told: Json) -> list[Event]:
        kind = told.get("type")
        if kind == "error" or told.get("error"):
            self._is_over = True
            return [_event(streamed_error(told))]
        match kind:
            case "message_start":
                message = _object(told, "message")
                self._take_counts(message.get("usage"))
                return self._beginning(message)
            case "content_block_start":
                return [*self._beginning({}), *self._block(_index(told), _object(told, "content_block"))]
            case "content_block_delta":
                return [*self._beginning({}), *self._delta(_index(told), _object(told, "delta"))]
            case "content_block_stop":
                return self._call_end(_index(told))
            case "message_delta":
                self._take_counts(told.get("usage"))
                reason = word_of(_object(told, "delta"), "stop_reason")
                return [*self._beginning({}), *(self._finish(reason) if reason else ())]
            case "message_stop":
                return self._ending()
            case _:
                return []

    def _beginning(self, message: Json) -> list[Event]:
        """The chunk that tells the role; none but the first time."""
        if self._has_begun:
            return []
        self._has_begun = True
        identity = identity_of(message, self._head["created"])
        self._head = {"id": identity, **self._head}
        self._ids = call_ids(identity)
        return [self._chunk({"role": "assistant", "content": None})]

    def _block(self, index: int, block: Json) -> list[Event]:
        if block.get("type") != "tool_use":
            return self._say(block, word_of(block, "type"))
        left = self._call_end(index)
        call = call_of(block, self._ids, self._count, "")
        self._open[index] = _Call(self._count, block.get("input"))
        self._count += 1
        return [*left, self._fragment(self._open[index], call)]

    def _delta(self, index: int, delta: Json) -> list[Event]:
        if delta.get("type") != "input_json_delta":
            return self._say(delta, word_of(delta, "type").removesuffix("_delta"))
        call, piece = self._open.get(index), text_of(delta, "partial_json")
        if call is None or not piece:
            return []
        call.has_arguments = call.has_arguments or bool(piece.strip())
        return [self._fragment(call, {"function": {"arguments": piece}})]

    def _call_end(self, index: int) -> list[Event]:
        """What is left of a call: its arguments, if they came with its beginning, or if it takes none."""
        call = self._open.pop(index, None)
        if call is None or call.has_arguments:
            return []
        return [self._fragment(call, {"function": {"arguments": arguments_of(call.input)}})]

    def _finish(self, reason: str) -> list[Event]:
        """What ends the answer; nothing where it has ended."""
        if self._is_finished:
            return []
        self._is_finished = True
        left = [event for index in list(self._open) for event in self._call_end(index)]
        return [*left, self._chunk({}, finish_of(reason))]

    def _ending(self) -> list[Event]:
        if not self._has_begun:
            raise MalformedReply("a stream in which no message begins")
        events = self._finish("")
        if self._include_usage and self._usage is not None:
            events.append(_event({**self._head, "choices": [], "usage": chat_usage(self._usage)}))
        self._is_over = True
        return [*events, Event(data_event(DONE), DONE)]

    def _say(self, source: Json, kind: str) -> list[Event]:
        if (field := _SAID.get(kind)) is None:
            return []
        return [self._chunk({field: piece})] if (piece := text_of(source, kind)) else []

    def _fragment(self, call: _Call, fragment: Json) -> Event:
        return self._chunk({"tool_calls": [{"index": call.number, **fragment}]})

    def _chunk(self, delta: Json, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self._include_usage else {}
        return _event({**self._head, "choices": [choice], **usage})

    def _take_counts(self, usage: object) -> None:
        """Take note of counts: they are totals so far, and one that is not told again stands."""
        if isinstance(usage, dict):
            told = {name: value for name, value in usage.items() if value is not None}
            self._usage = {**(self._usage or {}), **told}


def to_completion(message: Mapping[str, Any], model: str, created: int) -> dict[str, Any]:
    """The chat completion that a whole Message becomes; orjson can write it.

    Args:
        model: the name that it gives.
        created: Unix seconds.

    Raises:
        MalformedReply: it is no Message, or says what no JSON can carry.
    """
    if message.get("content") is None:
        raise MalformedReply("a Message without content")
    content = objects(message["content"], "content")
    identity = identity_of(message, created)
    ids, uses = call_ids(identity), [block for block in content if block.get("type") == "tool_use"]
    calls = [call_of(block, ids, number, arguments_of(block.get("input"))) for number, block in enumerate(uses)]
    texts = {field: _joined(content, kind) for kind, field in _SAID.items()}
    said: dict[str, Any] = {"role": "assistant", **{field: text for field, text in texts.items() if text}}
    said.setdefault("content", None if calls else "")
    if calls:
        said["tool_calls"] = calls
    finish = finish_of(word_of(message, "stop_reason"))
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish}
    head = {"id": identity, "object": "chat.completion", "created": created, "model": model}
    completion = {**head, "choices": [choice]}
    if isinstance(usage := message.get("usage"), dict):
        completion["usage"] = chat_usage(usage)
    written(completion)
    return completion


def _joined(content: list[dict[str, Any]], kind: str) -> str:
    return "".join(text_of(block, kind) for block in content if block.get("type") == kind)


def _event(document: Json) -> Event:
    data = written(document)
    return Event(data_event(data), data)


def _index(told: Json) -> int:
    index = told.get("index")
    if type(index) is not int or index < 0:
        raise MalformedReply(f"an index of {str(index)[:20]}")
    return index


def _object(told: Json, name: str) -> Json:
    value = told.get(name)
    if not isinstance(value, dict):
        raise MalformedReply(f"{name} is no object")
    return value
