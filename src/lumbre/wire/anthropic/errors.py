"""How a Lumbre error looks to a client of Anthropic's API. Pure; the doors and the relay send it."""

from collections.abc import Mapping
from typing import Any

import orjson

from lumbre.core.errors import LumbreError

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_DETAILS: Mapping[tuple[str, str | None], Mapping[str, str]] = {
    ("unsupported_field", "thread"): {"error_code": "thread_unsupported_request"},
}
"""What this API's own codes say of an error, by our code and its field. The SDK's tool loop asks for a conversation
that the service keeps, and goes on without one when it reads this."""

_OPENINGS: Mapping[str, str] = {"context_length_exceeded": "prompt is too long: "}
"""How this API begins a message, by our code, where it has no code of its own and clients read the words: they cut the
conversation short and ask again."""


def error_type(status: int) -> str:
    """This API's word for a status; other statuses of a caller's fault are an `invalid_request_error`."""
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def error_body(error: LumbreError, decision: str | None) -> bytes:
    """The JSON body of an error: Anthropic's keys, and `lumbre` with what only this gateway knows."""
    lumbre = {
        "code": error.code,
        "decision": decision,
        "switch": error.switch,
        "valid": error.valid,
        "param": error.param,
    }
    message = _OPENINGS.get(error.code, "") + error.message
    told: dict[str, Any] = {"type": error_type(error.status), "message": message, "lumbre": lumbre}
    if (details := _DETAILS.get((error.code, error.param))) is not None:
        told["details"] = details
    return orjson.dumps({"type": "error", "error": told, "request_id": decision})


def error_event(error: LumbreError, decision: str | None) -> bytes:
    """The same error inside a stream that has already begun; nothing but the end may follow it."""
    return _event(error_body(error, decision))


def engine_error_event(error: object) -> bytes:
    """An error that a chat engine reported inside its stream, told again.

    Args:
        error: the value of the chunk's `error`.
    """
    told: Any = error.get("message") if isinstance(error, dict) else error
    message = told if isinstance(told, str) and told else "the engine failed"
    # The engine's text may hold half a surrogate pair, which no JSON can carry.
    plain = message.encode("utf-8", "replace").decode("utf-8")
    return _event(orjson.dumps({"type": "error", "error": {"type": "api_error", "message": plain}}))


def _event(data: bytes) -> bytes:
    return b"event: error\ndata: " + data + b"\n\n"
