"""How a request for embeddings is cut into calls, how their replies become one again, and what an engine's refusal of
a text means. Pure; the relay of embeddings drives it.

An engine that works on after its caller has gone is asked in several calls, so that a client that leaves costs one of
them. What engines ignore is made good here: floats become base64 and base64 floats, whichever the client asked for.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from lumbre.core.errors import CallerError
from lumbre.wire.openai.story import MalformedReply, Usage

Body = Mapping[str, Any]

_TOKEN_BYTES = 4
"""What a token counts for where inputs are measured in bytes: about a token's length in English text."""

_TOO_LARGE = re.compile(r"input \((\d+) tokens\) is too large to process.*?batch size: (\d+)", re.DOTALL)
_NO_EMBEDDINGS = re.compile(r"does not support embeddings")


def batches(body: Body, most_bytes: int) -> Iterator[dict[str, Any]]:
    """Cut a request into calls, in the order of its inputs.

    Args:
        body: a request whose types have been checked. Fields that are null are left out: to the API they are as good as
            not there, and engines stumble over them.
        most_bytes: of text in one call; a longer text has a call of its own.
    """
    body = {key: value for key, value in body.items() if value is not None}
    given = body["input"]
    if _is_one(given):
        yield body
        return
    call: list[Any] = []
    size = 0
    for each in given:
        more = _size(each)
        if call and size + more > most_bytes:
            yield {**body, "input": call}
            call, size = [], 0
        call.append(each)
        size += more
    yield {**body, "input": call}


class Merge:
    """Makes one reply of those to the calls of a request.

    Args:
        body: the whole request.
    """

    def __init__(self, body: Body) -> None:
        self._encodes = body.get("encoding_format") == "base64"
        self._dimensions: int | None = body.get("dimensions")
        self._given = body["input"]
        self._top: dict[str, Any] = {}
        self._data: list[dict[str, Any]] = []
        self._tokens: dict[str, int] | None = {}

    @property
    def usage(self) -> Usage | None:
        """The tokens of all calls so far; None if an engine did not say."""
        tokens = self._tokens or {}
        return Usage(tokens["prompt_tokens"], 0, estimated=False) if "prompt_tokens" in tokens else None

    def add(self, reply: Body, call: Body) -> None:
        """Take the reply to the next call.

        Raises:
            MalformedReply: it is none: the vectors are not as many as the inputs, their indices are not those of a
                list, or a vector is no list of finite numbers, no float32 in base64, or of another length.
        """
        vectors = _in_order(reply.get("data"), _count(call["input"]))
        for entry in vectors:
            vector = self._converted(entry.get("embedding"))
            rest = {key: value for key, value in entry.items() if key not in ("embedding", "encoding_format")}
            self._data.append({**rest, "object": "embedding", "index": len(self._data), "embedding": vector})
        if not self._top:
            self._top = {key: value for key, value in reply.items() if key not in ("data", "usage")}
        self._add_tokens(reply.get("usage"))

    def body(self) -> bytes:
        """The whole reply.

        Raises:
            MalformedReply: calls are missing, or it cannot be written.
        """
        if len(self._data) != _count(self._given):
            raise MalformedReply(f"{len(self._data)} vectors for {_count(self._given)} inputs")
        top = {**self._top, "object": "list", "data": self._data}
        if self._tokens is not None:
            top["usage"] = self._tokens
        try:
            return orjson.dumps(top)
        except orjson.JSONEncodeError as error:
            raise MalformedReply(str(error)) from error

    def refused(self, status: int, reply: object, call: Body) -> CallerError | None:
        """What an engine's refusal of the next call means, where the caller is at fault and the status says otherwise.

        llama.cpp answers 500 to a text that is longer than it takes in one step, and 501 when it was started without
        embeddings.

        Returns:
            400 `context_length_exceeded`, with the input's place where only one can be meant; 400
            `unsupported_endpoint`; None for every other refusal, which says what it means.
        """
        message = _message(reply)
        if status == 500 and (found := _TOO_LARGE.search(message)):
            tokens, limit = int(found[1]), int(found[2])
            place = self._place_of(tokens, call["input"])
            why = f"{place} has a text of {tokens} tokens, and the engine takes {limit} at most; shorten it"
            return CallerError(why, code="context_length_exceeded", param=place)
        if status == 501 and _NO_EMBEDDINGS.search(message):
            why = "the engine of this model makes no embeddings; ask for a model that does, or see [embeddings]"
            return CallerError(why, code="unsupported_endpoint", param="model")
        return None

    def _place_of(self, tokens: int, inputs: Any) -> str:
        """Where a text of so many tokens stands: a token has a byte at least, but for the two at a text's ends."""
        if _is_one(inputs):
            return "input"
        long_enough = [number for number, each in enumerate(inputs) if _most_tokens(each) >= tokens]
        return f"input[{len(self._data) + long_enough[0]}]" if len(long_enough) == 1 else "input"

    def _converted(self, vector: object) -> list[float] | str:
        if isinstance(vector, str):
            numbers = _decoded(vector)
            self._check_length(len(numbers))
            return vector if self._encodes else list(numbers)
        if not isinstance(vector, list) or not _are_finite(vector):
            raise MalformedReply("a vector is no list of finite numbers")
        self._check_length(len(vector))
        return _encoded(vector) if self._encodes else vector

    def _check_length(self, length: int) -> None:
        if self._dimensions is None:
            self._dimensions = length  # every vector is as long as the first
        if length != self._dimensions or not length:
            raise MalformedReply(f"a vector of {length} numbers where {self._dimensions} were to come")

    def _add_tokens(self, usage: object) -> None:
        said = usage if isinstance(usage, dict) else {}
        counts = {key: value for key, value in said.items() if type(value) is int}
        if self._tokens is None or "prompt_tokens" not in counts:
            self._tokens = None  # half a count would be a wrong one
            return
        self._tokens = {key: self._tokens.get(key, 0) + value for key, value in counts.items()}


def _in_order(data: object, count: int) -> Sequence[Body]:
    entries = data if isinstance(data, list) else []
    if len(entries) != count or not all(isinstance(entry, dict) for entry in entries):
        raise MalformedReply(f"no list of {count} vectors")
    indices = [entry.get("index", place) for place, entry in enumerate(entries)]
    if any(type(index) is not int for index in indices) or sorted(indices) != list(range(count)):
        raise MalformedReply("the vectors' indices are not those of the inputs")
    return [entry for _, entry in sorted(zip(indices, entries, strict=True), key=lambda pair: pair[0])]


def _is_one(given: object) -> bool:
    """A text, or one text as tokens."""
    return isinstance(given, str) or (isinstance(given, list) and bool(given) and isinstance(given[0], int))


def _count(given: Any) -> int:
    return 1 if _is_one(given) else len(given)


def _size(given: Any) -> int:
    return len(given.encode("utf-8", "surrogatepass")) if isinstance(given, str) else _TOKEN_BYTES * len(given)


def _most_tokens(given: Any) -> int:
    return 2 + (_size(given) if isinstance(given, str) else len(given))


def _are_finite(numbers: Sequence[Any]) -> bool:
    """Told by their sum, which is made in C: a reply may hold millions, and nobody is served meanwhile."""
    try:
        return math.isfinite(sum(numbers))
    except (TypeError, OverflowError):
        return False


def _decoded(text: str) -> Sequence[float]:
    try:
        raw = base64.b64decode(text, validate=True)
        numbers = struct.unpack(f"<{len(raw) // 4}f", raw)
    except (binascii.Error, struct.error, ValueError) as error:
        raise MalformedReply("a vector is no float32 in base64") from error
    if not _are_finite(numbers):
        raise MalformedReply("a vector is no list of finite numbers")
    return numbers


def _encoded(vector: Sequence[float]) -> str:
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")
    except (struct.error, OverflowError) as error:
        raise MalformedReply("a vector has a number that is no float32") from error


def _message(reply: object) -> str:
    error = reply.get("error") if isinstance(reply, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""
