"""Which Messages requests chat requests become: field by field, turn by turn, and there and back."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_requests import DATA, GET, HELLO, asking, calling, result, shown, text, told
from golden import Golden, read
from lumbre.wire.anthropic.from_chat import to_messages
from lumbre.wire.anthropic.request import to_chat

Json = dict[str, Any]


def turns(*messages: Json) -> list[tuple[str, list[Json]]]:
    return [(turn["role"], turn["content"]) for turn in told(asking(*messages))["messages"]]


def test_the_least_request_has_the_models_name_and_a_length() -> None:
    hello = [{"role": "user", "content": [text("hi")]}]
    assert told(asking(model="gpt-4o")) == {"model": "claude", "max_tokens": 4096, "messages": hello}
    assert to_messages(asking(), model="m", default_max_tokens=7)["max_tokens"] == 7


def test_a_whole_request_is_told_field_by_field() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body = asking(
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": [text("Be brief."), text("Be right.")]},
        HELLO,
        max_tokens=5,
        max_completion_tokens=9,
        temperature=0.5,
        stop=["END", ""],
        user="u-1",
        stream=True,
        stream_options={"include_usage": True},
        response_format={"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}},
        tools=[{"type": "function", "function": {"name": "put", "description": "Puts.", "strict": True}}],
    )
    assert told(body) == {
        "model": "claude",
        "max_tokens": 9,
        "system": "Be kind.\n\nBe brief.\n\nBe right.",
        "messages": [{"role": "user", "content": [text("hi")]}],
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u-1"},
        "stream": True,
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
        "tools": [{"name": "put", "description": "Puts.", "strict": True, "input_schema": {"type": "object"}}],
    }


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": 0.3, "top_p": 1}, {"temperature": 0.3}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 1.7}, {}),
        ({"temperature": 1, "top_p": 0.5}, {"top_p": 0.5}),
        ({"temperature": 2, "top_p": 0.5}, {"top_p": 0.5}),
        ({"temperature": None, "top_p": None}, {}),
    ],
)
def test_a_temperature_or_top_p_is_sent_where_it_changes_something(given: Json, sent: Json) -> None:
    request = told(asking(**given))
    assert {name: request[name] for name in ("temperature", "top_p") if name in request} == sent


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": {"type": "function", "function": {"name": "get"}}}, {"type": "tool", "name": "get"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "required", "parallel_tool_calls": False},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": True}, None),
    ],
)
def test_whether_tools_are_called_is_told(given: Json, sent: Json | None) -> None:
    assert told(asking(tools=[GET], **given)).get("tool_choice") == sent


def test_a_choice_among_no_tools_is_left_out() -> None:
    assert told(asking(tools=[], tool_choice="none", parallel_tool_calls=False)).keys() == told(asking()).keys()


def test_a_schema_counts_where_it_is_asked_for() -> None:
    unused = {"type": "text", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    assert told(asking(response_format=unused)) == told(asking())


def test_whom_it_is_for_may_be_said_in_two_ways() -> None:
    assert told(asking(safety_identifier="s"))["metadata"] == {"user_id": "s"}
    assert told(asking(safety_identifier="s", user="u"))["metadata"] == {"user_id": "u"}


def test_calls_and_their_results_stand_in_two_turns() -> None:
    said = turns(
        HELLO,
        calling("a", "b", arguments='{"x": [1, null]}', content="Let me see."),
        result("b", [text("1"), text("2")]),
        result("a", ""),
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "So."},
        HELLO,
    )
    use = {"type": "tool_use", "name": "get", "input": {"x": [1, None]}}
    assert said[1:3] == [
        ("assistant", [text("Let me see."), {**use, "id": "a"}, {**use, "id": "b"}]),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "b", "content": [text("1"), text("2")]},
                {"type": "tool_result", "tool_use_id": "a"},
                text("and?"),
            ],
        ),
    ]
    assert [role for role, _ in said] == ["user", "assistant", "user", "assistant", "user"]


def test_results_come_first_in_their_turn_whoever_spoke_before_them() -> None:
    said = turns(HELLO, calling("a"), {"role": "system", "content": "Hurry."}, {**HELLO}, result("a"))
    assert [block["type"] for block in said[2][1]] == ["tool_result", "text", "text"]


@pytest.mark.parametrize(
    ("ids", "sent"),
    [
        (("functions.get:0", "functions_get_0"), ["functions_get_0", "functions_get_0_2"]),
        (("0", "0"), ["0", "0_2"]),
        (("", "call"), ["call", "call_2"]),
        (("toolu_01-A",), ["toolu_01-A"]),
    ],
)
def test_an_id_that_the_api_does_not_take_or_that_came_before_is_another_one(ids: tuple[str], sent: list[str]) -> None:
    messages = [each for one in ids for each in (calling(one), result(one))]
    said = turns(HELLO, *messages)
    assert [blocks[0]["id"] for role, blocks in said if role == "assistant"] == sent
    assert [blocks[0]["tool_use_id"] for role, blocks in said[1:] if role == "user"] == sent


def test_a_conversation_may_be_of_calls_and_results_only() -> None:
    assert [role for role, _ in turns(calling("a"), result("a", None))] == ["assistant", "user"]


def test_neighbours_of_one_side_are_one_turn_and_the_blank_say_nothing() -> None:
    blank = {"role": "user", "content": " \n"}
    said = {"role": "assistant", "content": [text("a"), text("")], "refusal": "no"}
    assert turns(HELLO, HELLO, said, blank, {"role": "assistant", "content": "b"}, HELLO) == [
        ("user", [text("hi"), text("hi")]),
        ("assistant", [text("a"), text("no"), text("b")]),
        ("user", [text("hi")]),
    ]


def test_what_the_system_says_later_stays_at_its_place() -> None:
    said = {"role": "assistant", "content": "a"}
    later = {"role": "developer", "content": [text("Stop."), text("Now.")]}
    request = told(asking({"role": "system", "content": "Go."}, HELLO, said, later))
    assert request["system"] == "Go."
    assert request["messages"][2] == {"role": "user", "content": [text("<system>\nStop.\n\nNow.\n</system>")]}


def test_a_system_that_speaks_alone_is_answered() -> None:
    assert told(asking({"role": "system", "content": "Tell a joke."})) == told(
        asking({**HELLO, "content": "Tell a joke."})
    )


def test_an_answer_that_is_begun_ends_without_white_space() -> None:
    assert turns(HELLO, {"role": "assistant", "content": "The answer is \n"})[1] == (
        "assistant",
        [text("The answer is")],
    )


@pytest.mark.parametrize(
    ("url", "source"),
    [
        (DATA, {"type": "base64", "media_type": "image/png", "data": "AA=="}),
        ("DATA:image/JPG;name=x;BASE64,AA==", {"type": "base64", "media_type": "image/jpeg", "data": "AA=="}),
        ("https://example.org/a,b.png", {"type": "url", "url": "https://example.org/a,b.png"}),
        ("HTTP://example.org/a", {"type": "url", "url": "HTTP://example.org/a"}),
    ],
)
def test_a_picture_comes_along(url: str, source: Json) -> None:
    image = {"type": "image", "source": source}
    assert turns({"role": "user", "content": [text("see"), shown(url)]}) == [("user", [text("see"), image])]
    assert turns(HELLO, calling("a"), result("a", [shown(url)]))[2][1][0]["content"] == [image]


@pytest.mark.parametrize(
    "case", Golden("anthropic", stream="messages.sse", reply="message.json").with_file("chat.json")
)
def test_the_golden_requests_come_back(case: Path) -> None:
    lost = ("top_p", "top_k", "lumbre")  # a `top_p` that came with a temperature
    chat = {name: value for name, value in read(case, "chat.json").items() if name not in lost}
    if "stop" in chat:
        chat["stop"] = [each for each in chat["stop"] if each.strip()]
    assert to_chat({**told(chat), "model": chat["model"]}) == chat


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9).filter(str.strip)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
tools = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["get", "put", "del"]), "input_schema": st.just({"type": "object", "properties": {}})},
        optional={"description": words, "strict": st.just(True)},
    ),
    max_size=3,
    unique_by=lambda tool: str(tool["name"]),
)
pictures = st.sampled_from(
    [
        {"type": "url", "url": "https://example.org/a.png"},
        {"type": "base64", "media_type": "image/gif", "data": "AA=="},
    ]
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Json]:
    """What a user says, what the assistant says and calls, and what came of the calls, some times over."""
    messages: list[Json] = []
    calls: list[str] = []
    for n in range(draw(st.integers(1, 3))):
        results = [{"type": "tool_result", "tool_use_id": each, "content": draw(words | st.none())} for each in calls]
        said = [text(each) for each in draw(st.lists(words, min_size=1, max_size=2))]
        shows = [{"type": "image", "source": each} for each in draw(st.lists(pictures, max_size=1))]
        messages.append({"role": "user", "content": [*results, *said, *shows]})
        calls = [f"toolu_{n}_{c}" for c in range(draw(st.integers(0, 2)))]
        uses = [
            {"type": "tool_use", "id": each, "name": "get", "input": draw(st.dictionaries(words, values, max_size=2))}
            for each in calls
        ]
        messages.append({"role": "assistant", "content": [text(draw(words)), *uses]})
    results = [{"type": "tool_result", "tool_use_id": each, "content": draw(words)} for each in calls]
    return [*messages, {"role": "user", "content": [*results, text(draw(words))]}]


def digest(turn: Json) -> tuple[str, str, list[Json]]:
    """A turn with its texts put together as they are on the way; a result that says nothing says it in one way."""
    separator = "" if turn["role"] == "assistant" else "\n\n"
    rest = [
        {name: value for name, value in block.items() if (name, value) != ("content", None)}
        for block in turn["content"]
        if block["type"] != "text"
    ]
    return turn["role"], separator.join(b["text"] for b in turn["content"] if b["type"] == "text"), rest


@given(exchanges(), tools, st.none() | words)
def test_a_messages_request_told_as_a_chat_request_comes_back(
    messages: list[Json], offered: list[Json], system: str | None
) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": messages, "tools": offered, "system": system}
    request = told(to_chat(body))
    assert [digest(turn) for turn in request["messages"]] == [digest(turn) for turn in messages]
    assert (request.get("tools", []), request.get("system")) == (offered, system)
