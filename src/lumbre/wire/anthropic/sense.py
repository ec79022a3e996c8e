"""What a Messages request must say besides having the right types: rules between its fields. Pure; `request` asks."""

from collections.abc import Iterator, Mapping

from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted
from lumbre.wire.anthropic.blocks import RESULT, Body, blocks_of

_MAY_SAY: Mapping[str, tuple[str, ...]] = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    "system": ("text",),
    RESULT: ("text", "image"),
}
"""Which blocks may stand in whose turn."""


def check_sense(body: Body) -> None:
    """Find the first contradiction in a request whose types have been checked and that can be honoured.

    Raises:
        CallerError: 400 `missing_field` or `invalid_value`; names the field.
    """
    for field, code, message in _faults(body):
        raise CallerError(f"{field}: {message}", param=field, code=code)


def _faults(body: Body) -> Iterator[tuple[str, str, str]]:
    for m, turn in enumerate(body["messages"]):
        if turn["content"] == []:
            yield f"messages[{m}].content", "invalid_value", "there is nothing in this turn"
    for s, sequence in enumerate(body.get("stop_sequences") or ()):
        if not sequence:
            yield f"stop_sequences[{s}]", "invalid_value", "an empty text would stop every answer before it began"
    if (body.get("output_config") or {}).get("format") and body.get("output_format"):
        yield "output_format", "invalid_value", "superseded by `output_config.format`, which is there too"
    yield from _block_faults(body)
    yield from _tool_faults(body)


def _block_faults(body: Body) -> Iterator[tuple[str, str, str]]:
    answered: dict[str, bool] = {}  # by the id of a call; engines that count calls give it again in the next turn
    for placed in blocks_of(body):
        if placed.type not in _MAY_SAY[placed.role]:
            place = "a tool result" if placed.role == RESULT else f"a turn of the role `{placed.role}`"
            yield f"{placed.path}.type", "invalid_value", f"a block of the type `{placed.type}` cannot be in {place}"
        if placed.type == "tool_use":
            if not answered.get(placed.block["id"], True):
                message = "another tool_use before it has this id, and no result yet"
                yield f"{placed.path}.id", "invalid_value", message
            answered[placed.block["id"]] = False
        if placed.type == "tool_result":
            if (call := placed.block["tool_use_id"]) not in answered:
                yield f"{placed.path}.tool_use_id", "invalid_value", f"no tool_use before it has the id {quoted(call)}"
            answered[call] = True


def _tool_faults(body: Body) -> Iterator[tuple[str, str, str]]:
    names = set()
    for t, tool in enumerate(body.get("tools") or ()):
        if tool["name"] in names:
            yield f"tools[{t}].name", "invalid_value", "another tool before it has this name"
        names.add(tool["name"])
    choice = body.get("tool_choice") or {}
    if choice.get("type") == "any" and not names:
        yield "tool_choice", "invalid_value", "a call is required, and there are no tools"
    if choice.get("type") == "tool":
        if choice.get("name") is None:
            yield "tool_choice.name", "missing_field", "a choice of the type `tool` needs it"
        elif choice["name"] not in names:
            yield "tool_choice.name", "invalid_value", "there is no such tool among `tools`"
