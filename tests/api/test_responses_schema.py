"""Which Responses requests are well formed, and that a fault is told by the field of the item's own kind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from lumbre.api.openai_schema import check
from lumbre.api.responses_schema import RESPONSES_REQUEST, Item
from lumbre.core.errors import CallerError
from lumbre.wire.responses.request import to_chat

json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted(RESPONSES_REQUEST.kind.__annotations__)
TOOL_KEYS = ["type", "name", "parameters", "strict", "allowed_callers", "async", "mode", "tools", "function"]
ITEM_KEYS = ["type", "id", "role", "content", "call_id", "name", "arguments", "output", "text", "image_url", "x"]
ITEM_WORDS = [
    *("message", "function_call", "function_call_output", "reasoning", "item_reference", "compaction"),
    *("user", "assistant", "input_text", "input_image", "function"),
]
item_value = st.recursive(
    st.sampled_from(ITEM_WORDS) | st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ITEM_KEYS), inner, max_size=4),
    max_leaves=10,
)
tool_value = st.fixed_dictionaries(
    {"type": st.sampled_from(["function", "mcp", "allowed_tools"])},
    optional={"name": st.sampled_from("fg"), **dict.fromkeys(TOOL_KEYS[2:], json_value)},
)


@pytest.mark.parametrize(
    "body",
    [
        {"input": "hi"},
        {"input": [{"role": "user", "content": "hi"}], "temperature": 1},
        {"input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "hi"}]}]},
        {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "data:", "detail": "low"}]},
                {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": ""}]},
                {"type": "message", "id": "m", "role": "assistant", "content": [], "status": "completed"},
                {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
                {"type": "item_reference", "id": "msg"},
                {"id": "msg"},
                {"type": "computer_call_output", "output": {"type": "computer_screenshot"}},
            ]
        },
        {"previous_response_id": "resp_1", "store": False, "stream": None, "metadata": {"a": "b"}},
        {"input": "hi", "tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "function", "name": "f"}},
        {"input": "hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": {}, "strict": True}}},
        {"input": "hi", "reasoning": {"effort": "low"}, "include": ["x"], "vendor": {"x": [1]}},
    ],
)
def test_a_well_formed_request_passes(body: dict[str, Any]) -> None:
    check(body, RESPONSES_REQUEST)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"input": 5}, "input", "invalid_type"),
        ({"input": [5]}, "input[0]", "invalid_type"),
        ({"input": [{"content": "hi"}]}, "input[0].role", "missing_field"),
        ({"input": [{"role": "user"}]}, "input[0].content", "missing_field"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "invalid_type"),
        ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, "input[0].content[0].type", "missing_field"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": {"url": "x"}}]}]},
            "input[0].content[0].image_url",
            "invalid_type",
        ),
        ({"input": [{"type": "function_call", "name": "f", "arguments": ""}]}, "input[0].call_id", "missing_field"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output", "missing_field"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id", "missing_field"),
        ({"input": [{"type": 5}]}, "input[0].type", "invalid_type"),
        ({"input": "hi", "max_output_tokens": 0}, "max_output_tokens", "invalid_type"),
        ({"input": "hi", "temperature": "1"}, "temperature", "invalid_type"),
        ({"input": "hi", "store": "no"}, "store", "invalid_type"),
        ({"input": "hi", "previous_response_id": 5}, "previous_response_id", "invalid_type"),
        ({"input": "hi", "metadata": {"a": 1}}, "metadata", "invalid_type"),
        ({"input": "hi", "tools": [{"name": "f"}]}, "tools[0].type", "missing_field"),
        ({"input": "hi", "tools": [{"type": "function", "name": ""}]}, "tools[0].name", "invalid_type"),
        ({"input": "hi", "tool_choice": "always"}, "tool_choice", "invalid_type"),
        ({"input": "hi", "text": {"format": {"schema": {}}}}, "text.format.type", "missing_field"),
        (
            {"input": "hi", "text": {"format": {"type": "json_schema", "schema": 1}}},
            "text.format.schema",
            "invalid_type",
        ),
        ({"input": "hi", "include": [1]}, "include[0]", "invalid_type"),
        ({"input": "hi", "reasoning": "low"}, "reasoning", "invalid_type"),
    ],
)
def test_a_fault_is_told_by_its_field(body: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(CallerError) as caught:
        check(body, RESPONSES_REQUEST)
    assert (caught.value.param, caught.value.code) == (field, code)


def test_an_item_is_measured_by_its_own_kind_only() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Item).validate_python({"type": "function_call"})
    assert {fault["loc"][-1] for fault in caught.value.errors()} == {"call_id", "name", "arguments"}


def complaint(body: dict[str, Any]) -> str | None:
    """The field that a body is turned down for; None if it is taken."""
    try:
        check(body, RESPONSES_REQUEST)
        to_chat(body)
    except CallerError as error:
        return error.param or ""
    return None


@given(st.dictionaries(st.sampled_from([*FIELDS, "conversation", "prompt", "image"]), json_value | item_value))
def test_any_body_is_taken_or_told_off_by_a_field_and_never_a_crash(body: dict[str, Any]) -> None:
    assert complaint(body) != ""


@given(st.lists(tool_value, max_size=3), tool_value | json_value)
def test_any_tools_are_taken_or_told_off_by_a_field_and_never_a_crash(tools: list[Any], choice: Any) -> None:
    assert complaint({"input": "hi", "tools": tools, "tool_choice": choice}) != ""


@given(st.lists(item_value, max_size=4))
def test_any_items_are_taken_or_told_off_by_a_field_and_never_a_crash(items: list[Any]) -> None:
    assert (complaint({"input": items}) or "input").startswith("input")
