"""What a Response object says besides its items: what was asked, how it ended, what it cost. Pure; `translation` asks.

What the request left open is told as null where only the engine knows what it took instead.
"""

from collections.abc import Mapping
from typing import Any

_DEFAULTS: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""The fields that a Response repeats of its request, and what they are if it did not say."""

_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""The finish reasons of a chat completion that was not finished, and what they are called here."""


def asked(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a Response repeats of its request."""
    told = {key: default if request.get(key) is None else request[key] for key, default in _DEFAULTS.items()}
    told["reasoning"] = {**_DEFAULTS["reasoning"], **told["reasoning"]}
    told["text"] = {**told["text"], "format": told["text"].get("format") or {"type": "text"}}
    return {**told, "service_tier": "default"}


def was_cut(finish_reason: str | None) -> bool:
    """Whether the engine was stopped before it was done."""
    return finish_reason in _CUT


def ended(finish_reason: str | None) -> dict[str, Any]:
    """`status` and `incomplete_details`."""
    if finish_reason in _CUT:
        return {"status": "incomplete", "incomplete_details": {"reason": _CUT[finish_reason]}}
    return {"status": "completed", "incomplete_details": None}


def cost(usage: object) -> dict[str, Any] | None:
    """The tokens of a chat completion's `usage` in this API's words; None if the engine did not count."""
    if not isinstance(usage, Mapping):
        return None
    taken, given = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    thought = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    return {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": given,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": taken + given,
    }


def _count(source: object, key: str) -> int:
    value = source.get(key) if isinstance(source, Mapping) else None
    return value if type(value) is int and value > 0 else 0
