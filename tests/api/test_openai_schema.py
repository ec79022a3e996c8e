"""Which requests are well formed, and that a fault is told by its field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lumbre.api.openai_schema import CHAT_REQUEST, COMPLETION_REQUEST, EMBEDDING_REQUEST, Shape, check
from lumbre.core.errors import CallerError

MESSAGES = [{"role": "user", "content": "hi"}]

json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SHAPES = (CHAT_REQUEST, COMPLETION_REQUEST, EMBEDDING_REQUEST)
FIELDS = sorted({name for shape in SHAPES for name in shape.kind.__annotations__})


@pytest.mark.parametrize(
    "body",
    [
        {"messages": MESSAGES},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "temperature": 1},
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
                }
            ]
        },
        {
            "messages": MESSAGES,
            "stop": ["a", "b"],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
        },
        {"messages": MESSAGES, "tool_choice": "required", "stop": None, "n": None, "vendor": {"x": [1]}},
    ],
)
def test_a_well_formed_request_passes(body: dict[str, Any]) -> None:
    check(body, CHAT_REQUEST)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "messages", "missing_field"),
        ({"messages": "hi"}, "messages", "invalid_type"),
        ({"messages": []}, "messages", "invalid_type"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "missing_field"),
        ({"messages": [*MESSAGES, {"role": "robot"}]}, "messages[1].role", "invalid_type"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "invalid_type"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type", "missing_field"),
        ({"messages": MESSAGES, "stream": "yes"}, "stream", "invalid_type"),
        ({"messages": MESSAGES, "max_tokens": 0}, "max_tokens", "invalid_type"),
        ({"messages": MESSAGES, "max_tokens": 2.5}, "max_tokens", "invalid_type"),
        ({"messages": MESSAGES, "temperature": "0.5"}, "temperature", "invalid_type"),
        ({"messages": MESSAGES, "temperature": 3}, "temperature", "invalid_type"),
        ({"messages": MESSAGES, "n": True}, "n", "invalid_type"),
        ({"messages": MESSAGES, "stop": [1]}, "stop[0]", "invalid_type"),
        ({"messages": MESSAGES, "tool_choice": "always"}, "tool_choice", "invalid_type"),
        (
            {"messages": MESSAGES, "tools": [{"type": "function", "function": {}}]},
            "tools[0].function.name",
            "missing_field",
        ),
        ({"messages": MESSAGES, "model": 5}, "model", "invalid_type"),
        (
            {"messages": MESSAGES, "response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.name",
            "missing_field",
        ),
        ({"messages": MESSAGES, "lumbre": "A"}, "lumbre", "invalid_type"),
    ],
)
def test_a_fault_is_told_by_its_field(body: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(CallerError) as caught:
        check(body, CHAT_REQUEST)
    assert (caught.value.param, caught.value.code, caught.value.status) == (field, code, 400)
    assert field in caught.value.message


@pytest.mark.parametrize("prompt", ["x", ["x", "y"], [1, 2], [[1], [2]]])
def test_a_prompt_has_one_of_four_forms(prompt: Any) -> None:
    check({"prompt": prompt}, COMPLETION_REQUEST)


@pytest.mark.parametrize("prompt", [5, None, [1, "x"], {"a": 1}])
def test_a_prompt_of_another_form_is_refused(prompt: Any) -> None:
    with pytest.raises(CallerError) as caught:
        check({"prompt": prompt}, COMPLETION_REQUEST)
    assert (caught.value.param or "").startswith("prompt")


@pytest.mark.parametrize("given_input", ["x", ["x", "y"], [1, 2], [[1], [2, 3]], ["x"] * 2048, [1] * 4096])
def test_an_input_to_embed_has_one_of_four_forms(given_input: Any) -> None:
    check({"input": given_input, "encoding_format": "base64", "dimensions": 1, "vendor": 1}, EMBEDDING_REQUEST)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "input", "missing_field"),
        ({"input": ""}, "input", "invalid_type"),
        ({"input": []}, "input", "invalid_type"),
        ({"input": ["a", ""]}, "input[1]", "invalid_type"),
        ({"input": [[1], []]}, "input[1]", "invalid_type"),
        ({"input": [1, -1]}, "input[1]", "invalid_type"),
        ({"input": [True]}, "input[0]", "invalid_type"),
        ({"input": ["x"] * 2049}, "input", "invalid_type"),
        ({"input": None}, "input", "invalid_type"),
        ({"input": "x", "encoding_format": "int8"}, "encoding_format", "invalid_type"),
        ({"input": "x", "dimensions": 0}, "dimensions", "invalid_type"),
    ],
)
def test_a_fault_in_a_request_for_embeddings_is_told_by_its_field(body: dict[str, Any], field: str, code: str) -> None:
    error = complaint(body, EMBEDDING_REQUEST)
    assert error is not None
    assert (error.param, error.code) == (field, code)


@pytest.mark.parametrize(
    ("body", "shape", "field"),
    [
        ({"messages": [1] * 1000}, CHAT_REQUEST, "messages"),
        ({"messages": [{"role": "user", "content": [1] * 1000}]}, CHAT_REQUEST, "messages"),
        ({"messages": [{"role": "user", "tool_calls": [1] * 1000}]}, CHAT_REQUEST, "messages"),
        ({"messages": MESSAGES, "tools": [1] * 1000}, CHAT_REQUEST, "tools"),
        ({"messages": MESSAGES, "stop": [1] * 1000}, CHAT_REQUEST, "stop"),
        ({"messages": MESSAGES, "modalities": [1] * 1000}, CHAT_REQUEST, "modalities"),
        (
            {"messages": MESSAGES, "logit_bias": dict.fromkeys(map(str, range(1000)), "x")},
            CHAT_REQUEST,
            "logit_bias",
        ),
        ({"messages": MESSAGES, "metadata": dict.fromkeys(map(str, range(1000)), 1)}, CHAT_REQUEST, "metadata"),
        ({"prompt": [{}] * 1000}, COMPLETION_REQUEST, "prompt"),
        ({"prompt": [1, *["x"] * 1000]}, COMPLETION_REQUEST, "prompt"),
        ({"prompt": ["x", *[1] * 1000]}, COMPLETION_REQUEST, "prompt"),
        ({"prompt": [[1, *["x"] * 1000]] * 1000}, COMPLETION_REQUEST, "prompt"),
        ({"input": ["x", *[1] * 1000]}, EMBEDDING_REQUEST, "input"),
        ({"input": [1, *["x"] * 1000]}, EMBEDDING_REQUEST, "input"),
        ({"input": [[1, *["x"] * 1000]] * 1000}, EMBEDDING_REQUEST, "input"),
    ],
)
def test_the_search_for_faults_ends_at_the_first(body: dict[str, Any], shape: Shape, field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        shape.validate(body)
    # A union may tell what each of its few branches wants, and no more.
    assert caught.value.error_count() <= 2
    error = complaint(body, shape)
    assert error is not None
    assert (error.param or "").startswith(field)


@pytest.mark.parametrize(
    ("field", "wrong"), [("logit_bias", {"1": "x"}), ("logit_bias", {"1": True}), ("metadata", {"a": 1})]
)
def test_an_object_of_values_is_told_by_its_field(field: str, wrong: dict[str, Any]) -> None:
    error = complaint({"messages": MESSAGES, field: wrong}, CHAT_REQUEST)
    assert error is not None
    assert (error.param, error.code) == (field, "invalid_type")


@given(st.dictionaries(st.sampled_from(FIELDS), json_value, max_size=5))
def test_whatever_comes_is_passed_or_refused_by_a_field_that_is_there(body: dict[str, Any]) -> None:
    for shape in SHAPES:
        error = complaint(body, shape)
        if error is not None:
            head = (error.param or "").split(".")[0].split("[")[0]
            assert head in body or (error.code == "missing_field" and head in shape.kind.__annotations__)


def complaint(body: dict[str, Any], shape: Shape) -> CallerError | None:
    try:
        check(body, shape)
    except CallerError as error:
        return error
    return None
