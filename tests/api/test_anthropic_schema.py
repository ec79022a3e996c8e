"""Which requests of the Messages API are well formed, that a fault is told by its field, and that nothing crashes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lumbre.api.anthropic_schema import COUNT_TOKENS_REQUEST, MESSAGES_REQUEST
from lumbre.api.openai_schema import Shape, check
from lumbre.core.errors import CallerError
from lumbre.wire.anthropic.request import to_chat

HELLO = [{"role": "user", "content": "hi"}]
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def asking(**more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": HELLO, **more}


def turn(*blocks: Any) -> dict[str, Any]:
    return asking(messages=[{"role": "user", "content": list(blocks)}])


@pytest.mark.parametrize(
    "body",
    [
        asking(),
        asking(max_tokens=0),
        asking(system="x", stop_sequences=["a"], temperature=1, top_p=0.5, top_k=0, stream=False, metadata={}),
        asking(system=[{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}], thinking=None),
        asking(messages=[*HELLO, {"role": "assistant", "content": []}, {"role": "system", "content": "x"}]),
        turn({"type": "text", "text": "x"}, PICTURE, {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        turn({"type": "document", "source": 5}, {"type": "of the future"}),
        turn({"type": "tool_result", "tool_use_id": "t", "content": [PICTURE, {"type": "tool_reference"}]}),
        turn({"type": "tool_use", "id": "t", "name": "get", "input": {"a": 1}, "caller": {"type": "direct"}}),
        asking(tools=[{"name": "get", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]),
        asking(tool_choice={"type": "any", "disable_parallel_tool_use": True}),
        asking(output_config={"effort": "low", "format": {"type": "json_schema", "schema": {}}}, unheard_of=[1]),
    ],
)
def test_a_well_formed_request_passes(body: dict[str, Any]) -> None:
    check(body, MESSAGES_REQUEST)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"messages": HELLO}, "max_tokens", "missing_field"),
        ({"max_tokens": 5}, "messages", "missing_field"),
        (asking(messages=[]), "messages", "invalid_type"),
        (asking(max_tokens=-1), "max_tokens", "invalid_type"),
        (asking(max_tokens="9"), "max_tokens", "invalid_type"),
        (asking(max_tokens=True), "max_tokens", "invalid_type"),
        (asking(messages=[{"role": "tool", "content": "x"}]), "messages[0].role", "invalid_type"),
        (asking(messages=[{"role": "user"}]), "messages[0].content", "missing_field"),
        (asking(messages=[{"role": "user", "content": None}]), "messages[0].content", "invalid_type"),
        (turn({"text": "x"}), "messages[0].content[0].type", "missing_field"),
        (turn("x"), "messages[0].content[0]", "invalid_type"),
        (turn({"type": 5}), "messages[0].content[0].type", "invalid_type"),
        (turn({"type": ["text"]}), "messages[0].content[0].type", "invalid_type"),
        (turn({"type": "text"}), "messages[0].content[0].text", "missing_field"),
        (turn({"type": "text", "text": 5}), "messages[0].content[0].text", "invalid_type"),
        (turn({"type": "thinking"}), "messages[0].content[0].thinking", "missing_field"),
        (turn({"type": "image"}), "messages[0].content[0].source", "missing_field"),
        (turn({"type": "image", "source": {}}), "messages[0].content[0].source.type", "missing_field"),
        (
            turn({"type": "image", "source": {"type": "url"}}),
            "messages[0].content[0].source.url",
            "missing_field",
        ),
        (
            turn({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": ""}}),
            "messages[0].content[0].source.media_type",
            "invalid_type",
        ),
        (turn({"type": "tool_use", "id": "t", "name": "n"}), "messages[0].content[0].input", "missing_field"),
        (turn({"type": "tool_result"}), "messages[0].content[0].tool_use_id", "missing_field"),
        (
            turn({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text"}]}),
            "messages[0].content[0].content[0].text",
            "missing_field",
        ),
        (asking(system=[{"type": "image"}]), "system[0].type", "invalid_type"),
        (asking(temperature=1.5), "temperature", "invalid_type"),
        (asking(top_k=-1), "top_k", "invalid_type"),
        (asking(stop_sequences="x"), "stop_sequences", "invalid_type"),
        (asking(stop_sequences=[1]), "stop_sequences[0]", "invalid_type"),
        (asking(stream="yes"), "stream", "invalid_type"),
        (asking(tools=[{"name": "get"}]), "tools[0].input_schema", "missing_field"),
        (asking(tools=[{"type": "custom", "input_schema": {}}]), "tools[0].name", "missing_field"),
        (asking(tools=[{"name": "", "input_schema": {}}]), "tools[0].name", "invalid_type"),
        (asking(tools=[{"type": 5}]), "tools[0].type", "invalid_type"),
        (asking(tool_choice="auto"), "tool_choice", "invalid_type"),
        (asking(tool_choice={"type": "required"}), "tool_choice.type", "invalid_type"),
        (asking(output_config={"format": {"type": "json_schema"}}), "output_config.format.schema", "missing_field"),
        (asking(output_format={"type": "json", "schema": {}}), "output_format.type", "invalid_type"),
        (asking(metadata={"user_id": 5}), "metadata.user_id", "invalid_type"),
        (asking(context_management={"edits": [{}]}), "context_management.edits[0].type", "missing_field"),
        (asking(model=5), "model", "invalid_type"),
        (asking(lumbre="A"), "lumbre", "invalid_type"),
    ],
)
def test_a_fault_is_told_by_its_field(body: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(CallerError) as caught:
        check(body, MESSAGES_REQUEST)
    assert (caught.value.param, caught.value.code, caught.value.status) == (field, code, 400)
    assert field in caught.value.message


def test_counting_tokens_needs_no_length() -> None:
    check({"messages": HELLO}, COUNT_TOKENS_REQUEST)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (asking(messages=[1] * 1000), "messages"),
        (turn(*[1] * 1000), "messages"),
        (turn({"type": "tool_result", "tool_use_id": "t", "content": [1] * 1000}), "messages"),
        (asking(system=[1] * 1000), "system"),
        (asking(tools=[1] * 1000), "tools"),
        (asking(stop_sequences=[1] * 1000), "stop_sequences"),
    ],
)
def test_the_search_for_faults_ends_at_the_first(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        MESSAGES_REQUEST.validate(body)
    # Each text that may be a list instead tells that it wants a text, and no more.
    assert caught.value.error_count() <= 3
    with pytest.raises(CallerError) as told:
        check(body, MESSAGES_REQUEST)
    assert (told.value.param or "").startswith(field)


words = st.sampled_from(["text", "image", "tool_use", "tool_result", "base64", "url", "any", "tool", "custom", "x", ""])
names = st.sampled_from(["type", "text", "source", "content", "id", "tool_use_id", "name", "input", "data", "url"])
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=10,
)
blocks = st.lists(st.dictionaries(names, json_value, max_size=5), max_size=3)
turns = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]), "content": blocks | json_value}
)
fields = st.sampled_from([*sorted(MESSAGES_REQUEST.kind.__annotations__), "container", "mcp_servers", "thread"])
bodies = st.builds(
    lambda body, messages: {**body, "messages": messages},
    st.dictionaries(fields, json_value, max_size=5),
    st.lists(turns, max_size=3),
)


@given(bodies, st.sampled_from((MESSAGES_REQUEST, COUNT_TOKENS_REQUEST)))
def test_whatever_comes_becomes_a_chat_request_or_is_refused_by_a_field(body: dict[str, Any], shape: Shape) -> None:
    outcome = answer(body, shape)
    if isinstance(outcome, CallerError):
        head = (outcome.param or "").split(".")[0].split("[")[0]
        assert head in body or outcome.code == "missing_field"
    else:
        assert all(message["role"] in ("system", "user", "assistant", "tool") for message in outcome["messages"])


def answer(body: dict[str, Any], shape: Shape) -> dict[str, Any] | CallerError:
    try:
        check(body, shape)
        return to_chat(body)
    except CallerError as error:
        return error
