"""How a chat request reads as a request of the Messages API, or why it cannot. Pure; what calls an upstream of that API
asks.

`temperature` and `top_p` are of the API's version 2023-06-01; later ones turn every request down that has them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lumbre.core.errors import CallerError
from lumbre.wire.anthropic.chat_fields import check_supported, sampling_of, stops_of
from lumbre.wire.anthropic.chat_turns import turns_of
from lumbre.wire.openai.sense import check_sense

USUAL_MAX_TOKENS = 4096

TRANSLATED = (
    *("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "stream"),
    *("stream_options", "tools", "tool_choice", "parallel_tool_calls", "response_format", "user", "safety_identifier"),
)
"""The published fields that `to_messages` reads, or, as `stream_options`, what tells the reply."""

_CHOICES = {None: "auto", "auto": "auto", "required": "any", "none": "none"}


def to_messages(body: Mapping[str, Any], *, model: str, default_max_tokens: int = USUAL_MAX_TOKENS) -> dict[str, Any]:
    """Make a Messages request of a chat request.

    Args:
        body: its types have been checked.
        model: what the upstream is asked for, whatever the request says.
        default_max_tokens: where the request sets no limit; this API wants one.

    Raises:
        CallerError: 400 `unsupported_field`, or what `wire.openai.sense` finds; names the field of the chat API.
    """
    _check(body)
    system, turns = turns_of(body["messages"])
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or default_max_tokens
    request: dict[str, Any] = {"model": model, "max_tokens": limit, "messages": turns, **sampling_of(body)}
    if system:
        request["system"] = system
    if stops := stops_of(body):
        request["stop_sequences"] = stops
    if tools := body.get("tools"):
        request |= _tools(tools, body)
    if user := body.get("user") or body.get("safety_identifier"):
        request["metadata"] = {"user_id": user}
    if (schema := _schema(body)) is not None:
        request["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if body.get("stream"):
        request["stream"] = True
    return request


def cannot(body: Mapping[str, Any]) -> CallerError | None:
    """What `to_messages` would raise for a request; None where it would not.

    Args:
        body: its types have been checked.
    """
    try:
        _check(body)
    except CallerError as error:
        return error
    return None


def _check(body: Mapping[str, Any]) -> None:
    check_sense(body)
    check_supported(body)


def _tools(tools: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> dict[str, Any]:
    choice, one_call = body.get("tool_choice"), body.get("parallel_tool_calls") is False
    told = {"tools": [_tool(tool["function"]) for tool in tools]}
    if choice is None and not one_call:
        return told
    if isinstance(choice, Mapping):
        chosen: dict[str, Any] = {"type": "tool", "name": choice["function"]["name"]}
    else:
        chosen = {"type": _CHOICES[choice]}
    if one_call and chosen["type"] != "none":
        chosen["disable_parallel_tool_use"] = True
    return {**told, "tool_choice": chosen}


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    # A function that takes nothing may come without a schema there; here each has one, of an object.
    told = {"name": function["name"], "input_schema": {"type": "object", **(function.get("parameters") or {})}}
    if function.get("description"):
        told["description"] = function["description"]
    return {**told, "strict": True} if function.get("strict") else told


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    wanted = body.get("response_format") or {}
    schema: Mapping[str, Any] | None = (wanted.get("json_schema") or {}).get("schema")
    return schema if wanted.get("type") == "json_schema" else None
