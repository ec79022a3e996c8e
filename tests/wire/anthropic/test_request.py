"""Which requests become chat requests, beyond the golden ones; that a refusal names the field of the caller's API."""

from typing import Any

import pytest

from lumbre.core.errors import CallerError
from lumbre.wire.anthropic.fields import HINTS, REFUSALS
from lumbre.wire.anthropic.request import TRANSLATED, to_chat

HELLO = {"role": "user", "content": "hi"}
TOOL = {"name": "get", "input_schema": {"type": "object"}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "get", "input": {}}]}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def asking(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(turns) or [HELLO], **more}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content, **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def test_results_of_tools_come_before_what_the_user_says_with_them() -> None:
    chat = to_chat(asking(HELLO, USE, user(text("and?"), result("42"))))
    assert [(m["role"], m["content"]) for m in chat["messages"][2:]] == [("tool", "42"), ("user", "and?")]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (result(None), ""),
        (result([]), ""),
        (result("", is_error=True), "Error"),
        (result([text("a"), text("b")], is_error=False), "a\n\nb"),
        (result([PICTURE, PICTURE]), "(2 images: see the next message)"),
    ],
)
def test_a_result_is_told_as_text(block: dict[str, Any], said: str) -> None:
    assert to_chat(asking(HELLO, USE, user(block)))["messages"][2]["content"] == said


def test_a_turn_that_only_calls_says_nothing() -> None:
    message = to_chat(asking(HELLO, USE))["messages"][1]
    assert (message["content"], message["tool_calls"][0]["function"]["arguments"]) == (None, "{}")


def test_thoughts_of_the_past_stay_behind() -> None:
    thoughts = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
    ]
    turn = {"role": "assistant", "content": [*thoughts, text("so"), text("."), *thoughts]}
    assert to_chat(asking(HELLO, turn, HELLO))["messages"][1] == {"role": "assistant", "content": "so."}


def test_neighbouring_turns_of_one_role_are_one() -> None:
    said = {"role": "assistant", "content": "a"}
    messages = to_chat(asking(HELLO, user(PICTURE), said, {**said, "content": [text("b")]}))["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert [part["type"] for part in messages[0]["content"]] == ["text", "image_url"]
    assert messages[1]["content"] == "ab"


def test_what_the_system_says_first_is_one_message() -> None:
    first = {"role": "system", "content": [text("b"), text("c")]}
    messages = to_chat(asking(first, HELLO, system="a"))["messages"]
    assert messages == [{"role": "system", "content": "a\n\nb\n\nc"}, HELLO]


def test_what_the_system_says_later_comes_in_the_users_message_at_its_place() -> None:
    late = {"role": "system", "content": "hurry"}
    chat = to_chat(asking(HELLO, USE, user(result("42")), late, {"role": "assistant", "content": "so"}, late, HELLO))
    assert [(m["role"], m["content"]) for m in chat["messages"][2:]] == [
        ("tool", "42"),
        ("user", "<system>\nhurry\n</system>"),
        ("assistant", "so"),
        ("user", "<system>\nhurry\n</system>\n\nhi"),
    ]


def test_a_choice_of_tools_without_tools_is_left_out() -> None:
    chat = to_chat(asking(tool_choice={"type": "auto", "disable_parallel_tool_use": True}, tools=[]))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & chat.keys()


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "get"}, {"type": "function", "function": {"name": "get"}}),
    ],
)
def test_a_choice_of_tools_is_told_in_chat_words(choice: dict[str, Any], told: Any) -> None:
    chat = to_chat(asking(tools=[TOOL], tool_choice=choice))
    assert (chat["tool_choice"], "parallel_tool_calls" in chat) == (told, False)


def test_the_older_place_of_an_output_schema_is_read_too() -> None:
    schema = {"type": "object"}
    chat = to_chat(asking(output_format={"type": "json_schema", "schema": schema}))
    assert chat["response_format"]["json_schema"] == {"name": "output", "strict": True, "schema": schema}


def test_hints_and_fields_that_nobody_published_are_left_out() -> None:
    plain = to_chat(asking())
    hinting = asking(
        thinking={"type": "enabled", "budget_tokens": 2000},
        service_tier="auto",
        cache_control={"type": "ephemeral"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high", "format": None},
        n=5,
        seed=1,
        stop=["x"],
    )
    assert to_chat(hinting) == plain
    tool = {**TOOL, "defer_loading": True, "eager_input_streaming": True, "input_examples": [{}], "type": "custom"}
    assert to_chat(asking(tools=[tool])) == to_chat(asking(tools=[TOOL]))


def test_hints_for_the_gateway_go_along() -> None:
    assert to_chat(asking(lumbre={"tier": "A"}))["lumbre"] == {"tier": "A"}


def test_a_request_to_count_tokens_needs_no_length() -> None:
    assert to_chat({"messages": [HELLO]}) == {"messages": [HELLO]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (asking(max_tokens=0), "max_tokens"),
        (asking(container="c"), "container"),
        (asking(mcp_servers=[{"type": "url"}]), "mcp_servers"),
        (asking(thread={"id": "t"}), "thread"),
        (asking(compaction={}, fallbacks=["x"]), "fallbacks"),
        (
            asking(context_management={"edits": [{"type": "clear_thinking_1"}, {"type": "clear_tool_uses_1"}]}),
            "context_management.edits[1].type",
        ),
        (asking(tools=[TOOL, {"type": "web_search_20250305", "name": "web_search"}]), "tools[1].type"),
        (asking(tools=[{"type": "bash_20250124", "name": "bash"}]), "tools[0].type"),
        (asking(tools=[{**TOOL, "allowed_callers": ["code_execution_20260120"]}]), "tools[0].allowed_callers"),
        (asking(HELLO, user({"type": "document", "source": {}})), "messages[1].content[0].type"),
        (asking(user(text("x"), {"type": "server_tool_use", "id": "s"})), "messages[0].content[1].type"),
        (
            asking(HELLO, USE, user(result([text("x"), {"type": "search_result"}]))),
            "messages[2].content[0].content[1].type",
        ),
        (
            asking(user({"type": "image", "source": {"type": "file", "file_id": "f"}})),
            "messages[0].content[0].source.type",
        ),
        (
            asking(user({**PICTURE, "transformations": {"oversized_image": "error"}})),
            "messages[0].content[0].transformations.oversized_image",
        ),
        (asking(user(text("x", citations=[{"type": "char_location"}]))), "messages[0].content[0].citations"),
        (asking(HELLO, USE, user(result("x", toolset_name="browser"))), "messages[2].content[0].toolset_name"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(body: dict[str, Any], field: str) -> None:
    with pytest.raises(CallerError) as caught:
        to_chat(body)
    assert (caught.value.param, caught.value.code, caught.value.status) == (field, "unsupported_field", 400)
    assert caught.value.message.startswith(f"{field}: this gateway cannot honour this: ")


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        (asking(user()), "messages[0].content", "invalid_value"),
        (asking(stop_sequences=["a", ""]), "stop_sequences[1]", "invalid_value"),
        (
            asking(output_config={"format": {"schema": {"a": 1}}}, output_format={"schema": {"a": 1}}),
            "output_format",
            "invalid_value",
        ),
        (asking(user({"type": "tool_use", "id": "1"})), "messages[0].content[0].type", "invalid_value"),
        (asking({"role": "system", "content": [PICTURE]}), "messages[0].content[0].type", "invalid_value"),
        (
            asking(HELLO, USE, user(result([{"type": "tool_use"}]))),
            "messages[2].content[0].content[0].type",
            "invalid_value",
        ),
        (asking(user(result("x"))), "messages[0].content[0].tool_use_id", "invalid_value"),
        (asking(user(result("x")), USE), "messages[0].content[0].tool_use_id", "invalid_value"),
        (asking(HELLO, USE, USE), "messages[2].content[0].id", "invalid_value"),
        (asking(HELLO, USE, user(text("x")), USE), "messages[3].content[0].id", "invalid_value"),
        (asking(HELLO, USE, user(result("x")), USE, USE), "messages[4].content[0].id", "invalid_value"),
        (asking(tools=[TOOL, TOOL]), "tools[1].name", "invalid_value"),
        (asking(tool_choice={"type": "any"}), "tool_choice", "invalid_value"),
        (asking(tools=[TOOL], tool_choice={"type": "tool"}), "tool_choice.name", "missing_field"),
        (asking(tools=[TOOL], tool_choice={"type": "tool", "name": "put"}), "tool_choice.name", "invalid_value"),
    ],
)
def test_a_contradiction_is_told_by_its_field(body: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(CallerError) as caught:
        to_chat(body)
    assert (caught.value.param, caught.value.code, caught.value.status) == (field, code, 400)


def test_an_id_may_come_again_when_its_call_has_a_result() -> None:
    chat = to_chat(asking(HELLO, USE, user(result("x")), USE, user(result("y"))))
    told = [(each["role"], each["content"]) for each in chat["messages"][1:]]
    assert told == [("assistant", None), ("tool", "x"), ("assistant", None), ("tool", "y")]


def test_each_field_that_is_published_is_translated_refused_or_a_hint() -> None:
    published = {
        *("max_tokens", "messages", "model", "cache_control", "container", "diagnostics", "inference_geo", "metadata"),
        *("output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "temperature", "thinking"),
        *("tool_choice", "tools", "top_k", "top_p", "user_profile_id", "workspace_id"),
        # Those that need a beta header.
        *("betas", "billing_policy", "compaction", "context_management", "fallback_credit_token", "fallbacks"),
        *("mcp_servers", "output_format", "thread"),
    }
    refused = {rule.field for rule in REFUSALS}
    assert published - {*TRANSLATED, *HINTS} == refused - {*TRANSLATED}
    assert not refused & HINTS.keys()
    assert {name for name in HINTS if "." not in name} <= published
