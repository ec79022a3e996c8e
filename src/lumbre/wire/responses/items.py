"""How the items of a conversation become chat messages, and which of them are kept for the next turn. Pure.

An engine hears each turn as one message: the calls that a model made in one breath, and what it said before them, are
items of their own here and one assistant message there. Reasoning is left out: chat templates want none of old turns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumbre.core.errors import CallerError

Item = Mapping[str, Any]

HISTORY = "previous_response_id"
"""The place of an item that an earlier response left."""

TEXT_PARTS = ("input_text", "output_text", "text")
"""The types of parts that are plain text, whoever said it."""

_CHAT_ROLES = {"developer": "system"}
"""Roles that chat templates of open models do not know, and what they call them."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An item, or the message it became, and the path of the caller's field that it comes from."""

    told: Item
    place: str


def kind_of(item: Item) -> str:
    """An item's type; messages and references may leave it out."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "item_reference" if "id" in item and "role" not in item else "message"


def items_of(body: Mapping[str, Any]) -> list[Placed]:
    """The request's own input items; a plain text is a user's message."""
    told = body.get("input")
    if isinstance(told, str):
        return [Placed({"type": "message", "role": "user", "content": told}, "input")]
    return [Placed(item, f"input[{i}]") for i, item in enumerate(told or ())]


def resolved(items: Iterable[Placed], known: Mapping[str, Item]) -> Iterator[Placed]:
    """Put the kept items in the place of references to them.

    Raises:
        CallerError: 400 `item_not_found`; nothing of that id is known.
    """
    for each in items:
        if kind_of(each.told) != "item_reference":
            yield each
        elif (found := known.get(each.told["id"])) is not None:
            yield Placed(found, each.place)
        else:
            message = f"{each.place}.id: no item {each.told['id']!r} is kept here; send the item itself"
            raise CallerError(message, param=f"{each.place}.id", code="item_not_found")


def messages_of(items: Iterable[Placed]) -> list[Placed]:
    """The chat messages that items become, each with the place of its first item.

    Raises:
        CallerError: 400; an output has no call before it, or a part lacks what it is about.
    """
    talk = _Talk()
    for each in items:
        talk.add(each)
    return talk.messages


class _Talk:
    def __init__(self) -> None:
        self.messages: list[Placed] = []
        self._called: set[str] = set()
        self._open: dict[str, Any] | None = None
        """The assistant message that the next call still belongs to."""

    def add(self, placed: Placed) -> None:
        item, place = placed.told, placed.place
        match kind_of(item):
            case "message" if item["role"] == "assistant":  # 1. what the model said
                self._say(_said(item["content"], place), place)
            case "message":  # 2. what it was told
                role = _CHAT_ROLES.get(item["role"], item["role"])
                self._put({"role": role, "content": _content(item["content"], place)}, place)
            case "function_call":  # 3. what it called, in the same breath as what it said
                self._call(item, place)
            case "function_call_output":  # 4. what came of that
                self._answer(item, place)
            case _:  # 5. reasoning
                return

    def _put(self, message: dict[str, Any], place: str) -> None:
        self.messages.append(Placed(message, place))
        self._open = message if message["role"] == "assistant" else None

    def _say(self, text: str, place: str) -> None:
        if self._open is not None and self._open["content"] is None:
            self._open["content"] = text  # said after its calls, and still before anybody answered them
        else:
            self._put({"role": "assistant", "content": text}, place)

    def _call(self, item: Item, place: str) -> None:
        if self._open is None:
            self._put({"role": "assistant", "content": None}, place)
        if self._open is not None:
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            self._open.setdefault("tool_calls", []).append(call)
        self._called.add(item["call_id"])

    def _answer(self, item: Item, place: str) -> None:
        call_id = item["call_id"]
        if call_id not in self._called:
            message = f"{place}.call_id: no `function_call` before it has the call_id {call_id!r}; send the call too"
            raise CallerError(message, param=f"{place}.call_id", code="invalid_value")
        output = item["output"]
        text = output if isinstance(output, str) else "\n".join(_texts(output, f"{place}.output"))
        self._put({"role": "tool", "tool_call_id": call_id, "content": text}, place)


def _said(content: str | Sequence[Item], place: str) -> str:
    return content if isinstance(content, str) else "".join(_texts(content, f"{place}.content"))


def _content(content: str | Sequence[Item], place: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = [_chat_part(part, f"{place}.content[{p}]") for p, part in enumerate(content)]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def _chat_part(part: Item, place: str) -> dict[str, Any]:
    if part["type"] != "input_image":
        return {"type": "text", "text": _text(part, place)}
    if part.get("image_url") is None:
        raise _missing(f"{place}.image_url", "a part of the type `input_image` needs it")
    image = {"url": part["image_url"]}
    if part.get("detail") is not None:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}


def _texts(parts: Sequence[Item], place: str) -> list[str]:
    return [_text(part, f"{place}[{p}]") for p, part in enumerate(parts)]


def _text(part: Item, place: str) -> str:
    field = "text" if part["type"] in TEXT_PARTS else "refusal"
    text = part.get(field)
    if not isinstance(text, str):
        raise _missing(f"{place}.{field}", f"a part of the type `{part['type']}` needs it")
    return text


def _missing(field: str, why: str) -> CallerError:
    return CallerError(f"{field}: {why}", param=field, code="missing_field")


def key_of(response_id: str) -> str:
    """What a response's id and the ids of its items have in common."""
    return response_id.removeprefix("resp_")


_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def item_id(kind: str, response_id: str, number: int | str) -> str:
    """The id of a response's item; the same whenever it is asked for."""
    return f"{_PREFIXES[kind]}_{key_of(response_id)}_{number}"


def owner_of(item: str) -> str:
    """The response that an item of ours belongs to, told from the item's id; of no use for a foreign id."""
    return "resp_" + item.partition("_")[2].rpartition("_")[0]


def kept_items(body: Mapping[str, Any], response_id: str, known: Mapping[str, Item]) -> list[dict[str, Any]]:
    """The request's own input as it is kept: every item whole, with a type and an id.

    Args:
        body: a request that `to_chat` has taken.
        known: as for `to_chat`.
    """
    return [
        _kept(each.told, item_id(kind_of(each.told), response_id, f"in{number}"))
        for number, each in enumerate(resolved(items_of(body), known))
    ]


def _kept(item: Item, given_id: str) -> dict[str, Any]:
    kind = kind_of(item)
    kept = {**item, "type": kind, "id": item.get("id") or given_id}
    if kind == "message" and isinstance(text := item["content"], str):
        part = {"type": "output_text", "annotations": []} if item["role"] == "assistant" else {"type": "input_text"}
        kept["content"] = [{**part, "text": text}]
    if kind != "reasoning":
        kept.setdefault("status", "completed")
    return kept
