"""Which fields of OpenAI's API an engine cannot honour, as rules over a request. Pure; asked before any work is done.

A rule that matches turns the request down with a 400 that names the field. Fields that OpenAI does not publish are
nobody's business here: they pass through to the engine. Each engine's table stands with its kind in `backends`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumbre.core.errors import CallerError

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """What cannot be honoured.

    Attributes:
        field: the published field it is about.
        find: the path of each offence in a request.
        why: for a person.
    """

    field: str
    find: Callable[[Body], Iterator[str]]
    why: str


def given(value: object) -> bool:
    """The field is there and says something."""
    return value is not None and value is not False and value not in ("", [], {})


def when(field: str, offends: Callable[[Any], bool], why: str) -> Refusal:
    """A rule about one field, `a.b` for a field inside another."""

    def find(body: Body) -> Iterator[str]:
        value: Any = body
        for key in field.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if offends(value):
            yield field

    return Refusal(field, find, why)


def when_part(offends: Callable[[str], bool], why: str) -> Refusal:
    """A rule about the types of the messages' parts."""

    def find(body: Body) -> Iterator[str]:
        for m, message in enumerate(body.get("messages") or ()):
            content = message.get("content")
            for p, part in enumerate(content if isinstance(content, list) else ()):
                if offends(part["type"]):
                    yield f"messages[{m}].content[{p}].type"

    return Refusal("messages", find, why)


def when_tool(offends: Callable[[str], bool], why: str) -> Refusal:
    """A rule about the types of the tools, and of a choice among them."""

    def find(body: Body) -> Iterator[str]:
        for t, tool in enumerate(body.get("tools") or ()):
            if offends(tool["type"]):
                yield f"tools[{t}].type"
        choice = body.get("tool_choice")
        if isinstance(choice, Mapping) and offends(choice["type"]):
            yield "tool_choice.type"

    return Refusal("tools", find, why)


def refuse_unsupported(body: Body, refusals: Sequence[Refusal], engine: str) -> None:
    """Turn a request down if a rule matches.

    Args:
        body: a request whose types have been checked.

    Raises:
        CallerError: names the field and says why; code `unsupported_field`.
    """
    for rule in refusals:
        for path in rule.find(body):
            message = f"{path}: {engine} cannot honour this: {rule.why}"
            raise CallerError(message, param=path, code="unsupported_field")
