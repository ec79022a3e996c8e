"""One reply on its way from an engine to a client, and what both forms of it share: refusals, deadlines, sending.
Driver.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from lumbre.backends.exchange import Exchange
from lumbre.core.errors import BrokenPromise, CallerError, UpstreamError
from lumbre.gateway.deadlines import Deadlines, expired
from lumbre.gateway.moving_on import UpstreamRefusal, retry_after
from lumbre.runtime.client import Client, Headers
from lumbre.runtime.reading import Reading
from lumbre.runtime.records import Record
from lumbre.wire.dialects import MESSAGES, Dialect
from lumbre.wire.headers import forwarded_reply
from lumbre.wire.openai.promise import Promises, broken
from lumbre.wire.openai.story import Choice
from lumbre.wire.sse import Event, EventTooLong, Splitter
from lumbre.wire.translation import Translation

EVENT_STREAM = "text/event-stream"
_REFUSAL_LIMIT_BYTES = 1024 * 1024
_EXCERPT_CHARS = 200
_NAME_CHARS = 200
BUSY = (408, 429)
"""Statuses below 500 that are no fault of the caller's."""
OPERATORS = (401, 402, 407)
"""Statuses below 500 that are the operator's: the gateway's key, its account, its proxy."""
_CODES: Mapping[str, str] = {"exceed_context_size_error": "context_length_exceeded"}
"""llama.cpp's types of errors, which it gives no code, and the code that clients act on."""


@dataclass(slots=True)
class Passage:
    """One reply on its way, and what it has to keep.

    Attributes:
        dialect: how the engine's reply is read.
        model: the name that the engine was asked for.
        translation: tells the reply in the client's API; None where the engine speaks it.
        openai_errors: the client's API has errors as engines of OpenAI's API write them.
        blame: tells an error about the engine's request in the words of the client's; None where they are the same.
        keep: called when the translation is finished, before the client is told so; None: nobody wants to.
        clock: monotonic seconds, the event loop's.
        began_at: when the request was dispatched, on that clock.
        headers: those that every reply of this request carries.
        choices: how many answers were asked for.
        own_progress: the gateway itself asked for progress events, so they end here.
        sends_nulls: the engine's stream has events of the data `null`, which mean nothing.
        reading: makes a chat reply of what the engine says; None where it is one.
        works: called with the first token of a stream: whatever comes after, the engine answers.
        own_usage: the gateway itself asked for the usage of a stream, so the chunk that has nothing else ends here.
    """

    client: Client
    record: Record
    limits: Deadlines
    promises: Promises
    headers: Headers
    dialect: Dialect
    model: str
    translation: Translation | None
    openai_errors: bool
    blame: Callable[[CallerError], CallerError] | None
    keep: Callable[[], Awaitable[None]] | None
    choices: int
    own_progress: bool
    sends_nulls: bool
    reply_limit_bytes: int
    clock: Callable[[], float]
    began_at: float
    reading: Reading | None = None
    own_usage: bool = False
    works: Callable[[], None] = lambda: None

    @property
    def message_id(self) -> str:
        """What a Message is called whose engine does not begin it."""
        return f"msg_{self.record.decision.removeprefix('d-')}"

    @property
    def total_at(self) -> float:
        """When the total deadline passes."""
        return self.began_at + self.limits.total_s


async def room(passage: Passage) -> None:
    """Wait for a client that does not take in what it is sent; it holds its slot until the total deadline, not longer.

    Raises:
        DeadlineError: `total`.
    """
    if passage.client.congested:
        try:
            async with asyncio.timeout_at(passage.total_at):
                await passage.client.room()
        except TimeoutError:
            raise expired("total", passage.limits) from None


def send_whole(passage: Passage, status: int, body: bytes, headers: Iterable[tuple[str, str]]) -> None:
    """Send a reply of one piece."""
    passage.record.spoken = True
    passage.record.status = status
    passage.record.finished = True
    passage.client.whole(status, [*headers, *passage.headers], body)


async def refusal(passage: Passage, exchange: Exchange) -> bytes:
    """The body of an upstream's own error.

    Raises:
        DeadlineError: `total`.
        UpstreamError: it is cut, or longer than any error.
    """
    try:
        body = await exchange.read_whole(_REFUSAL_LIMIT_BYTES, passage.total_at)
    except TimeoutError:
        raise expired("total", passage.limits) from None
    exchange.close()  # it was in good order, whatever is made of it
    return body


class Refused(UpstreamRefusal):
    """An upstream refused what another may take; `tell` says so to the client when nobody is left.

    Attributes:
        told: the body as the client may read it; None where it could not.
        headers: those that go with it.
    """

    def __init__(self, said: UpstreamError, told: bytes | None, headers: Headers) -> None:
        super().__init__(said.message, status=said.status, code=said.code, headers=said.headers)
        self.retry_after_s = _retry_after(headers)
        self._said = said
        self._told = told
        self._headers = headers

    def tell(self, client: Client, record: Record, more: Headers, *, retry_after_s: int | None) -> None:
        """Pass it on as it came, if the client can still be told so.

        Args:
            more: headers that every reply of the request carries.
            retry_after_s: when somebody else may be asked again.

        Raises:
            UpstreamError: it cannot; the same in the gateway's own words.
        """
        record.outcome = record.outcome or "upstream_refused"
        if self._told is None or client.started:
            raise self._said
        record.status, record.finished = self.status, True
        # Of all who were asked, the first who may be asked again counts.
        known = [each for each in (retry_after_s, self.retry_after_s) if each is not None]
        kept = [(name, value) for name, value in self._headers if name != "retry-after"] if known else self._headers
        own = [("retry-after", str(min(known)))] if known else []
        client.whole(self.status, [*kept, *own, *more], self._told)


def _retry_after(headers: Headers) -> int | None:
    for name, value in headers:
        if name == "retry-after":
            return retry_after(value, datetime.now(UTC))
    return None


async def relay_refusal(passage: Passage, exchange: Exchange, body: bytes | None = None) -> None:
    """Pass on an upstream's own error: its status, its Retry-After and rate-limit headers, its JSON body.

    Args:
        body: where it has been read already.

    Raises:
        Refused: another upstream may take the request.
        UpstreamError: the status says nothing to this caller (a redirect, a refused key), the body is no error of the
            client's API, or the stream has already begun.
    """
    status = exchange.status
    passage.record.refused = True
    if not 400 <= status <= 599:
        raise UpstreamError(f"the upstream answers with status {status}, which is none; see its base_url")
    if status in OPERATORS:
        raise UpstreamError(f"the upstream refuses the gateway's key or account ({status}); see its api_key_env")
    body = await refusal(passage, exchange) if body is None else body
    document, error = _read(body, passage.reading, status)
    told = _relayed(passage, body, document, error)
    said = _retold(passage, exchange, body, error)
    if status >= 500 or status in BUSY:
        raise Refused(said, told, forwarded_reply(exchange.headers))
    passage.record.outcome = "upstream_refused"
    if told is None or passage.client.started:
        raise said
    send_whole(passage, status, told, forwarded_reply(exchange.headers))
    await room(passage)


def _read(body: bytes, reading: Reading | None, status: int) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """An upstream's document and the error in it, which has a message; empty where there is none."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}, {}
    if reading is not None and isinstance(document, dict):
        document = reading.refusal(document, status)
    error = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return document, error
    return {}, {}


def _relayed(passage: Passage, body: bytes, document: Mapping[str, Any], error: dict[str, Any]) -> bytes | None:
    """An upstream's error as the client may read it; None where it is not of the shape of the client's API."""
    if passage.dialect is MESSAGES:
        return body if document.get("type") == "error" and error else None
    if not passage.openai_errors or not _is_openais(error):
        return None
    if passage.blame is None or (param := error["param"]) is None:
        return body if passage.reading is None else _written(document)
    own = passage.blame(CallerError("", param=param)).param if len(param) <= _NAME_CHARS else None
    return _written({**document, "error": {**error, "param": own}})


def _written(document: Mapping[str, Any]) -> bytes | None:
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return None


def _is_openais(error: Mapping[str, Any]) -> bool:
    """Whether an error has what clients of OpenAI's API look for, each of its type."""
    return bool(error) and all(isinstance(error.get(key, 0), str | None) for key in ("type", "code", "param"))


def _retold(passage: Passage, exchange: Exchange, body: bytes, error: Mapping[str, Any]) -> UpstreamError:
    """An upstream's error for a client that could not read it as it is: under its status, with its message and code."""
    excerpt = " ".join(body[: 4 * _EXCERPT_CHARS].decode("utf-8", "replace").split())[:_EXCERPT_CHARS]
    message = error.get("message") or f"the upstream answered {exchange.status}: {excerpt or '(nothing)'}"
    kept = {name: value for name, value in forwarded_reply(exchange.headers) if name != "content-type"}
    kept.update(passage.headers[:2])  # who refused
    return UpstreamError(message, status=exchange.status, code=_code(exchange.status, error), headers=kept)


def _code(status: int, error: Mapping[str, Any]) -> str:
    code = error.get("code")
    if isinstance(code, str) and 0 < len(code) <= _NAME_CHARS:
        return code
    return _CODES.get(str(error.get("type")), "upstream_refused" if status < 500 else UpstreamError.code)


def check_encoding(exchange: Exchange) -> None:
    """The gateway asks for plain bodies, and has to look into them.

    Raises:
        UpstreamError: the upstream compressed its reply all the same.
    """
    encoding = exchange.header("content-encoding")
    if encoding and encoding.lower() != "identity":
        raise UpstreamError(f"the upstream sends its reply as {encoding}, though it was asked not to")


def split(splitter: Splitter, chunk: bytes) -> list[Event]:
    """Feed a splitter; an event without end is the upstream's fault."""
    try:
        return splitter.feed(chunk)
    except EventTooLong as error:
        raise UpstreamError(f"the upstream's stream is broken: {error}") from error


def check_promises(promises: Promises, choices: Sequence[Choice]) -> None:
    """Hold a finished reply to what the request asked.

    Raises:
        BrokenPromise: says which.
    """
    if promises.any and (reason := broken(promises, choices)) is not None:
        raise BrokenPromise(f"the engine did not do what it was asked: {reason}")
