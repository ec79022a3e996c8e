"""What the parts of a chat reply are called in a Message: its texts, calls, usage and why it stopped. Pure.

`translation` asks, for a stream and for a whole reply alike, so that both say the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic_core import from_json, to_json

from lumbre.wire.openai.story import MalformedReply

Json = Mapping[str, Any]

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
CUT_STOPS = ("max_tokens", "model_context_window_exceeded")
"""The stop reasons after which the last call's input may be cut off."""


def event(name: str, fields: Json) -> bytes:
    """One event of a stream.

    Raises:
        MalformedReply: the engine said what no JSON can carry, such as half a surrogate pair.
    """
    return b"event: " + name.encode() + b"\ndata: " + written({"type": name, **fields}) + b"\n\n"


def written(value: object) -> bytes:
    """The JSON text of a reply's part.

    Raises:
        MalformedReply: see `event`.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise MalformedReply(str(error)) from error


def message(
    identity: tuple[str, str], content: Sequence[Json], stop: tuple[str | None, str | None], usage: Json
) -> Json:
    """A Message.

    Args:
        identity: its id and its model's name.
        stop: `stop_reason` and `stop_sequence`; None while it has not stopped.
        usage: in this API's words.
    """
    return {
        "id": identity[0],
        "type": "message",
        "role": "assistant",
        "model": identity[1],
        "content": content,
        "stop_reason": stop[0],
        "stop_sequence": stop[1],
        "usage": usage,
    }


def begun_message(message_id: str, model: str) -> Json:
    """The Message of a `message_start`: nothing has been said or counted."""
    return message((message_id, model), [], (None, None), usage_of(None))


def usage_of(usage: Json | None) -> dict[str, int]:
    """A chat reply's `usage` in this API's words: what came from a cache is counted apart. Unknown counts are 0."""
    told = usage or {}
    details = told.get("prompt_tokens_details")
    prompt = _count(told.get("prompt_tokens"))
    cached = min(_count(details.get("cached_tokens")) if isinstance(details, dict) else 0, prompt)
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": _count(told.get("completion_tokens")),
    }


def stop_of(choice: Json, top: Json, sequences: Sequence[str]) -> tuple[str, str | None]:
    """Why a choice stopped: `stop_reason` and `stop_sequence`.

    Engines say `stop` for an end of their own and for a stop sequence alike. vLLM tells which one it was in the
    choice's `stop_reason`, llama.cpp in `stopping_word`; where none is told, it was an end of the model's own.

    Args:
        choice: with `finish_reason`.
        top: the chunk or reply that the choice came in.
        sequences: those that the request asked for.
    """
    reason = _STOPS.get(str(choice.get("finish_reason")), "end_turn")
    told = (choice.get("stop_reason"), choice.get("stopping_word"), top.get("stopping_word"))
    if reason == "end_turn":
        for word in told:
            if isinstance(word, str) and word in sequences:
                return "stop_sequence", word
    return reason, None


def after_calls(stop: tuple[str, str | None]) -> tuple[str, str | None]:
    """The stop of a reply that called a tool. Engines that were told which one to call say a plain `stop`."""
    return ("tool_use", None) if stop[0] == "end_turn" else stop


def text_of(said: Json) -> str:
    """What a delta or a message says; a refusal is said as well."""
    return _text(said, "content") + _text(said, "refusal")


def thinking_of(said: Json) -> str:
    """What a delta or a message thinks; engines that know two names for it send the same under both."""
    return _text(said, "reasoning_content") or _text(said, "reasoning")


def input_of(arguments: str, *, cut: bool) -> orjson.Fragment:
    """The input of a call, in the engine's own text: read and written again, its large numbers would not be the
    stream's. No text is an empty object.

    Args:
        cut: the reply reached its length, so the text may be a beginning; what is whole in it counts.

    Raises:
        MalformedReply: it is no JSON object.
    """
    if not arguments.strip():
        return orjson.Fragment(b"{}")
    try:
        value, text = orjson.loads(arguments), arguments.encode()
    except ValueError as error:
        if not cut:
            raise MalformedReply(f"a call's arguments are no JSON ({error})") from error
        value, text = _beginning(arguments)
    if not isinstance(value, dict):
        raise MalformedReply("a call's arguments are JSON, but no object")
    return orjson.Fragment(text)


def _beginning(arguments: str) -> tuple[object, bytes]:
    """What is whole in the beginning of a JSON text, and its own text."""
    try:
        value = from_json(arguments, allow_partial=True)
        return value, to_json(value, inf_nan_mode="null")
    except ValueError as error:
        raise MalformedReply(f"a call's arguments are no JSON ({error})") from error


def objects(value: object, name: str) -> list[dict[str, Any]]:
    """A list of objects; None is an empty one.

    Raises:
        MalformedReply: it is none.
    """
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise MalformedReply(f"{name} is no list of objects")
    return value


def _text(said: Json, name: str) -> str:
    value = said.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReply(f"{name} is no text")
    return value


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
