"""Requests whose fields are of the right types and contradict each other."""

from typing import Any

import pytest

from lumbre.core.errors import CallerError
from lumbre.wire.openai.sense import check_sense

TOOL = {"type": "function", "function": {"name": "get"}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": [{"role": "user", "content": "x"}], "tools": None, "tool_choice": None, "response_format": None},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get"}}},
        {"tools": [{"type": "custom"}], "tool_choice": {"type": "custom"}},
        {"tool_choice": "none"},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}},
        {"service_tier": "auto", "verbosity": None},
        {"prompt": ["x"] * 64, "n": 2},
        {"prompt": [1] * 5000, "n": 128},
    ],
)
def test_what_makes_sense_passes(body: dict[str, Any]) -> None:
    check_sense(body)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"messages": [{"content": [{"type": "text"}]}]}, "messages[0].content[0].text", "missing_field"),
        ({"tools": [TOOL, {"type": "function"}]}, "tools[1].function", "missing_field"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.function", "missing_field"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "put"}}},
            "tool_choice.function.name",
            "invalid_value",
        ),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "missing_field"),
        ({"service_tier": 5}, "service_tier", "invalid_type"),
        ({"prompt": ["x"] * 129}, "prompt", "invalid_value"),
        ({"prompt": [[1]] * 65, "n": 2}, "prompt", "invalid_value"),
    ],
)
def test_a_contradiction_is_told_by_its_field(body: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(CallerError) as caught:
        check_sense(body)
    assert (caught.value.param, caught.value.code, caught.value.status) == (field, code, 400)
