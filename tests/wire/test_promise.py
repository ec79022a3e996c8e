"""Which finished replies keep what the request asked, and which break it."""

from typing import Any

import pytest

from lumbre.core.errors import CallerError
from lumbre.wire.openai.promise import broken, is_strict, promises_of
from lumbre.wire.openai.story import Choice, ToolCall

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": CITY}}}
OBJECT = {"response_format": {"type": "json_object"}}
TOOLS = [{"type": "function", "function": {"name": "get", "parameters": CITY, "strict": True}}]
NAMED = {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "get"}}}


def text(value: str, finish: str = "stop") -> Choice:
    return Choice(pieces=[value], finish_reason=finish)


def call(name: str = "get", arguments: str = '{"city":"x"}', finish: str = "tool_calls") -> Choice:
    return Choice(tool_calls={0: ToolCall([name], [arguments])}, finish_reason=finish)


@pytest.mark.parametrize(
    ("body", "choice"),
    [
        ({}, text("anything")),
        (SCHEMA, text('{"city":"Paris"}')),
        (SCHEMA, text(' {"city": "Par', "length")),
        (SCHEMA, text("", "length")),
        (SCHEMA, Choice(refused=True, finish_reason="stop")),
        (SCHEMA, text("no", "content_filter")),
        (OBJECT, text("{}")),
        (OBJECT, text('{"a": [1, 2', "length")),
        ({"tools": TOOLS, "tool_choice": "required"}, call()),
        ({"tools": TOOLS, "tool_choice": "auto"}, text("no call")),
        ({"tools": TOOLS, "tool_choice": "none"}, text("no call")),
        ({"logprobs": True}, Choice(pieces=["x"], finish_reason="stop", has_logprobs=True)),
        ({"logprobs": True}, text("")),
        ({"logprobs": 2}, text("completions say it with a number")),
        (NAMED, call()),
        (NAMED, call(arguments='{"ci', finish="length")),
        ({"tools": TOOLS, **SCHEMA}, call()),
    ],
)
def test_a_reply_that_does_what_was_asked_is_kept(body: dict[str, Any], choice: Choice) -> None:
    assert broken(promises_of(body), [choice]) is None


@pytest.mark.parametrize(
    ("body", "choice", "reason"),
    [
        (SCHEMA, text('{"town":"Paris"}'), "required"),
        (SCHEMA, text("Paris"), "no JSON"),
        (SCHEMA, text("Paris is", "length"), "beginning"),
        (OBJECT, text("[]"), "no object"),
        (OBJECT, text("hello"), "no JSON"),
        ({"tools": TOOLS, "tool_choice": "required"}, text("hello"), "required"),
        ({"tools": TOOLS, "tool_choice": "required"}, text("hello", "length"), "required"),
        (NAMED, text("hello"), "get"),
        (NAMED, call(name="other"), "get"),
        (NAMED, call(arguments="{}"), "required"),
        ({"tools": TOOLS, "tool_choice": "none"}, call(), "none"),
        ({"logprobs": True}, text("hello"), "logprobs"),
        ({"tools": TOOLS}, call(arguments="nonsense"), "no JSON"),
    ],
)
def test_a_reply_that_ignores_what_was_asked_is_told_with_the_reason(
    body: dict[str, Any], choice: Choice, reason: str
) -> None:
    assert reason in (broken(promises_of(body), [choice]) or "")


def test_fewer_alternatives_than_asked_for_are_noticed() -> None:
    promises = promises_of({}, choices=2)
    assert "2 alternatives" in (broken(promises, [text("a")]) or "")
    assert broken(promises, [text("a"), text("b")]) is None


def test_several_calls_at_once_are_noticed_where_they_were_forbidden() -> None:
    two = Choice(tool_calls={n: ToolCall(["get"], ['{"city":"x"}']) for n in range(2)}, finish_reason="tool_calls")
    assert "several" in (broken(promises_of({"tools": TOOLS, "parallel_tool_calls": False}), [two]) or "")
    assert broken(promises_of({"tools": TOOLS}), [two]) is None


def test_one_bad_alternative_is_enough() -> None:
    assert broken(promises_of(OBJECT), [text("{}"), text("x")]) is not None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [({"type": "objekt"}, "objekt"), ({"$ref": "http://127.0.0.1:1/x"}, "nothing from elsewhere"), (5, "object")],
)
def test_a_schema_that_is_none_is_refused_by_its_field_and_nothing_is_fetched(schema: object, reason: str) -> None:
    body = {"response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": schema}}}
    with pytest.raises(CallerError, match=reason) as caught:
        promises_of(body)
    assert caught.value.param == "response_format.json_schema.schema"


def test_a_pattern_made_to_hang_does_not() -> None:
    body = {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "c", "schema": {"type": "string", "pattern": "^(a|aa)+$"}},
        }
    }
    assert broken(promises_of(body), [text('"' + "a" * 5000 + 'b"')]) is not None


@pytest.mark.parametrize(
    ("body", "strict"),
    [
        ({}, False),
        (SCHEMA, False),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "c", "strict": True}}}, True),
        ({"tools": TOOLS}, True),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, False),
        (OBJECT, False),
        ({"tools": None, "response_format": None}, False),
    ],
)
def test_strict_json_is_what_says_strict(body: dict[str, Any], strict: bool) -> None:
    assert is_strict(body) is strict
