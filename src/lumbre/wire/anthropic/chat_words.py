"""What the parts of a Message are called in a chat reply: its id, calls, usage and why it stopped; and an error. Pure.

`as_chat` asks, for a stream and for a whole Message alike, so that both say the same.
"""

from collections.abc import Mapping
from typing import Any

from lumbre.wire.anthropic.content import CallIds
from lumbre.wire.anthropic.message import Json, written
from lumbre.wire.openai.calls import MOST_CALLS
from lumbre.wire.openai.story import MalformedReply

_FINISHES: Mapping[str, str] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Every other reason, as `end_turn`, `stop_sequence` and `pause_turn`, is a `stop`."""

_CODES: Mapping[str, str | None] = {
    "": None,
    "invalid_request_error": None,
    "authentication_error": "invalid_api_key",
    "billing_error": "insufficient_quota",
    "not_found_error": "model_not_found",
    "rate_limit_error": "rate_limit_exceeded",
}
"""The chat API's codes, which its clients act on; a type that is not here is its own code."""

_TOO_LONG = ("prompt is too long", "input length and `max_tokens` exceed context limit")
"""How this API begins what the chat API calls `context_length_exceeded`."""

_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
}
"""Under which status an error of this type comes where it is no part of a stream; others are the upstream's fault."""


def chat_error(document: Json, status: int) -> dict[str, Any]:
    """The body of an error of this API as the chat API would have written it.

    Args:
        document: as it came; where it is none of this API's, the error says its status only.
        status: that it came with.
    """
    error = document.get("error")
    told = object_of(error)
    said = error if isinstance(error, str) else word_of(told, "message")
    kind = word_of(told, "type")
    code = _CODES.get(kind, kind)
    if kind == "invalid_request_error" and said.startswith(_TOO_LONG):
        code = "context_length_exceeded"
    blame = "rate_limit_error" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    message = _plain(said) or f"the upstream failed ({status})"
    return {"error": {"message": message, "type": blame, "param": None, "code": code and _plain(code)}}


def streamed_error(document: Json) -> dict[str, Any]:
    """The same for an error that comes inside a stream, and so without a status."""
    return chat_error(document, _STATUSES.get(word_of(object_of(document.get("error")), "type"), 500))


def finish_of(reason: str) -> str:
    """The `finish_reason` that a `stop_reason` is; "" where none was given."""
    return _FINISHES.get(reason, "stop")


def identity_of(message: Json, created: int) -> str:
    """The id of the completion: the Message's own, or one made of the time where it has none."""
    return word_of(message, "id") or f"chatcmpl-{created}"


def call_ids(identity: str) -> CallIds:
    """The ids of the calls of the completion with this id."""
    return CallIds(f"call_{identity.removeprefix('msg_')}")


def call_of(block: Json, ids: CallIds, number: int, arguments: str) -> dict[str, Any]:
    """The call that a `tool_use` block is.

    Args:
        number: of the call in the reply.
        arguments: as far as they are known.

    Raises:
        MalformedReply: it has no name, or there are too many.
    """
    if not (name := word_of(block, "name")):
        raise MalformedReply("a call without a name")
    if number >= MOST_CALLS:
        raise MalformedReply(f"more than {MOST_CALLS} calls")
    function = {"name": name, "arguments": arguments}
    return {"id": ids.of(block.get("id"), number), "type": "function", "function": function}


def arguments_of(given: object) -> str:
    """The arguments that an `input` is, as text; none is an empty object.

    Raises:
        MalformedReply: it is no object.
    """
    if not isinstance(given, dict | None):
        raise MalformedReply("a call's input is no object")
    return written(given or {}).decode()


def chat_usage(told: Json) -> dict[str, Any]:
    """A Message's `usage`: all of the prompt is counted, and how much of it a cache gave and took. Unknown counts are
    0.
    """
    read, kept = _count(told, "cache_read_input_tokens"), _count(told, "cache_creation_input_tokens")
    prompt, completion = _count(told, "input_tokens") + read + kept, _count(told, "output_tokens")
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": kept},
    }
    if details := object_of(told.get("output_tokens_details")):
        usage["completion_tokens_details"] = {"reasoning_tokens": _count(details, "thinking_tokens")}
    return usage


def object_of(value: object) -> Json:
    """An object, or an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def word_of(source: Json, name: str) -> str:
    """A text of an object, or "" where there is none."""
    value = source.get(name)
    return value if isinstance(value, str) else ""


def text_of(source: Json, name: str) -> str:
    """What an object says under a name; "" where it is not there.

    Raises:
        MalformedReply: it is no text.
    """
    value = source.get(name)
    if not isinstance(value, str | None):
        raise MalformedReply(f"{name} is no text")
    return value or ""


def _count(usage: Json, name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and value > 0 else 0


def _plain(text: str) -> str:
    """Without the halves of characters that no JSON can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
