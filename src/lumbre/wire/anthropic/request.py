"""How a request of the Messages API reads as a chat request, or why it cannot. Pure; the door asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from lumbre.wire.anthropic.blocks import Body
from lumbre.wire.anthropic.fields import check_supported
from lumbre.wire.anthropic.sense import check_sense
from lumbre.wire.anthropic.turns import messages_of

_SAME = ("model", "max_tokens", "temperature", "top_p", "top_k", "lumbre")
"""What means the same in both APIs. `top_k` is none of OpenAI's, and local engines know it."""

TRANSLATED = (
    *_SAME,
    *("messages", "system", "stop_sequences", "stream", "tools", "tool_choice", "metadata", "output_config"),
    "output_format",
)
"""The top-level fields that `to_chat` reads."""

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def to_chat(body: Body) -> dict[str, Any]:
    """Make a chat request of a Messages request, or of one to count tokens.

    Args:
        body: its types have been checked.

    Raises:
        CallerError: 400 `unsupported_field`, `missing_field` or `invalid_value`; names the field of this API.
    """
    check_supported(body)
    check_sense(body)
    chat: dict[str, Any] = {field: body[field] for field in _SAME if body.get(field) is not None}
    chat["messages"] = messages_of(body.get("system"), body["messages"])
    if sequences := body.get("stop_sequences"):
        chat["stop"] = list(sequences)
    if tools := body.get("tools"):
        chat |= _tools(tools, body.get("tool_choice"))
    if (user := (body.get("metadata") or {}).get("user_id")) is not None:
        chat["user"] = user
    if wanted := (body.get("output_config") or {}).get("format") or body.get("output_format"):
        schema = {"name": "output", "strict": True, "schema": wanted["schema"]}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    if body.get("stream"):
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    return chat


def _tools(tools: Sequence[Mapping[str, Any]], choice: Mapping[str, Any] | None) -> dict[str, Any]:
    chat: dict[str, Any] = {"tools": [_tool(tool) for tool in tools]}
    if choice is not None:
        named = {"type": "function", "function": {"name": choice.get("name")}}
        chat["tool_choice"] = _CHOICES.get(choice["type"], named)
        if choice.get("disable_parallel_tool_use"):
            chat["parallel_tool_calls"] = False
    return chat


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    kept = {key: tool[key] for key in ("description", "strict") if tool.get(key) is not None}
    return {"type": "function", "function": {**function, **kept}}
