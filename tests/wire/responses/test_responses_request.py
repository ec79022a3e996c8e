"""What a Responses request becomes, and what is turned down by the caller's own field."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from lumbre.api.openai_schema import check
from lumbre.api.responses_schema import RESPONSES_REQUEST
from lumbre.core.errors import CallerError
from lumbre.wire.responses.refusals import HINTS, REFUSALS
from lumbre.wire.responses.request import OURS, RENAMED, TURNED, references, to_chat

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
USER = {"role": "user", "content": "hi"}


def refusal(body: Mapping[str, Any], history: Any = ()) -> CallerError:
    told = {"input": "hi", **body}
    check(told, RESPONSES_REQUEST)
    with pytest.raises(CallerError) as caught:
        to_chat(told, history)
    assert caught.value.param is not None
    assert caught.value.message.startswith(f"{caught.value.param}: ")
    return caught.value


def messages(*items: Mapping[str, Any], history: Any = (), **more: Any) -> Any:
    body = {"input": list(items), **more}
    check(body, RESPONSES_REQUEST)
    return to_chat(body, history)["messages"]


def content(*parts: Mapping[str, Any]) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(parts)}]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"truncation": "auto"}, "truncation"),
        ({"max_tool_calls": 3}, "max_tool_calls"),
        ({"moderation": {"model": "m"}}, "moderation"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"include": ["reasoning.encrypted_content", "file_search_call.results"]}, "include[1]"),
        ({"tools": [TOOL, {"type": "web_search"}]}, "tools[1].type"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].type"),
        ({"tools": [{"type": "custom", "name": "x", "format": {"type": "grammar"}}]}, "tools[0].type"),
        ({"tools": [{"type": "local_shell"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading"),
        ({"tools": [{**TOOL, "allowed_callers": ["programmatic"]}]}, "tools[0].allowed_callers"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice.type"),
        ({"input": [USER, {"type": "computer_call_output", "call_id": "c", "output": {}}]}, "input[1].type"),
        ({"input": [{"type": "compaction", "id": "x", "encrypted_content": "x"}]}, "input[0].type"),
        (content({"type": "input_file", "file_id": "x"}), "input[0].content[0].type"),
        (content({"type": "input_text", "text": "x"}, {"type": "input_audio"}), "input[0].content[1].type"),
        (content({"type": "input_image", "file_id": "file-1"}), "input[0].content[0].file_id"),
        (
            {"input": [CALL, {**OUTPUT, "output": [{"type": "input_image", "image_url": "data:"}]}]},
            "input[1].output[0].type",
        ),
        (
            {"input": [{"role": "assistant", "content": [{"type": "input_image", "image_url": "data:"}]}]},
            "input[0].content[0].type",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(body: dict[str, Any], field: str) -> None:
    error = refusal(body)
    assert (error.status, error.code, error.param) == (400, "unsupported_field", field)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"input": None}, "input", "missing_field"),
        ({"input": []}, "input", "missing_field"),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "input", "missing_field"),
        ({"input": [USER, OUTPUT]}, "input[1].call_id", "invalid_value"),
        ({"input": [OUTPUT, CALL]}, "input[0].call_id", "invalid_value"),
        (content({"type": "input_text"}), "input[0].content[0].text", "missing_field"),
        (content({"type": "input_image"}), "input[0].content[0].image_url", "missing_field"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].id", "item_not_found"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0].name", "missing_field"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.name", "missing_field"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice.name", "invalid_value"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.mode", "missing_field"),
        (
            {
                "tools": [TOOL],
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "g"}],
                },
            },
            "tool_choice.tools[0].name",
            "invalid_value",
        ),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "missing_field"),
        ({"text": {"format": {"type": "json_schema", "schema": {"a": 1}}}}, "text.format.name", "missing_field"),
    ],
)
def test_a_contradiction_is_told_by_its_field(body: dict[str, Any], field: str, code: str) -> None:
    error = refusal(body)
    assert (error.status, error.code, error.param) == (400, code, field)


def test_every_field_that_openai_publishes_is_carried_refused_or_known_to_be_a_hint() -> None:
    tables = {*RENAMED, *TURNED, *OURS, *(rule.field.partition(".")[0] for rule in REFUSALS), *HINTS}
    published = ResponseCreateParamsStreaming.__required_keys__ | ResponseCreateParamsStreaming.__optional_keys__
    assert len(published) > 25
    assert published - tables == set()


def test_what_asks_for_nothing_reaches_nobody() -> None:
    body = {
        "input": "hi",
        "background": False,
        "conversation": None,
        "truncation": "disabled",
        "service_tier": "auto",
        "store": True,
        "metadata": {"a": "b"},
        "prompt_cache_options": {"mode": "implicit"},
        "prompt_cache_retention": "24h",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "text": {"format": {"type": "text"}},
        "previous_response_id": "resp_1",
        "tools": [],
        "stream": False,
        "messages": [{"role": "user", "content": "not this"}],
        "n": 3,
    }
    check(body, RESPONSES_REQUEST)
    assert to_chat(body) == {"messages": [USER]}


def test_fields_that_nobody_publishes_reach_the_engine() -> None:
    assert to_chat({"input": "hi", "top_k": 40, "chat_template_kwargs": {"a": 1}}) == {
        "messages": [USER],
        "top_k": 40,
        "chat_template_kwargs": {"a": 1},
    }


def test_instructions_come_first_and_the_history_before_what_is_said_now() -> None:
    history = [USER, {"role": "assistant", "content": [{"type": "output_text", "text": "ho"}]}]
    assert messages({"role": "user", "content": "more"}, history=history, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "more"},
    ]


def test_a_call_of_the_history_may_be_answered_now() -> None:
    assert messages(OUTPUT, history=[USER, CALL])[-2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]


def test_calls_that_were_answered_one_by_one_stay_apart() -> None:
    other = {**CALL, "call_id": "c2"}
    told = messages(USER, CALL, OUTPUT, other, {**OUTPUT, "call_id": "c2"})
    assert [each["role"] for each in told] == ["user", "assistant", "tool", "assistant", "tool"]


def test_what_is_said_after_its_calls_is_the_same_breath() -> None:
    told = messages(USER, CALL, {"role": "assistant", "content": "Looking."}, OUTPUT)
    assert [each["role"] for each in told] == ["user", "assistant", "tool"]
    assert told[1]["content"] == "Looking."


def test_two_messages_of_the_assistant_stay_two() -> None:
    said = {"role": "assistant", "content": "x"}
    assert messages(USER, said, said) == [USER, said, said]


def test_a_reference_is_told_as_the_item_it_names_and_only_once() -> None:
    kept = {"type": "message", "id": "msg_1_0", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
    body = {"input": [USER, {"id": "msg_1_0"}, {"type": "item_reference", "id": "msg_1_0"}]}
    check(body, RESPONSES_REQUEST)
    assert references(body) == ["msg_1_0", "msg_1_0"]
    said = {"role": "assistant", "content": "x"}
    assert to_chat(body, (), {"msg_1_0": kept})["messages"] == [USER, said, said]
    assert to_chat(body, [kept])["messages"] == [said, USER]


def test_a_choice_among_tools_is_made_by_sending_no_others() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}
    chat = to_chat({"input": "hi", "tools": [TOOL, {**TOOL, "name": "g"}], "tool_choice": choice})
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["g"]
    assert chat["tool_choice"] == "auto"


@pytest.mark.parametrize("strict", [None, True, False])
def test_a_tool_is_strict_when_it_says_so(strict: bool | None) -> None:
    tool = to_chat({"input": "hi", "tools": [{**TOOL, "strict": strict}]})["tools"][0]["function"]
    assert tool.get("strict") is strict


word = st.text(max_size=6)
item = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "developer", "assistant"]), "content": word}),
    st.just(CALL),
    st.just({**CALL, "call_id": "c2"}),
    st.just(OUTPUT),
    st.just({"type": "reasoning", "summary": []}),
)


@given(st.lists(item, max_size=8))
def test_every_text_call_and_output_is_told_once_and_outputs_after_their_calls(items: list[dict[str, Any]]) -> None:
    given_items = [USER, CALL, *items]
    told = to_chat({"input": given_items})["messages"]
    calls = [call["id"] for message in told for call in message.get("tool_calls", ())]
    assert calls == [each["call_id"] for each in given_items if each.get("type") == "function_call"]
    outputs = [message["content"] for message in told if message["role"] == "tool"]
    assert outputs == [each["output"] for each in given_items if "output" in each]
    said = [message["content"] for message in told if message["role"] != "tool" and message["content"] is not None]
    assert said == [each["content"] for each in given_items if "content" in each]
    called: set[str] = set()
    for message in told:
        called |= {call["id"] for call in message.get("tool_calls", ())}
        assert message["role"] != "tool" or message["tool_call_id"] in called
