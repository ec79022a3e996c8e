"""What a request asked that its reply must keep: a tool call, JSON, a schema. Pure; the relay holds replies to it.

An engine that takes a field and ignores it is worse than one that refuses it: the caller's program goes on with text
where it was promised data. Schemas are checked by `jsonschema_rs`, whose patterns run in bounded time and which is
told never to fetch a reference from the network; `schema_bounds` keeps away those that it could not finish.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Never

import jsonschema_rs
import orjson
from pydantic_core import from_json

from lumbre.core.errors import CallerError
from lumbre.wire.openai.schema_bounds import complaint
from lumbre.wire.openai.story import Choice, ToolCall


@dataclass(frozen=True)
class Promises:
    """What the reply must keep.

    Attributes:
        choices: how many alternatives there must be.
        call: "" for no demand, "*" for any tool, "-" for none, else the name of the tool that must be called.
        one_call: no more than one at a time.
        logprobs: each alternative must have them.
        json_object: the text must be a JSON object.
        schema: what the text must validate against.
        arguments: for each strict tool, what its arguments must validate against.
    """

    choices: int = 1
    call: str = ""
    one_call: bool = False
    logprobs: bool = False
    json_object: bool = False
    schema: jsonschema_rs.Validator | None = None
    arguments: Mapping[str, jsonschema_rs.Validator] = field(default_factory=dict)

    @functools.cached_property
    def any(self) -> bool:
        """Whether there is something to check."""
        asked = (self.call, self.one_call, self.logprobs, self.json_object, self.schema, self.arguments)
        return self.choices > 1 or any(asked)


NONE = Promises()
_ASKS = frozenset({"response_format", "tools", "tool_choice", "parallel_tool_calls", "logprobs"})
"""The fields that make promises."""


def is_strict(body: Mapping[str, Any]) -> bool:
    """Whether the request wants strict JSON: a `json_schema` or a tool with `strict: true`."""
    if _ASKS.isdisjoint(body):
        return False
    wanted = _dict(_dict(body.get("response_format")).get("json_schema"))
    return wanted.get("strict") is True or any(tool.get("strict") is True for _, tool in _functions(body))


def promises_of(body: Mapping[str, Any], choices: int = 1) -> Promises:
    """Read them from a request that asks for so many alternatives.

    Raises:
        CallerError: a schema is none, or refers to something outside itself; names the field.
    """
    if choices == 1 and _ASKS.isdisjoint(body):
        return NONE
    wanted = _dict(body.get("response_format"))
    schema = _dict(wanted.get("json_schema")).get("schema") if wanted.get("type") == "json_schema" else None
    return Promises(
        choices=choices,
        call=_demanded_call(body.get("tool_choice")),
        one_call=body.get("parallel_tool_calls") is False,
        logprobs=body.get("logprobs") is True,
        json_object=wanted.get("type") == "json_object",
        schema=None if schema is None else _validator(schema, "response_format.json_schema.schema"),
        arguments={
            str(tool.get("name")): _validator(tool["parameters"], f"tools[{index}].function.parameters")
            for index, tool in _functions(body)
            if tool.get("strict") is True and "parameters" in tool
        },
    )


def broken(promises: Promises, choices: Sequence[Choice]) -> str | None:
    """Say which promise the finished reply breaks; None if it keeps them all.

    A refusal keeps every promise. A text that was cut by its length limit keeps a schema if it can still be the
    beginning of JSON.
    """
    if len(choices) < promises.choices:
        return f"{promises.choices} alternatives were asked for, and {len(choices)} came"
    for choice in choices:
        if choice.refused or choice.finish_reason == "content_filter":
            continue
        for check in (_broken_call, _broken_number, _broken_arguments, _broken_text, _broken_logprobs):
            if (reason := check(promises, choice)) is not None:
                return reason
    return None


def _broken_call(promises: Promises, choice: Choice) -> str | None:
    names = [call.name for call in choice.tool_calls.values()]
    if promises.call == "*" and not names:
        before = " before it reached its length" if choice.finish_reason == "length" else ""
        return f'tool_choice was "required", and the engine called no tool{before}'
    if promises.call == "-":
        return 'tool_choice was "none", and the engine called a tool' if names else None
    if promises.call not in ("", "*") and names != [promises.call] * max(1, len(names)):
        return f"tool_choice asked for the tool {promises.call!r}, and the engine did not call it"
    return None


def _broken_number(promises: Promises, choice: Choice) -> str | None:
    if promises.one_call and len(choice.tool_calls) > 1:
        return "parallel_tool_calls was false, and the engine called several tools"
    return None


def _broken_logprobs(promises: Promises, choice: Choice) -> str | None:
    silent = promises.logprobs and not choice.has_logprobs and (choice.text or choice.tool_calls)
    return "logprobs were asked for, and none came" if silent else None


def _broken_arguments(promises: Promises, choice: Choice) -> str | None:
    for call in choice.tool_calls.values():
        validator = promises.arguments.get(call.name)
        if validator is not None and (reason := _mismatch(validator, call, choice)) is not None:
            return f"the arguments of the strict tool {call.name!r} break its schema: {reason}"
    return None


def _mismatch(validator: jsonschema_rs.Validator, call: ToolCall, choice: Choice) -> str | None:
    return _schema_mismatch(validator, call.arguments, cut=choice.finish_reason == "length")


def _broken_text(promises: Promises, choice: Choice) -> str | None:
    if choice.tool_calls or not (promises.json_object or promises.schema):
        return None
    cut = choice.finish_reason == "length"
    if promises.schema is not None and (reason := _schema_mismatch(promises.schema, choice.text, cut=cut)) is not None:
        return f"the text breaks response_format's schema: {reason}"
    if promises.json_object and (reason := _object_mismatch(choice.text, cut=cut)) is not None:
        return f"response_format asked for a JSON object: {reason}"
    return None


def _schema_mismatch(validator: jsonschema_rs.Validator, text: str, *, cut: bool) -> str | None:
    if cut:
        return None if _begins_json(text) else "it is not even the beginning of JSON"
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"it is no JSON ({error})"
    first = next(iter(validator.iter_errors(value)), None)
    if first is None:
        return None
    # Where and which rule; not the value, which is somebody's text.
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.instance_path).lstrip(".")
    rule = "/".join(str(step) for step in first.schema_path) or "false"
    return f"{where or 'the whole value'} breaks {rule}"


def _object_mismatch(text: str, *, cut: bool) -> str | None:
    if cut:
        return None if _begins_json(text) else "the text is not even the beginning of one"
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"the text is no JSON ({error})"
    return None if isinstance(value, dict) else "the text is JSON, but no object"


def _begins_json(text: str) -> bool:
    if not text.strip():
        return True
    try:
        from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return False
    return True


def _demanded_call(choice: object) -> str:
    if choice in ("required", "none"):
        return "*" if choice == "required" else "-"
    name = _dict(_dict(choice).get("function")).get("name")
    return name if isinstance(name, str) else ""


def _functions(body: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    tools = body.get("tools")
    if not isinstance(tools, list):
        return []
    return [(i, _dict(tool.get("function"))) for i, tool in enumerate(tools) if isinstance(tool, dict)]


def _validator(schema: object, field_name: str) -> jsonschema_rs.Validator:
    if not isinstance(schema, dict | bool):
        raise CallerError("a schema is an object", param=field_name)
    if (reason := complaint(schema)) is not None:
        raise CallerError(f"{field_name} is too much: {reason}", param=field_name)
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, validate_formats=False)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise CallerError(f"{field_name} is no usable JSON Schema: {reason}", param=field_name) from error


def _refuse(uri: str) -> Never:
    raise ValueError(f"it refers to {uri}, and the gateway fetches nothing from elsewhere")


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
