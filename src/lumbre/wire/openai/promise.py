"""What a request asked that its reply must keep: a tool call, JSON, a schema. Pure; the relay holds replies to it.

An engine that takes a field and ignores it is worse than one that refuses it: the caller's program goes on with text
where it was promised data. Schemas are checked by `jsonschema_rs`, whose patterns run in bounded time and which is
told never to fetch a reference from the network.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Never

import jsonschema_rs
import orjson
from pydantic_core import from_json

from lumbre.core.errors import CallerError
from lumbre.wire.openai.story import Choice, ToolCall


@dataclass(frozen=True)
class Promises:
    """What the reply must keep.

    Attributes:
        call: "" for no demand, "*" for any tool, else the name of the tool that must be called.
        json_object: the text must be a JSON object.
        schema: what the text must validate against.
        arguments: for each strict tool, what its arguments must validate against.
    """

    call: str = ""
    json_object: bool = False
    schema: jsonschema_rs.Validator | None = None
    arguments: Mapping[str, jsonschema_rs.Validator] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether there is something to check."""
        return bool(self.call or self.json_object or self.schema or self.arguments)


def is_strict(body: Mapping[str, Any]) -> bool:
    """Whether the request wants strict JSON: a `json_schema` or a tool with `strict: true`."""
    wanted = _dict(_dict(body.get("response_format")).get("json_schema"))
    return wanted.get("strict") is True or any(tool.get("strict") is True for _, tool in _functions(body))


def promises_of(body: Mapping[str, Any]) -> Promises:
    """Read them from a request.

    Raises:
        CallerError: a schema is none, or refers to something outside itself; names the field.
    """
    wanted = _dict(body.get("response_format"))
    schema = _dict(wanted.get("json_schema")).get("schema") if wanted.get("type") == "json_schema" else None
    return Promises(
        call=_demanded_call(body.get("tool_choice")),
        json_object=wanted.get("type") == "json_object",
        schema=None if schema is None else _validator(schema, "response_format.json_schema.schema"),
        arguments={
            str(tool.get("name")): _validator(tool["parameters"], f"tools[{index}].function.parameters")
            for index, tool in _functions(body)
            if tool.get("strict") is True and "parameters" in tool
        },
    )


def broken(promises: Promises, choices: Iterable[Choice]) -> str | None:
    """Say which promise the finished reply breaks; None if it keeps them all.

    A refusal keeps every promise. A text that was cut by its length limit keeps a schema if it can still be the
    beginning of JSON.
    """
    for choice in choices:
        if choice.refused or choice.finish_reason == "content_filter":
            continue
        reason = _broken_call(promises, choice) or _broken_arguments(promises, choice) or _broken_text(promises, choice)
        if reason is not None:
            return reason
    return None


def _broken_call(promises: Promises, choice: Choice) -> str | None:
    names = [call.name for call in choice.tool_calls.values()]
    if promises.call == "*" and not names:
        return 'tool_choice was "required", and the engine called no tool'
    if promises.call not in ("", "*") and names != [promises.call] * max(1, len(names)):
        return f"tool_choice asked for the tool {promises.call!r}, and the engine did not call it"
    return None


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
    return None if first is None else str(first.message)


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
    if choice == "required":
        return "*"
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
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, validate_formats=False)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise CallerError(f"{field_name} is no usable JSON Schema: {reason}", param=field_name) from error


def _refuse(uri: str) -> Never:
    raise ValueError(f"it refers to {uri}, and the gateway fetches nothing from elsewhere")


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
