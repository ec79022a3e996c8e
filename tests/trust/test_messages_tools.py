"""Tools through Anthropic's SDK before a chat engine: calls, results, demands, and the SDK's own loop."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, beta_tool
from anthropic.types import Message, MessageParam

from gateway_process import GatewayProcess, Opener
from messages_client import ASKED, HELLO, WEATHER, ChatAnswer, ToolCall, facts, sdk, told, wish
from rogue_process import RogueProcess

LIMA = ToolCall("call_1", "weather", '{"city": "Lima"}')
QUITO = ToolCall("call_2", "weather", '{"city": "Quito", "days": [1, 2]}')
NOW = ToolCall("", "now", "")
NOW_TOOL: Any = {"name": "now", "input_schema": {"type": "object"}}
TOOLS: dict[str, Any] = {"tools": [WEATHER, NOW_TOOL]}

ANSWERS = {
    "one call": ChatAnswer(calls=(LIMA,), finish="tool_calls"),
    "a text and a call": ChatAnswer(text="I will look.", calls=(LIMA,), finish="tool_calls"),
    "two calls": ChatAnswer(calls=(LIMA, QUITO), finish="tool_calls"),
    "two calls in turns": ChatAnswer(calls=(LIMA, QUITO), finish="tool_calls", interleaved=True),
    "three calls in turns, one without id or arguments": ChatAnswer(
        thought="Two cities, and the time.", text="Well.", calls=(QUITO, NOW, LIMA), interleaved=True
    ),
}


@pytest.fixture(scope="module")
def strict(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(sections={"tier_a": {"strict_json": True}}).ready()


@pytest.fixture
def client(strict: GatewayProcess) -> Iterator[Anthropic]:
    with sdk(strict.url) as made:
        yield made


def sent(rogue: RogueProcess, name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(rogue.find(name)["body"])
    return body


def ask(client: Anthropic, stream: bool, **asked: Any) -> Message:
    return streamed(client, **asked) if stream else client.messages.create(**asked)


def streamed(client: Anthropic, **asked: Any) -> Message:
    with client.messages.stream(**asked) as stream:
        return stream.get_final_message()


def without_made_ids(message: Message) -> dict[str, Any]:
    """The facts of a Message, and "made" for an id that the gateway made since the engine gave none."""
    said = facts(message)
    for block in said["content"]:
        if str(block.get("id")).startswith("toolu_"):
            block["id"] = "made"
    return said


@pytest.mark.parametrize("case", ANSWERS)
def test_streamed_calls_come_to_what_the_plain_reply_says(client: Anthropic, case: str) -> None:
    answer = ANSWERS[case]
    plain = client.messages.create(**ASKED, **TOOLS, **wish(answer.recited(stream=False)))
    message = streamed(client, **ASKED, **TOOLS, **wish(answer.recited(stream=True)))
    assert without_made_ids(message) == without_made_ids(plain)
    calls = [block for block in plain.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [
        (call.name, json.loads(call.arguments or "{}")) for call in answer.calls
    ]
    assert plain.stop_reason == "tool_use"


def test_the_pieces_of_a_call_are_streamed_as_they_come(client: Anthropic) -> None:
    asked = {**ASKED, **TOOLS, **wish(ANSWERS["one call"].recited(stream=True))}
    with client.messages.create(**asked, stream=True) as stream:
        pieces = [
            event.delta.partial_json
            for event in stream
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta"
        ]
    assert len(pieces) > 2
    assert "".join(pieces) == LIMA.arguments


def test_no_two_pieces_of_content_are_open_at_once(client: Anthropic) -> None:
    asked = {**ASKED, **TOOLS, **wish(ANSWERS["two calls in turns"].recited(stream=True))}
    with client.messages.create(**asked, stream=True) as stream:
        told = [(event.type, event.index) for event in stream if hasattr(event, "index")]
    opened: list[int] = []
    for kind, index in told:
        if kind == "content_block_start":
            assert not opened
            opened.append(index)
        assert opened == [index]
        if kind == "content_block_stop":
            opened.pop()
    assert not opened


def test_a_tool_loop_by_hand(client: Anthropic, rogue: RogueProcess, name: str) -> None:
    calls, last = ANSWERS["two calls"], ChatAnswer(text="18 and 12 degrees.")
    messages: list[MessageParam] = [{"role": "user", "content": "The weather in Lima and Quito?"}]
    asked: dict[str, Any] = {**ASKED, **TOOLS, **wish(calls.recited(stream=True, exchange_id=f"{name}-1"))}
    first = streamed(client, **{**asked, "messages": messages})
    results: list[Any] = [
        {"type": "tool_result", "tool_use_id": "call_1", "content": "18 degrees"},
        {
            "type": "tool_result",
            "tool_use_id": "call_2",
            "content": [{"type": "text", "text": "down"}],
            "is_error": True,
        },
        {"type": "text", "text": "Quickly, please."},
    ]
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    again = {**asked, "messages": messages, **wish(last.recited(stream=False, exchange_id=f"{name}-2"))}
    assert facts(client.messages.create(**again))["content"] == [{"type": "text", "text": "18 and 12 degrees."}]

    assert sent(rogue, f"{name}-1")["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "The weather of a city.",
                "parameters": WEATHER["input_schema"],
            },
        },
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}},
    ]
    question, answer, *rest = sent(rogue, f"{name}-2")["messages"]
    assert question == {"role": "user", "content": "The weather in Lima and Quito?"}
    assert [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in answer["tool_calls"]
    ] == [(call.id, call.name, json.loads(call.arguments)) for call in calls.calls]
    assert rest == [
        {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
        {"role": "tool", "tool_call_id": "call_2", "content": "Error: down"},
        {"role": "user", "content": "Quickly, please."},
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_sdks_tool_runner_goes_round_until_there_is_an_answer(
    client: Anthropic, rogue: RogueProcess, name: str, stream: bool
) -> None:
    cities: list[str] = []

    @beta_tool
    def weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: its name.
        """
        cities.append(city)
        return f"{city}: 18 degrees"

    turns = (
        ANSWERS["a text and a call"],
        ChatAnswer(calls=(ToolCall("call_9", "weather", '{"city": "Cuzco"}'),), finish="tool_calls"),
        ChatAnswer(text="Both have 18 degrees."),
    )
    wishes = [turn.recited(stream=stream, exchange_id=f"{name}-{n}") for n, turn in enumerate(turns)]
    asked: dict[str, Any] = {**ASKED, **wish(*wishes), "tools": [weather], "stream": stream}
    last = client.beta.messages.tool_runner(**asked).until_done()
    assert last.content[0].model_dump()["text"] == "Both have 18 degrees."
    assert cities == ["Lima", "Cuzco"]
    roles = [message["role"] for message in sent(rogue, f"{name}-2")["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert sent(rogue, f"{name}-2")["messages"][2]["content"] == "Lima: 18 degrees"


CHOICES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "auto"}, {"tool_choice": "auto"}),
    ({"type": "any"}, {"tool_choice": "required"}),
    ({"type": "tool", "name": "weather"}, {"tool_choice": {"type": "function", "function": {"name": "weather"}}}),
    ({"type": "auto", "disable_parallel_tool_use": True}, {"tool_choice": "auto", "parallel_tool_calls": False}),
    ({"type": "any", "disable_parallel_tool_use": True}, {"tool_choice": "required", "parallel_tool_calls": False}),
]


@pytest.mark.parametrize(("choice", "chat"), CHOICES, ids=str)
def test_a_choice_of_tools_reaches_the_engine(
    client: Anthropic, rogue: RogueProcess, name: str, choice: Any, chat: dict[str, Any]
) -> None:
    answer = ANSWERS["one call"].recited(stream=False, exchange_id=name)
    message = client.messages.create(**ASKED, **TOOLS, tool_choice=choice, **wish(answer))
    assert message.stop_reason == "tool_use"
    body = sent(rogue, name)
    assert {key: body[key] for key in ("tool_choice", "parallel_tool_calls") if key in body} == chat


def test_no_tool_may_be_called_and_none_is(client: Anthropic, rogue: RogueProcess, name: str) -> None:
    message = client.messages.create(**ASKED, **TOOLS, tool_choice={"type": "none"}, **wish({"id": name}))
    assert message.stop_reason == "end_turn"
    assert sent(rogue, name)["tool_choice"] == "none"


STRICT_TOOLS: dict[str, Any] = {"tools": [{**WEATHER, "strict": True}]}
PLACE: Any = {"type": "json_schema", "schema": WEATHER["input_schema"]}
IGNORED: dict[str, tuple[dict[str, Any], ChatAnswer]] = {
    "any, and none": ({**TOOLS, "tool_choice": {"type": "any"}}, ChatAnswer(text="No.")),
    "this one, and none": ({**TOOLS, "tool_choice": {"type": "tool", "name": "now"}}, ChatAnswer(text="No.")),
    "this one, and another": ({**TOOLS, "tool_choice": {"type": "tool", "name": "now"}}, ANSWERS["one call"]),
    "none, and one": ({**TOOLS, "tool_choice": {"type": "none"}}, ANSWERS["one call"]),
    "one at a time, and two": (
        {**TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ANSWERS["two calls"],
    ),
    "a strict tool, and other arguments": (
        STRICT_TOOLS,
        ChatAnswer(calls=(ToolCall("c", "weather", '{"town": "Lima"}'),), finish="tool_calls"),
    ),
    "a schema, and no JSON": ({"output_config": {"format": PLACE}}, ChatAnswer(text="Lima")),
    "a schema, and other JSON": ({"output_config": {"format": PLACE}}, ChatAnswer(text='{"town": "Lima"}')),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("case", IGNORED)
def test_an_engine_that_ignores_what_was_asked_is_told_on(client: Anthropic, case: str, stream: bool) -> None:
    asked, answer = IGNORED[case]
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(client, stream, **{**ASKED, **asked, **wish(answer.recited(stream=stream))})
    assert caught.value.status_code == (200 if stream else 502)
    assert (told(caught.value)["type"], told(caught.value)["lumbre"]["code"]) == ("api_error", "engine_ignored_request")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_arguments_that_are_no_object_are_no_call(client: Anthropic, stream: bool) -> None:
    answer = ChatAnswer(calls=(ToolCall("c", "weather", '{"city": '),), finish="tool_calls")
    asked = {**ASKED, **TOOLS, **wish(answer.recited(stream=stream))}
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(client, stream, **asked)
    assert told(caught.value)["lumbre"]["code"] == "engine_failed"


def test_a_schema_is_kept_and_parsed(client: Anthropic, rogue: RogueProcess, name: str) -> None:
    answer = ChatAnswer(text='{"city": "Lima"}').recited(stream=False, exchange_id=name)
    message = client.messages.create(**ASKED, output_config={"format": PLACE}, **wish(answer))
    assert facts(message)["content"][0]["text"] == '{"city": "Lima"}'
    assert sent(rogue, name)["response_format"]["json_schema"] == {
        "name": "output",
        "strict": True,
        "schema": WEATHER["input_schema"],
    }


def test_tools_in_a_count_are_part_of_it(client: Anthropic) -> None:
    bare = client.messages.count_tokens(model="rogue", messages=HELLO)
    assert client.messages.count_tokens(model="rogue", messages=HELLO, **TOOLS).input_tokens > bare.input_tokens + 20
