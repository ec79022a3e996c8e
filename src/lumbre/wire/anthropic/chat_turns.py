"""How the conversation of a chat request reads as turns of the Messages API. Pure; `from_chat` asks.

`turns` is the way there; this is the way back. What tools came to is a message of its own there and a part of the
user's turn here: at its beginning, and in the turn right after the calls. Neighbouring messages of one side are one
turn. Here nobody may say nothing, so blank texts are left out.

What the system says first is the request's `system`. What it says later stays at its place, in the user's turn, marked
as `turns` marks it for engines: at the beginning it would hold before its time, and a conversation that it ends would
end with the assistant, whose words this API would go on with. Only the newest models take a turn of the system's own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson

Message = Mapping[str, Any]
Block = dict[str, Any]

_SYSTEM = ("system", "developer")
_MARK = "<system>\n{}\n</system>"
_PARAGRAPH = "\n\n"
_MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")

RESULT = -1
"""Stands in `Matching.ids` for the number of a call where the message is a result."""


@dataclass(frozen=True)
class Matching:
    """Which result belongs to which call.

    Attributes:
        ids: by the number of the message and of the call in it (or `RESULT`): one that this API takes, the same for a
            call and its result, and never twice.
        loose: the paths of calls without a result in the turn after them, and of results without a call.
    """

    ids: Mapping[tuple[int, int], str]
    loose: Sequence[str]


def matching_of(messages: Sequence[Message]) -> Matching:
    """Match calls and results by their ids; engines that count their calls give an id again, in a later turn."""
    ids: dict[tuple[int, int], str] = {}
    waiting: dict[object, list[tuple[int, int]]] = {}
    loose: list[str] = []
    taken: set[str] = set()
    for m, message in enumerate(messages):
        if message["role"] == "assistant":
            if m and messages[m - 1]["role"] != "assistant":
                loose += _paths(waiting)
                waiting = {}
            for c, call in enumerate(message.get("tool_calls") or ()):
                ids[m, c] = _fresh(call.get("id") or "", taken)
                waiting.setdefault(call.get("id"), []).append((m, c))
        elif message["role"] == "tool":
            if places := waiting.get(message.get("tool_call_id")):
                ids[m, RESULT] = ids[places.pop(0)]
            else:
                loose.append(f"messages[{m}].tool_call_id")
    return Matching(ids, [*loose, *_paths(waiting)])


def _paths(waiting: Mapping[object, Sequence[tuple[int, int]]]) -> Iterator[str]:
    return (f"messages[{m}].tool_calls[{c}]" for places in waiting.values() for m, c in places)


def _fresh(said: str, taken: set[str]) -> str:
    plain = _NOT_IN_IDS.sub("_", said) or "call"
    fresh, number = plain, 1
    while fresh in taken:
        number += 1
        fresh = f"{plain}_{number}"
    taken.add(fresh)
    return fresh


def turns_of(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The `system` ("" for none) and the `messages` of a conversation that `chat_fields` has nothing against."""
    matching = matching_of(messages)
    first = next((m for m, message in enumerate(messages) if message["role"] not in _SYSTEM), len(messages))
    system = _PARAGRAPH.join(filter(None, map(_words, messages[:first])))
    turns: list[dict[str, Any]] = []
    said = ((role, block) for m in range(first, len(messages)) for role, block in _said(messages[m], m, matching))
    for role, group in groupby(said, key=lambda each: each[0]):
        blocks = [block for _, block in group]
        turns.append({"role": role, "content": sorted(blocks, key=lambda block: block["type"] != "tool_result")})
    if not turns:
        return "", [{"role": "user", "content": [_text(system)]}]
    last = turns[-1]["content"][-1]
    if turns[-1]["role"] == "assistant" and last["type"] == "text":
        last["text"] = last["text"].rstrip()  # the API turns down a beginning of an answer that ends in white space
    return system, turns


def says_nothing(messages: Sequence[Message]) -> bool:
    """Whether nothing that this API could be told is in a conversation."""
    return not any(
        message["role"] == "tool" or message.get("tool_calls") or any(True for _ in _spoken(message))
        for message in messages
    )


def source_of(part: Mapping[str, Any]) -> dict[str, str] | None:
    """The source of an `image_url` part; None where it is none that this API takes."""
    given = part.get("image_url")
    url = given.get("url") if isinstance(given, Mapping) else None
    if not isinstance(url, str):
        return None
    if url[:8].lower().startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    head, _, data = url.partition(",")
    kind, *details = head.lower().split(";")
    media_type = kind.removeprefix("data:").replace("image/jpg", "image/jpeg")
    if not kind.startswith("data:") or "base64" not in details or media_type not in _MEDIA_TYPES or not data:
        return None
    return {"type": "base64", "media_type": media_type, "data": data}


def input_object(arguments: str) -> dict[str, Any] | None:
    """The arguments of a call in the history; None where they are no JSON object. No text is an empty object."""
    try:
        value = orjson.loads(arguments) if arguments.strip() else {}
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _said(message: Message, m: int, matching: Matching) -> Iterator[tuple[str, Block]]:
    """The blocks that a message becomes, each with the role of the turn that it stands in."""
    match message["role"]:
        case "assistant":
            yield from (("assistant", block) for block in (*_spoken(message), *_calls(message, m, matching)))
        case "tool":
            yield "user", _result(message, matching.ids[m, RESULT])
        case "user":
            yield from (("user", block) for block in _spoken(message))
        case _:
            if words := _words(message):
                yield "user", _text(_MARK.format(words))


def _spoken(message: Message) -> Iterator[Block]:
    yield from _parts(message.get("content"))
    if message["role"] == "assistant" and isinstance(refusal := message.get("refusal"), str):
        yield from _parts(refusal)


def _calls(message: Message, m: int, matching: Matching) -> Iterator[Block]:
    for c, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        arguments = input_object(function["arguments"])
        yield {"type": "tool_use", "id": matching.ids[m, c], "name": function["name"], "input": arguments}


def _result(message: Message, identity: str) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": identity}
    content = message.get("content")
    if isinstance(content, str):
        return {**result, "content": content} if content.strip() else result
    return {**result, "content": blocks} if (blocks := [*_parts(content)]) else result


def _parts(content: object) -> Iterator[Block]:
    """The blocks of a message's content, without the blank texts."""
    if isinstance(content, str) and content.strip():
        yield _text(content)
    for part in content if isinstance(content, list) else ():
        if part["type"] == "image_url":
            yield {"type": "image", "source": source_of(part)}
        elif isinstance(words := part.get(part["type"]), str) and words.strip():
            yield _text(words)


def _words(message: Message) -> str:
    return _PARAGRAPH.join(block["text"] for block in _parts(message.get("content")))


def _text(words: str) -> Block:
    return {"type": "text", "text": words}
