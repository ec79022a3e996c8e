"""The doors as the real SDKs use them: one question for each, and what the client made of the answer. Used by the flow
tests.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from anthropic import Anthropic
from openai import OpenAI

from flow.flow_house import House, Json

CLIENTS_KEY = "sk-of-the-client"
UNBOUND: Json = {"model": "auto", "extra_body": {}}
"""For `asked`: the question is anybody's to answer."""
HINTS: Json = {"lumbre": {"affinity": "C", "external": "allow"}}
PLACE: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


_HELLO: Json = {"model": "tier-c", "extra_body": HINTS, "messages": [{"role": "user", "content": "hello"}]}


@dataclass(frozen=True)
class Told:
    """What a client was told, in whichever API's words."""

    text: str
    calls: tuple[tuple[str, Json], ...]
    tokens: tuple[int, int]
    ended: str


def _chat(gpt: OpenAI, _claude: Anthropic, stream: bool, **asked: Any) -> Told:
    given: dict[str, Any] = {**_HELLO, **asked}
    if stream:
        with gpt.chat.completions.stream(**given, stream_options={"include_usage": True}) as events:
            reply: Any = events.get_final_completion()
    else:
        reply = gpt.chat.completions.create(**given)
    (choice,) = reply.choices
    calls = tuple((call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or ())
    tokens = (reply.usage.prompt_tokens, reply.usage.completion_tokens)
    return Told(choice.message.content or "", calls, tokens, choice.finish_reason)


def _responses(gpt: OpenAI, _claude: Anthropic, stream: bool, **asked: Any) -> Told:
    given: dict[str, Any] = {"model": "tier-c", "extra_body": HINTS, "input": "hello", **asked}
    if stream:
        *_, last = gpt.responses.create(**given, stream=True)
        assert last.type == "response.completed", last
        reply = last.response
    else:
        reply = gpt.responses.create(**given)
    calls = tuple((item.name, json.loads(item.arguments)) for item in reply.output if item.type == "function_call")
    assert reply.usage is not None
    return Told(reply.output_text, calls, (reply.usage.input_tokens, reply.usage.output_tokens), str(reply.status))


def _messages(_gpt: OpenAI, claude: Anthropic, stream: bool, **asked: Any) -> Told:
    given: dict[str, Any] = {**_HELLO, "max_tokens": 99, **asked}
    if stream:
        with claude.messages.stream(**given) as events:
            reply = events.get_final_message()
    else:
        reply = claude.messages.create(**given)
    text = "".join(block.text for block in reply.content if block.type == "text")
    calls = tuple((block.name, dict(block.input)) for block in reply.content if block.type == "tool_use")
    return Told(text, calls, (reply.usage.input_tokens, reply.usage.output_tokens), str(reply.stop_reason))


_DOORS: Mapping[str, Callable[..., Told]] = {"chat": _chat, "responses": _responses, "messages": _messages}
TOOLS: Mapping[str, list[Json]] = {
    "chat": [{"type": "function", "function": {"name": "lookup", "description": "Looks up.", "parameters": PLACE}}],
    "responses": [{"type": "function", "name": "lookup", "description": "Looks up.", "parameters": PLACE}],
    "messages": [{"name": "lookup", "description": "Looks up.", "input_schema": PLACE}],
}

DOORS = tuple(_DOORS)
Ask = Callable[..., Told]


def sdk_clients(house: House, headers: Mapping[str, str] | None = None) -> Iterator[Ask]:
    """The generator of a fixture: `ask(door, stream, **asked)`, bound to tier C unless `asked` says otherwise.

    The clients are told not to retry: a test wants to see the first answer.
    """
    given: dict[str, Any] = {"api_key": CLIENTS_KEY, "max_retries": 0, "timeout": 60, "default_headers": headers}
    with ExitStack() as stack:
        gpt = stack.enter_context(OpenAI(base_url=f"{house.url}/v1", **given))
        claude = stack.enter_context(Anthropic(base_url=house.url, **given))
        yield lambda door, stream=False, **asked: _DOORS[door](gpt, claude, stream, **asked)
