"""The real Anthropic SDK before a gateway, and what a test tells the rogue through it. Used by the tests."""

import json
from dataclasses import dataclass
from typing import Any

from anthropic import Anthropic, APIStatusError, AsyncAnthropic
from anthropic.types import Message, MessageParam, ToolParam

from gateway_process import GatewayProcess
from wire_client import Call

HELLO: list[MessageParam] = [{"role": "user", "content": "hello"}]
ASKED: dict[str, Any] = {"model": "rogue", "max_tokens": 100, "messages": HELLO}
WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def sdk(url: str, *, key: str = "none") -> Anthropic:
    """The synchronous client. Told not to retry: a test wants to see the first answer."""
    return Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60)


def async_sdk(url: str) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=url, api_key="none", max_retries=0, timeout=60)


def wish(*turns: dict[str, Any]) -> dict[str, Any]:
    """What the rogue shall do, where it survives a translation; several: one for each turn of the conversation."""
    return {"metadata": {"user_id": json.dumps({"rogue": turns[0] if len(turns) == 1 else list(turns)})}}


def post(gateway: GatewayProcess, body: dict[str, Any], **more: Any) -> Call:
    """The same without the SDK, for what it hides."""
    return Call(f"{gateway.url}/v1/messages", {**ASKED, **body}, **more)


def told(error: APIStatusError) -> dict[str, Any]:
    """The error of a body, with its shape checked: this API's keys, and what Lumbre adds."""
    body: Any = error.body
    assert body["type"] == "error", body
    inside: dict[str, Any] = body["error"]
    assert inside["message"], body
    assert inside["lumbre"].keys() >= {"code", "decision", "switch", "valid", "param"}, body
    return inside


def facts(message: Message) -> dict[str, Any]:
    """What a Message says, without its id and without keys that are null."""
    said: dict[str, Any] = message.model_dump(exclude_none=True, exclude={"id"})
    said["usage"] = {name: count for name, count in said["usage"].items() if name.endswith("_tokens")}
    for block in said["content"]:
        block.pop("parsed_output", None)
    return said


@dataclass(frozen=True)
class ToolCall:
    """A call as an engine of the chat API makes it; `id` may be empty, as with engines that give none."""

    id: str
    name: str
    arguments: str

    def head(self, index: int) -> dict[str, Any]:
        function = {"name": self.name, "arguments": ""}
        return {"index": index, "type": "function", "function": function, **({"id": self.id} if self.id else {})}

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"type": "function", "function": function, **({"id": self.id} if self.id else {})}


@dataclass(frozen=True)
class ChatAnswer:
    """What an engine of the chat API answers, in both forms.

    Attributes:
        interleaved: the pieces of the calls come in turns, not one call after the other.
        more: further fields of the choice that ends it, such as vLLM's `stop_reason`.
    """

    thought: str = ""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    interleaved: bool = False
    cached_tokens: int = 0
    more: tuple[tuple[str, Any], ...] = ()

    def recited(self, *, stream: bool, exchange_id: str = "") -> dict[str, Any]:
        """The wish that has the rogue answer so."""
        return {"do": "recite", "text": self.stream() if stream else self.whole(), "id": exchange_id}

    def stream(self) -> str:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += [{"reasoning_content": piece} for piece in _pieces(self.thought)]
        deltas += [{"content": piece} for piece in _pieces(self.text)]
        deltas += [{"tool_calls": [fragment]} for fragment in self._fragments()]
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish, **dict(self.more)}]})
        chunks.append({"choices": [], "usage": self._usage()})
        lines = [json.dumps({**_FRAME, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
        return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])

    def whole(self) -> str:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.thought:
            message["reasoning_content"] = self.thought
        if self.calls:
            message["tool_calls"] = [call.whole() for call in self.calls]
        choice = {"index": 0, "message": message, "finish_reason": self.finish, **dict(self.more)}
        return json.dumps({**_FRAME, "object": "chat.completion", "choices": [choice], "usage": self._usage()})

    def _fragments(self) -> list[dict[str, Any]]:
        each = [
            [call.head(n), *(_fragment(n, piece) for piece in _pieces(call.arguments))] for n, call in self._numbered()
        ]
        if not self.interleaved:
            return [fragment for fragments in each for fragment in fragments]
        longest = max(map(len, each), default=0)
        return [fragments[step] for step in range(longest) for fragments in each if step < len(fragments)]

    def _numbered(self) -> list[tuple[int, ToolCall]]:
        return list(enumerate(self.calls))

    def _usage(self) -> dict[str, Any]:
        counts = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
        return {**counts, "prompt_tokens_details": {"cached_tokens": self.cached_tokens}}


_FRAME: dict[str, Any] = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "engine"}


def _fragment(index: int, arguments: str) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments}}


def _pieces(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]
