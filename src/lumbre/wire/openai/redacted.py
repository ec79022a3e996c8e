"""Where the words stand in a reply of chat or completions, for what was hidden from the upstream to be put back.
Pure; the passage to an outside API drives it.

Not touched: ids and the names of tools. Logprobs come back as they are: they tell of the placeholders' own tokens.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from lumbre.wire.json_strings import JsonStrings, Restorer
from lumbre.wire.json_text import parse
from lumbre.wire.openai.calls import CallFragments
from lumbre.wire.openai.story import index_of
from lumbre.wire.sse import DONE, Event, data_event

__all__ = ["RestoredStream", "Restorer", "restore_completion"]

Body = Mapping[str, Any]
_Change = Callable[[str], str]
_OfValue = Callable[[Any, _Change], Any]

_SPOKEN = ("content", "reasoning_content", "reasoning", "refusal")
"""The texts of a message that a model may write."""


def restore_completion(reply: Body, restore: Callable[[str], str], *, is_json: bool = False) -> dict[str, Any]:
    """Make a whole JSON reply whose text, reasoning, refusals and arguments are restored.

    Args:
        reply: an engine's; what in it is not of the API's shape stays as it is.
        restore: puts the values back into a text.
        is_json: the text was asked to be JSON, and stays it: a value that returns is escaped, as in arguments.
    """
    return _changed(reply, _JSON_REPLY if is_json else _REPLY, restore)


def _changed(source: Body, table: Mapping[str, _OfValue], change: _Change) -> dict[str, Any]:
    return {key: table[key](value, change) if key in table else value for key, value in source.items()}


def _text(value: Any, change: _Change) -> Any:
    return change(value) if isinstance(value, str) else value


def _object(table: Mapping[str, _OfValue]) -> _OfValue:
    return lambda value, change: _changed(value, table, change) if isinstance(value, dict) else value


def _list(of: _OfValue) -> _OfValue:
    return lambda value, change: [of(each, change) for each in value] if isinstance(value, list) else value


_PART = _object({"text": _text, "refusal": _text})


def _content(value: Any, change: _Change) -> Any:
    return [_PART(each, change) for each in value] if isinstance(value, list) else _text(value, change)


class _AtOnce:
    """A restorer of what can be restored as a whole."""

    def __init__(self, restore: _Change) -> None:
        self._restore = restore
        self._pieces: list[str] = []

    def feed(self, piece: str) -> str:
        self._pieces.append(piece)
        return ""

    def end(self) -> str:
        return self._restore("".join(self._pieces))


def _restored_arguments(value: Any, restore: _Change) -> Any:
    if not isinstance(value, str):
        return value
    strings = JsonStrings(lambda: _AtOnce(restore))
    return strings.feed(value) + strings.end()


_CALLED = _object({"arguments": _restored_arguments})
_OF_MESSAGE: Mapping[str, _OfValue] = {
    **dict.fromkeys(_SPOKEN, _content),
    "tool_calls": _list(_object({"function": _CALLED, "custom": _object({"input": _text})})),
    "function_call": _CALLED,
}
_REPLY: Mapping[str, _OfValue] = {"choices": _list(_object({"text": _text, "message": _object(_OF_MESSAGE)}))}
_JSON_REPLY: Mapping[str, _OfValue] = {
    "choices": _list(_object({"message": _object({**_OF_MESSAGE, "content": _restored_arguments})}))
}


class RestoredStream:
    """Restores one stream of chat completions or completions. It holds back no more than its restorers do.

    Args:
        make: makes a restorer for one text.
        is_json: the text was asked to be JSON, and stays it.
    """

    def __init__(self, make: Callable[[], Restorer], *, is_json: bool = False) -> None:
        self._make = make
        self._is_json = is_json
        self._choices: dict[int, _Choice] = {}
        self._head: dict[str, Any] = {}

    def __call__(self, event: Event) -> list[Event]:
        """Take the next event; return those that say as much as is certain, the event itself where nothing changed.

        What a choice has held back comes before its `finish_reason`, and before `[DONE]` at the latest. Of a stream
        that is cut off it is lost, since it is nothing but the beginning of a placeholder.
        """
        if event.data == DONE:
            return [*self._tails(self._choices), event]
        try:
            chunk = parse(event.data) if event.data is not None else None
        except ValueError:
            return [event]
        if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), list):
            return [event]
        return self._restored(event, chunk)

    def _restored(self, event: Event, chunk: dict[str, Any]) -> list[Event]:
        self._head = {key: value for key, value in chunk.items() if key not in ("choices", "usage", "timings")}
        changed = spoke = False
        finishes: dict[int, dict[str, Any]] = {}
        for part in chunk["choices"]:
            index = index_of(part) if isinstance(part, dict) else None
            if index is None:
                continue
            finishing = part.get("finish_reason") is not None
            if finishing:
                finishes[index] = part
            for holder, key, restorer in self._choices.setdefault(index, _Choice(self._make, self._is_json)).texts_of(
                part
            ):
                said, holder[key] = holder[key], restorer.feed(holder[key])
                changed = changed or holder[key] != said
                spoke = spoke or (finishing and said != "")
        tails = self._tails(finishes)
        if not tails or not spoke:
            return [*tails, _event(chunk) if changed else event]
        # The last words stand in the chunk that says it is the last, so that is said once more, after the tails.
        ends = [_silent(part) for part in finishes.values()]
        for part in finishes.values():
            part["finish_reason"] = None
        return [_event(chunk), *tails, _event({**self._head, "choices": ends})]

    def _tails(self, indices: Iterable[int]) -> list[Event]:
        """An event for each text that something of is held back, of choices that are known."""
        parts = [
            {"index": index, **said, "finish_reason": None}
            for index in indices
            for said in self._choices[index].tails()
        ]
        return [_event({**self._head, "choices": [part]}) for part in parts]


class _Choice:
    """The texts of one choice, each with its restorer and with the way in which a chunk says more of it."""

    def __init__(self, make: Callable[[], Restorer], is_json: bool) -> None:
        self._make = make
        self._of_content = self._strings if is_json else make
        self._texts: dict[str | int, tuple[Restorer, _Said]] = {}
        self._fragments = CallFragments()

    def texts_of(self, part: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Restorer]]:
        """Where in a chunk's part texts stand, as objects and keys, and what restores them."""
        delta = part.get("delta")
        if not isinstance(delta, dict):
            if isinstance(part.get("text"), str):
                yield part, "text", self._restorer("text", self._make, lambda tail: {"text": tail})
            return
        for name in _SPOKEN:
            if isinstance(delta.get(name), str):
                make = self._of_content if name == "content" else self._make
                yield delta, name, self._restorer(name, make, _delta_of(name))
        calls = delta.get("tool_calls")
        for position, fragment in enumerate(calls if isinstance(calls, list) else ()):
            taken = self._fragments.take(fragment, position) if isinstance(fragment, dict) else None
            function = fragment.get("function") if taken is not None else None
            if taken is not None and isinstance(function, dict) and isinstance(function.get("arguments"), str):
                yield function, "arguments", self._restorer(taken.number, self._strings, _fragment_of(fragment))

    def tails(self) -> Iterator[dict[str, Any]]:
        """What is held back, as a chunk's part says it. Nothing is, from then on."""
        for restorer, said in self._texts.values():
            if tail := restorer.end():
                yield said(tail)

    def _restorer(self, name: str | int, make: Callable[[], Restorer], said: "_Said") -> Restorer:
        if name not in self._texts:
            self._texts[name] = (make(), said)
        return self._texts[name][0]

    def _strings(self) -> Restorer:
        return JsonStrings(self._make)


_Said = Callable[[str], dict[str, Any]]


def _delta_of(name: str) -> _Said:
    return lambda tail: {"delta": {name: tail}}


def _fragment_of(first: Body) -> _Said:
    """With the number that the engine gave to the call, if it gave one."""
    place = {"index": first["index"]} if "index" in first else {}
    return lambda tail: {"delta": {"tool_calls": [{**place, "function": {"arguments": tail}}]}}


def _silent(part: Body) -> dict[str, Any]:
    """The end of a choice, without words."""
    said: dict[str, Any] = {"delta": {}} if isinstance(part.get("delta"), dict) else {"text": ""}
    return {"index": part.get("index", 0), **said, "finish_reason": part["finish_reason"]}


def _event(chunk: Body) -> Event:
    try:
        data = orjson.dumps(chunk)
    except orjson.JSONEncodeError:
        data = json.dumps(chunk).encode()  # what a strict writer refuses was read all the same
    return Event(data_event(data), data)
