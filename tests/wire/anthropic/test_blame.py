"""An error about the chat request names the field that the caller wrote."""

from typing import Any

import pytest

from lumbre.core.errors import CallerError
from lumbre.wire.anthropic.blame import in_callers_words

PICTURE = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
CALL = {"type": "tool_use", "id": "t", "name": "photo", "input": {}}


def turn(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([turn("user", PICTURE)], "messages[0].content[0].type"),
        ([turn("user", {"type": "text", "text": "a"}, PICTURE)], "messages[0].content[1].type"),
        ([{"role": "user", "content": "hi"}, turn("user", PICTURE)], "messages[1].content[0].type"),
        (
            [
                turn("assistant", CALL),
                turn("user", {"type": "tool_result", "tool_use_id": "t", "content": [PICTURE]}),
            ],
            "messages[1].content[0].content[0].type",
        ),
        ([{"role": "user", "content": "hi"}], "messages"),
    ],
)
def test_an_image_is_named_where_the_caller_put_it(messages: list[dict[str, Any]], place: str) -> None:
    """The chat request has a system message before it, and its parts stand elsewhere."""
    param = "messages[3].content[7].type"
    error = CallerError(f"{param}: no images", param=param, code="unsupported_field")
    told = in_callers_words(error, {"system": "Be brief.", "messages": messages})
    assert (told.param, told.message, told.code) == (place, f"{place}: no images", "unsupported_field")


@pytest.mark.parametrize(
    ("chat", "body", "field"),
    [
        ("stop", {}, "stop_sequences"),
        ("user", {}, "metadata.user_id"),
        ("parallel_tool_calls", {}, "tool_choice.disable_parallel_tool_use"),
        ("tool_choice.function.name", {}, "tool_choice.name"),
        ("tools[2].function.parameters", {}, "tools[2].input_schema"),
        ("tools[2].function.name", {}, "tools[2].name"),
        ("tools[2].function", {}, "tools[2]"),
        ("response_format", {"output_format": {"type": "json_schema"}}, "output_format"),
        ("response_format.json_schema.schema", {"output_config": {"format": {"a": 1}}}, "output_config.format.schema"),
    ],
)
def test_a_field_has_its_name_of_this_api(chat: str, body: dict[str, Any], field: str) -> None:
    error = CallerError(f"{chat}: no", param=chat, status=422, valid=["a"])
    told = in_callers_words(error, {"messages": [], **body})
    assert (told.param, told.message, told.status, told.valid) == (field, f"{field}: no", 422, ("a",))


@pytest.mark.parametrize("param", [None, "model", "messages", "tools", "lumbre.tier", "max_tokens", "tools[0].type"])
def test_what_both_apis_call_the_same_is_the_same_error(param: str | None) -> None:
    error = CallerError("no", param=param)
    assert in_callers_words(error, {"messages": []}) is error
