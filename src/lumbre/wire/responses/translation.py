"""How a chat completion is told as OpenAI's Responses API tells it, as a stream or as one object. Pure; the relay asks.

    created  in_progress  ( item added  part added  delta*  done  part done  item done )*  completed | incomplete

The order within an item is fixed; which item grows when is the engine's affair (see `output`). The last event carries
the Response that a call without `stream` has. A whole completion does not say what came first, so its Response has the
reasoning, then the message, then the calls. A stream that begins them in another order has its items in that order.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from lumbre.wire.openai.fold import MalformedReply
from lumbre.wire.openai.story import index_of
from lumbre.wire.responses import reply
from lumbre.wire.responses.output import Event, Output


class ResponseTranslation:
    """Tells one chat completion; a new one for each reply. Of several alternatives only the first is told.

    Args:
        response_id: `resp_` and what no other response has; the ids of the items are made of it.
        created_at: Unix seconds.
        model: what answers.
        request: the body that was asked; the Response repeats what the API says it does.
    """

    def __init__(self, response_id: str, created_at: int, model: str, request: Mapping[str, Any]) -> None:
        self._id = response_id
        self._created_at = created_at
        self._model = model
        self._asked = reply.asked(request)
        self._begun = False
        self.sequence_number = 0
        """The number of the next event."""
        self._output = Output(response_id)
        self._settled: list[dict[str, Any]] | None = None
        self._closing: list[Event] = []
        self._finish_reason: str | None = None
        self._usage: object = None

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """The events that one chunk of the engine's stream becomes, ready for the wire.

        Raises:
            MalformedReply: the chunk is not of the chat API's shape.
        """
        return self._written([*self._opening(), *self._take(chunk, "delta")])

    def ending(self) -> bytes:
        """The events that end the stream; asked once, when the engine has said that it finished."""
        opening = [*self._opening()]
        result = self.result
        last = {"type": f"response.{result['status']}", "response": result}
        return self._written([*opening, *self._closing, last])

    def reply(self, completion: Mapping[str, Any]) -> bytes:
        """The whole Response that a whole chat completion becomes; may be asked again.

        Raises:
            MalformedReply: the completion is not of the chat API's shape.
        """
        if not completion.get("choices"):
            raise MalformedReply("there is no choice in it")
        self._output, self._settled = Output(self._id), None
        for _event in self._take(completion, "message"):
            continue
        return _dumped(self.result)

    @property
    def result(self) -> dict[str, Any]:
        """The Response, once everything has been taken; `ending` tells it, so it may be kept before it is told."""
        if self._settled is None:
            self._closing = [*self._output.settle(cut=reply.was_cut(self._finish_reason))]
            self._settled = self._output.told(cut=reply.was_cut(self._finish_reason))
        return {
            **self._head(),
            **reply.ended(self._finish_reason),
            "output": self._settled,
            "usage": reply.cost(self._usage),
        }

    @property
    def output_items(self) -> list[dict[str, Any]]:
        """The items of `result`."""
        items: list[dict[str, Any]] = self.result["output"]
        return items

    def unstore(self) -> None:
        """Say `store: false` from now on: it was asked for, and could not be done."""
        self._asked["store"] = False

    def _head(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created_at,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": self._model,
            "output": [],
            "usage": None,
            **self._asked,
        }

    def _opening(self) -> Iterator[Event]:
        if not self._begun:
            self._begun = True
            yield {"type": "response.created", "response": self._head()}
            yield {"type": "response.in_progress", "response": self._head()}

    def _take(self, source: Mapping[str, Any], field: str) -> Iterator[Event]:
        """Take a chunk or a whole completion; `field` is where its choices have what they say."""
        if source.get("usage") is not None:
            self._usage = source["usage"]
        choices = source.get("choices")
        if not isinstance(choices, list | None) or not all(isinstance(each, dict) for each in choices or ()):
            raise MalformedReply("choices is no list of objects")
        for choice in choices or ():
            index = index_of(choice)
            if index is None:
                raise MalformedReply(f"an index of {str(choice.get('index'))[:20]}")
            said = choice.get(field) if field == "delta" else _numbered(choice.get(field))
            if index == 0 and isinstance(said, dict):
                yield from self._output.add(said, choice.get("logprobs"))
            if index == 0 and isinstance(reason := choice.get("finish_reason"), str):
                self._finish_reason = reason

    def _written(self, events: Iterable[Event]) -> bytes:
        written = []
        for event in events:
            data = _dumped({**event, "sequence_number": self.sequence_number})
            written.append(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), data))
            self.sequence_number += 1
        return b"".join(written)


def _numbered(message: object) -> object:
    """A whole message with its calls numbered: whatever the engine calls them, each is a call of its own."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(calls, list):
        return message
    numbered = [{**call, "index": n} if isinstance(call, dict) else call for n, call in enumerate(calls)]
    return {**message, "tool_calls": numbered}


def _dumped(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:  # nested too deep, or half of a character
        raise MalformedReply(str(error)) from error
