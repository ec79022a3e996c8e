"""What a request must say besides having the right types: rules between its fields. Pure; asked before any work.

An engine that is sent such a contradiction drops half of it in silence, or fails and is blamed for it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lumbre.core.errors import CallerError
from lumbre.wire.openai.story import MOST_CHOICES

Body = Mapping[str, Any]

_TEXT_FIELDS = frozenset({"service_tier", "verbosity", "safety_identifier", "reasoning_effort", "prompt_cache_key"})

_CONTRADICTS = _TEXT_FIELDS | {"prompt", "n", "tools", "tool_choice", "response_format"}
"""With these, and with content in parts, a request can say what makes no sense."""


def check_sense(body: Body) -> None:
    """Find the first contradiction in a request whose types have been checked.

    Raises:
        CallerError: 400 `missing_field` or `invalid_value`; names the field.
    """
    if _CONTRADICTS.isdisjoint(body) and all(type(each.get("content")) is str for each in body.get("messages") or ()):
        return  # as most requests are
    for field, code, message in _faults(body):
        raise CallerError(f"{field}: {message}", param=field, code=code)


def _faults(body: Body) -> Iterator[tuple[str, str, str]]:
    for field in _TEXT_FIELDS & body.keys():
        if not isinstance(body[field], str | None):
            yield field, "invalid_type", "input should be a string"
    prompt = body.get("prompt")
    prompts = len(prompt) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else 1
    if prompts * (body.get("n") or 1) > MOST_CHOICES:
        yield "prompt" if prompts > 1 else "n", "invalid_value", f"more than {MOST_CHOICES} answers to one request"
    yield from _part_faults(body)
    if "tools" in body or "tool_choice" in body:
        yield from _tool_faults(body)
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema" and not (wanted.get("json_schema") or {}).get("schema"):
        yield "response_format.json_schema.schema", "missing_field", "this response_format needs a schema"


def _part_faults(body: Body) -> Iterator[tuple[str, str, str]]:
    for m, message in enumerate(body.get("messages") or ()):
        content = message.get("content")
        if not isinstance(content, list):
            continue
        for p, part in enumerate(content):
            if part["type"] == "text" and not isinstance(part.get("text"), str):
                yield f"messages[{m}].content[{p}].text", "missing_field", "a part of the type `text` needs it"


def _tool_faults(body: Body) -> Iterator[tuple[str, str, str]]:
    names = set()
    for t, tool in enumerate(body.get("tools") or ()):
        function = tool.get("function")
        if tool["type"] == "function" and function is None:
            yield f"tools[{t}].function", "missing_field", "a tool of the type `function` needs it"
        names.add((function or {}).get("name"))
    choice = body.get("tool_choice")
    if choice == "required" and not names:
        yield "tool_choice", "invalid_value", "a call is required, and there are no tools"
    if isinstance(choice, Mapping) and choice["type"] == "function":
        named = (choice.get("function") or {}).get("name")
        if named is None:
            yield "tool_choice.function", "missing_field", "a choice of the type `function` needs it"
        elif named not in names:
            yield "tool_choice.function.name", "invalid_value", "there is no such tool among `tools`"
