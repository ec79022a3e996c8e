"""Which items an answer is made of, and the events that tell of each as it grows. Pure; `translation` feeds it.

Every item is added once, grows, and is done once. The message and the calls stay open until the end, since engines
interleave the calls that they make in one breath, and a text that was broken in two would be no JSON any more.
Reasoning is done when something else begins, so that a client can put it away; what is thought after that is an item
of its own. Items are numbered as they begin.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lumbre.wire.openai.calls import CallFragments
from lumbre.wire.openai.fold import MalformedReply
from lumbre.wire.responses.items import item_id, key_of

Event = dict[str, Any]
"""What is told of, but for its number; `type` first."""

TEXT, REFUSAL, THOUGHT = "output_text", "refusal", "reasoning_text"


@dataclass(slots=True)
class _Part:
    """A text of one kind."""

    kind: str
    pieces: list[str] = field(default_factory=list)
    logprobs: list[Mapping[str, Any]] = field(default_factory=list)

    def events(self, ending: str, fields: Mapping[str, Any]) -> Event:
        """One event of this text, `delta` or `done`."""
        return {"type": f"response.{self.kind}.{ending}", **fields}

    def told(self) -> dict[str, Any]:
        text = "".join(self.pieces)
        match self.kind:
            case "output_text":  # 1. what it says
                return {"type": TEXT, "text": text, "annotations": [], "logprobs": list(self.logprobs)}
            case "refusal":  # 2. why it says nothing
                return {"type": REFUSAL, "refusal": text}
            case _:  # 3. what it thinks
                return {"type": THOUGHT, "text": text}


class _TextItem:
    """A message, or reasoning: texts in parts."""

    def __init__(self, kind: str, response_id: str, number: int) -> None:
        self.kind = kind
        self.id = item_id(kind, response_id, number)
        self.number = number
        self.parts: list[_Part] = []
        self.put_away = False
        """It was done before the answer was."""

    @property
    def speaks(self) -> bool:
        """Whether one of its parts is plain text."""
        return any(part.kind == TEXT for part in self.parts)

    def begin(self) -> Event:
        return {"type": "response.output_item.added", "output_index": self.number, "item": self.told("in_progress")}

    def add(self, kind: str, text: str, logprobs: Sequence[Mapping[str, Any]] = ()) -> Iterator[Event]:
        """Let one of the parts grow; it begins if it is new. An empty text lets it begin and no more."""
        part = next((each for each in self.parts if each.kind == kind), None)
        if part is None:
            part = _Part(kind)
            yield {"type": "response.content_part.added", **self._place(len(self.parts)), "part": part.told()}
            self.parts.append(part)
        part.pieces.append(text)
        part.logprobs.extend(logprobs)
        if text:
            fields = {**self._place(self.parts.index(part)), "delta": text}
            yield part.events("delta", {**fields, "logprobs": list(logprobs)} if kind == TEXT else fields)

    def end(self, status: str) -> Iterator[Event]:
        for index, part in enumerate(self.parts):
            place, told = self._place(index), part.told()
            said = {key: value for key, value in told.items() if key in ("text", "refusal", "logprobs")}
            yield part.events("done", {**place, **said})
            yield {"type": "response.content_part.done", **place, "part": told}
        yield {"type": "response.output_item.done", "output_index": self.number, "item": self.told(status)}

    def told(self, status: str) -> dict[str, Any]:
        own: dict[str, Any] = {"role": "assistant"} if self.kind == "message" else {"summary": []}
        content = [part.told() for part in self.parts]
        return {"id": self.id, "type": self.kind, "status": status, **own, "content": content}

    def _place(self, content_index: int) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.number, "content_index": content_index}


class _CallItem:
    """A call of a tool."""

    def __init__(self, call_id: str, response_id: str, number: int) -> None:
        self.id = item_id("function_call", response_id, number)
        self.call_id = call_id
        self.number = number
        self.put_away = False
        self._names: list[str] = []
        self._arguments: list[str] = []

    def begin(self, name: str) -> Event:
        self._names.append(name)
        return {"type": "response.output_item.added", "output_index": self.number, "item": self.told("in_progress")}

    def add(self, name: str, arguments: str) -> Iterator[Event]:
        self._names.append(name)
        self._arguments.append(arguments)
        if arguments:
            yield {"type": "response.function_call_arguments.delta", **self._place(), "delta": arguments}

    def end(self, status: str) -> Iterator[Event]:
        told = self.told(status)
        said = {"name": told["name"], "arguments": told["arguments"]}
        yield {"type": "response.function_call_arguments.done", **self._place(), **said}
        yield {"type": "response.output_item.done", "output_index": self.number, "item": told}

    def told(self, status: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "function_call",
            "status": status,
            "call_id": self.call_id,
            "name": "".join(self._names),
            "arguments": "".join(self._arguments),
        }

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.number}


class Output:
    """The items of one answer, from the deltas of a chat stream or a whole chat message."""

    def __init__(self, response_id: str) -> None:
        self._response_id = response_id
        self._items: list[_TextItem | _CallItem] = []
        self._thought: _TextItem | None = None
        """Reasoning that is not done yet: always the last item."""
        self._message: _TextItem | None = None
        self._fragments = CallFragments()
        self._calls: dict[int, _CallItem] = {}
        self._call_ids: dict[int, str] = {}
        self._logprobs: list[Mapping[str, Any]] = []
        """Of tokens whose text has not come yet."""

    def add(self, delta: Mapping[str, Any], logprobs: object = None) -> Iterator[Event]:
        """Take the next delta; yield what it lets happen.

        Args:
            logprobs: the choice's, of the chat API's shape; anything else tells nothing.

        Raises:
            MalformedReply: the delta is not of the chat API's shape.
        """
        entries = logprobs.get("content") if isinstance(logprobs, Mapping) else None
        self._logprobs.extend(each for each in entries or () if isinstance(each, dict))
        yield from self._think(_text(delta, "reasoning_content") or _text(delta, "reasoning"))
        yield from self._say(TEXT, _text(delta, "content"))
        yield from self._say(REFUSAL, _text(delta, "refusal"))
        for position, fragment in enumerate(_dicts(delta.get("tool_calls"), "tool_calls")):
            yield from self._call(fragment, position)

    def settle(self, *, cut: bool) -> Iterator[Event]:
        """End what is open. An answer of no items is a message of no words.

        Args:
            cut: the engine was stopped before it was done; so the last item that is open is incomplete.
        """
        if not self._items:
            yield from self._open_message()
        if self._message is not None and (not self._message.parts or self._message.speaks):
            yield from self._message.add(TEXT, "", self._taken_logprobs())
        for item in self._items:
            if not item.put_away:
                yield from item.end(self._status(item, cut=cut))

    def told(self, *, cut: bool) -> list[dict[str, Any]]:
        """The items as they are in the end."""
        return [item.told(self._status(item, cut=cut)) for item in self._items]

    def _status(self, item: _TextItem | _CallItem, *, cut: bool) -> str:
        last = next((each for each in reversed(self._items) if not each.put_away), None)
        return "incomplete" if cut and item is last else "completed"

    def _think(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if self._thought is None:
            self._thought = _TextItem("reasoning", self._response_id, len(self._items))
            self._items.append(self._thought)
            yield self._thought.begin()
        yield from self._thought.add(THOUGHT, text)

    def _say(self, kind: str, text: str) -> Iterator[Event]:
        if not text:
            return
        yield from self._open_message()
        if self._message is not None:
            yield from self._message.add(kind, text, self._taken_logprobs() if kind == TEXT else ())

    def _open_message(self) -> Iterator[Event]:
        yield from self._put_thought_away()
        if self._message is None:
            self._message = _TextItem("message", self._response_id, len(self._items))
            self._items.append(self._message)
            yield self._message.begin()

    def _call(self, fragment: Mapping[str, Any], position: int) -> Iterator[Event]:
        taken = self._fragments.take(fragment, position)
        if taken is None:
            raise MalformedReply(f"a call of the index {str(fragment.get('index'))[:20]}")
        number, name = taken.number, taken.name
        if not self._call_ids.setdefault(number, "") and isinstance(given := fragment.get("id"), str):
            self._call_ids[number] = given
        function = fragment.get("function")
        said = function if isinstance(function, dict) else {}
        _text(said, "name")
        arguments = _text(said, "arguments")
        if not (name or arguments):
            return
        if (call := self._calls.get(number)) is not None:
            yield from call.add(name, arguments)
            return
        yield from self._put_thought_away()
        call = _CallItem(self._new_call_id(number), self._response_id, len(self._items))
        self._items.append(call)
        self._calls[number] = call
        yield call.begin(name)
        yield from call.add("", arguments)

    def _new_call_id(self, number: int) -> str:
        """The engine's own id, if it has said one that is not another call's."""
        said = self._call_ids[number]
        if said and all(call.call_id != said for call in self._calls.values()):
            return said
        return f"call_{key_of(self._response_id)}_{number}"

    def _put_thought_away(self) -> Iterator[Event]:
        if self._thought is not None:
            yield from self._thought.end("completed")
            self._thought.put_away = True
            self._thought = None

    def _taken_logprobs(self) -> list[Mapping[str, Any]]:
        taken, self._logprobs = self._logprobs, []
        return taken


def _text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReply(f"{key} is no text")
    return value


def _dicts(value: object, name: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise MalformedReply(f"{name} is no list of objects")
    return value
