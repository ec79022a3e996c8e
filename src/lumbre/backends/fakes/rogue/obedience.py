"""What the rogue says when it obeys: what the last turn of the conversation tells it to. Pure; driven by `rogue.acts`.

For clients that decide by themselves what a request looks like, and let a test say no more than the prompt. In it a
line `call NAME {"argument": 1}` calls a tool, if one of that name is offered, and `say TEXT` says the text. What tools
have answered is told again. Everything else is answered with `Nothing was asked.`
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lumbre.backends.fakes.rogue.script import CREATED, MODEL, PROMPT_TOKENS

_CALL = re.compile(r"^call (?P<name>[\w-]+) (?P<arguments>\{.*\})$", re.MULTILINE)
_SAY = re.compile(r"^say (?P<text>.+)$", re.MULTILINE)
_PIECE = 7


@dataclass(frozen=True)
class Deed:
    """A text, or calls: name and arguments of each."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()

    @property
    def reason(self) -> str:
        return "tool_calls" if self.calls else "stop"

    @property
    def usage(self) -> dict[str, int]:
        spoken = max(1, len(self.text.split()) + sum(len(arguments) for _, arguments in self.calls))
        return {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": spoken,
            "total_tokens": PROMPT_TOKENS + spoken,
        }


def deed_of(asked: Mapping[str, Any]) -> Deed:
    """Read what a chat request tells the rogue to do."""
    turn = _last_turn(asked.get("messages") or [])
    results = [_text(message) for message in turn if message.get("role") == "tool"]
    if results:
        return Deed("The tools said: " + "; ".join(results))
    told = "\n".join(_text(message) for message in turn)
    offered = {tool["function"]["name"] for tool in asked.get("tools") or () if "function" in tool}
    calls = tuple((found["name"], found["arguments"]) for found in _CALL.finditer(told) if found["name"] in offered)
    said = _SAY.search(told)
    return Deed(calls=calls) if calls else Deed(said["text"] if said else "Nothing was asked.")


def last_words(asked: Mapping[str, Any]) -> str:
    """The text of what came after the assistant's last word, in either API's shape."""
    return "\n".join(_text(message) for message in _last_turn(asked.get("messages") or []))


def write_deed(deed: Deed) -> bytes:
    """Write it as one chat completion."""
    calls = [{"id": f"call_{n}", "type": "function", "function": _function(*call)} for n, call in enumerate(deed.calls)]
    message = {"role": "assistant", "content": deed.text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": deed.reason}
    return json.dumps({**_frame("chat.completion"), "choices": [choice], "usage": deed.usage}).encode()


def write_deed_events(deed: Deed, *, usage: bool) -> Iterator[bytes]:
    """Write it as a stream, the arguments of calls in pieces."""
    yield _event({"role": "assistant", "content": ""})
    for piece in _cut(deed.text):
        yield _event({"content": piece})
    for n, (name, arguments) in enumerate(deed.calls):
        yield _event({"tool_calls": [{"index": n, "id": f"call_{n}", "type": "function", "function": _function(name)}]})
        for piece in _cut(arguments):
            yield _event({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
    yield _event({}, deed.reason)
    if usage:
        yield _data({**_frame("chat.completion.chunk"), "choices": [], "usage": deed.usage})
    yield b"data: [DONE]\n\n"


def _last_turn(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came after the assistant's last word."""
    last = max((n for n, message in enumerate(messages) if message.get("role") == "assistant"), default=-1)
    return messages[last + 1 :]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _function(name: str, arguments: str = "") -> dict[str, str]:
    return {"name": name, "arguments": arguments}


def _cut(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "rogue-1", "object": kind, "created": CREATED, "model": MODEL}


def _event(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _data({**_frame("chat.completion.chunk"), "choices": [choice]})


def _data(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()
