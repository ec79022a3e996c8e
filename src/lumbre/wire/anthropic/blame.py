"""How an error about the chat request that a Messages request became is told by the caller's own field. Pure; the door
asks.
"""

import re
from collections.abc import Mapping

from lumbre.core.errors import CallerError
from lumbre.wire.anthropic.blocks import Body, blocks_of

_FIELDS: Mapping[str, str] = {
    "stop": "stop_sequences",
    "user": "metadata.user_id",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "tool_choice.function.name": "tool_choice.name",
    "stream_options": "stream",
}
"""The chat API's fields that have another name here; the rest have the same, or a rule of their own."""


def in_callers_words(error: CallerError, body: Body) -> CallerError:
    """An error about a chat request, told by the field of the request that it came from.

    Args:
        body: the request that `request.to_chat` took.
    """
    return error if error.param is None else error.told_by(_field(error.param, body))


def _field(path: str, body: Body) -> str:
    if path.startswith("messages["):
        # All that a chat request's parts are refused for is being images.
        images = (placed.path for placed in blocks_of(body) if placed.type == "image")
        return f"{image}.type" if (image := next(images, None)) is not None else "messages"
    if path.startswith("response_format"):
        given = "output_config.format" if (body.get("output_config") or {}).get("format") else "output_format"
        return f"{given}.schema" if path.startswith("response_format.json_schema.schema") else given
    if found := re.fullmatch(r"(tools\[\d+\])\.function(\..+)?", path):
        return found[1] + (found[2] or "").replace(".parameters", ".input_schema", 1)
    return _FIELDS.get(path, path)
