"""How a chat reply reads as a Message, streamed or whole. Pure; the relay drives it.

A client that folds the stream has what `reply` says, as long as the engine thinks before it speaks and speaks before it
calls: a whole chat reply does not tell in which order these came, and a stream does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lumbre.wire.anthropic.content import CallIds, ContentStream
from lumbre.wire.anthropic.errors import engine_error_event
from lumbre.wire.anthropic.message import (
    after_calls,
    begun_message,
    event,
    input_of,
    message,
    objects,
    stop_of,
    text_of,
    thinking_of,
    usage_of,
    written,
)
from lumbre.wire.openai.story import MalformedReply, index_of


class MessageTranslation:
    """Tells one chat completion as a Message.

    Args:
        message_id: such as `msg_…`.
        model: the name that the reply gives.
        stop_sequences: those that the request asked for.
    """

    def __init__(self, message_id: str, model: str, stop_sequences: Sequence[str] = ()) -> None:
        self._identity = (message_id, model)
        self._sequences = tuple(stop_sequences)
        self._id_prefix = f"toolu_{message_id.removeprefix('msg_')}"
        self._content = ContentStream(self._id_prefix)
        self._began = False
        self._stop: tuple[str, str | None] = ("end_turn", None)
        self._usage: Mapping[str, Any] | None = None

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """The events that one chunk becomes; an error that the engine reports becomes an `error` event.

        Raises:
            MalformedReply: the chunk is not of the chat API's shape, or ends a call whose arguments are no object.
        """
        if error := chunk.get("error"):
            return engine_error_event(error)
        out = self._beginning()
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage
        for choice in objects(chunk.get("choices"), "choices"):
            if index_of(choice) == 0:
                out += self._delta(choice.get("delta"))
                if isinstance(reason := choice.get("finish_reason"), str):
                    self._stop = stop_of(choice, chunk, self._sequences)
                    out += self._content.finish(cut=reason == "length")
        return out

    def ending(self) -> bytes:
        """The events that end the stream.

        Raises:
            MalformedReply: the engine gave no `finish_reason`, and a call's arguments are no object.
        """
        out = self._beginning() + self._content.finish(cut=False)
        reason, sequence = after_calls(self._stop) if self._content.has_calls else self._stop
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        return (
            out + event("message_delta", {"delta": delta, "usage": usage_of(self._usage)}) + event("message_stop", {})
        )

    def reply(self, completion: Mapping[str, Any]) -> bytes:
        """The whole Message.

        Raises:
            MalformedReply: the completion is not of the chat API's shape, or a call's arguments are no object.
        """
        choice = next((c for c in objects(completion.get("choices"), "choices") if index_of(c) == 0), None)
        if choice is None or not isinstance(said := choice.get("message"), dict):
            raise MalformedReply("a chat completion without a message")
        content: list[dict[str, Any]] = []
        if thinking := thinking_of(said):
            content.append({"type": "thinking", "thinking": thinking, "signature": ""})
        if text := text_of(said):
            content.append({"type": "text", "text": text})
        calls = objects(said.get("tool_calls"), "tool_calls")
        ids, cut = CallIds(self._id_prefix), choice.get("finish_reason") == "length"
        content += [_call(call, ids.of(call.get("id"), number), cut=cut) for number, call in enumerate(calls)]
        stop = stop_of(choice, completion, self._sequences)
        usage = completion.get("usage")
        told = usage_of(usage if isinstance(usage, dict) else None)
        return written(message(self._identity, content, after_calls(stop) if calls else stop, told))

    def _beginning(self) -> bytes:
        if self._began:
            return b""
        self._began = True
        return event("message_start", {"message": begun_message(*self._identity)})

    def _delta(self, delta: object) -> bytes:
        if delta is None:
            return b""
        if not isinstance(delta, dict):
            raise MalformedReply("a delta is no object")
        out = b""
        if thinking := thinking_of(delta):
            out += self._content.say("thinking", thinking)
        if text := text_of(delta):
            out += self._content.say("text", text)
        for position, fragment in enumerate(objects(delta.get("tool_calls"), "tool_calls")):
            out += self._content.call(fragment, position)
        return out


def _call(call: Mapping[str, Any], identity: str, *, cut: bool) -> dict[str, Any]:
    function = call.get("function")
    told: Mapping[str, Any] = function if isinstance(function, dict) else {}
    name, arguments = told.get("name"), told.get("arguments")
    if not isinstance(name, str) or not name or not isinstance(arguments, str | None):
        raise MalformedReply("a call without a name, or with arguments that are no text")
    return {"type": "tool_use", "id": identity, "name": name, "input": input_of(arguments or "", cut=cut)}
