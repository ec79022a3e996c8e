"""How the conversation of a Messages request reads as chat messages. Pure; `request` asks.

The two APIs cut a conversation differently. A result of a tool is a part of the user's turn there and a message of its
own here, and must follow the call at once; pictures cannot stand in it here, so they come in the user's message after
it. Neighbouring turns of one role are one turn there; many chat templates refuse to see two.

There the system may speak up in the middle of a conversation, and coding agents make it do so in every request. Many
chat templates take a system's message at the beginning only and refuse the whole request otherwise. So what it says
later comes in the user's message at its place, marked; at the beginning it would make the engine read all again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson

Block = Mapping[str, Any]
Message = dict[str, Any]

_PARAGRAPH = "\n\n"
_MARK = "<system>\n{}\n</system>"


def messages_of(system: object, turns: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The chat messages of a conversation whose types and sense have been checked.

    Args:
        system: a text, a list of text blocks, or None.
        turns: `messages`.
    """
    first = next((n for n, turn in enumerate(turns) if turn["role"] != "system"), len(turns))
    spoken = [*_blocks(system or []), *(block for turn in turns[:first] for block in _blocks(turn["content"]))]
    messages: list[Message] = [{"role": "system", "content": _paragraphs(spoken)}] if spoken else []
    for role, group in groupby(turns[first:], key=_role):
        blocks = [block for turn in group for block in _said(turn)]
        messages += _TURNS[role](blocks)
    return messages


def has_system_turn(turns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the system speaks in a turn of its own, as well as in `system`."""
    return any(turn["role"] == "system" for turn in turns)


def _role(turn: Mapping[str, Any]) -> str:
    """In whose message a turn comes."""
    return "assistant" if turn["role"] == "assistant" else "user"


def _said(turn: Mapping[str, Any]) -> list[Block]:
    blocks = _blocks(turn["content"])
    if turn["role"] == "system":
        return [{"type": "text", "text": _MARK.format(_paragraphs(blocks))}]
    return blocks


def _user(blocks: Sequence[Block]) -> Iterator[Message]:
    results = [block for block in blocks if block["type"] == "tool_result"]
    said = [block for block in blocks if block["type"] != "tool_result"]
    yield from map(_result, results)
    parts = [*_pictures(results), *said]
    if parts and all(block["type"] == "text" for block in parts):
        yield {"role": "user", "content": _paragraphs(parts)}
    elif parts:
        yield {"role": "user", "content": [_part(block) for block in parts]}


def _assistant(blocks: Sequence[Block]) -> Iterator[Message]:
    # What the model said is put together as it was said; its thoughts stay behind.
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
    if calls:
        yield {"role": "assistant", "content": text or None, "tool_calls": calls}
    else:
        yield {"role": "assistant", "content": text}


_TURNS = {"user": _user, "assistant": _assistant}


def _call(block: Block) -> dict[str, Any]:
    arguments = orjson.dumps(block["input"]).decode()
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _result(block: Block) -> Message:
    inside = _blocks(block.get("content") or "")
    text = _paragraphs(each for each in inside if each["type"] == "text")
    pictures = sum(each["type"] == "image" for each in inside)
    if pictures:
        note = f"({pictures} image{'s' if pictures > 1 else ''}: see the next message)"
        text = _PARAGRAPH.join(filter(None, (text, note)))
    if block.get("is_error"):
        text = f"Error: {text}" if text else "Error"
    return {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}


def _pictures(results: Iterable[Block]) -> Iterator[Block]:
    for result in results:
        pictures = [each for each in _blocks(result.get("content") or "") if each["type"] == "image"]
        if pictures:
            yield {"type": "text", "text": f"From the result of the tool call {result['tool_use_id']}:"}
            yield from pictures


def _part(block: Block) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    source = block["source"]
    url = source["url"] if source["type"] == "url" else f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": url}}


def _blocks(content: Any) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _paragraphs(blocks: Iterable[Block]) -> str:
    return _PARAGRAPH.join(block["text"] for block in blocks)
