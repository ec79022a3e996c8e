"""One reply on its way from an engine to a client, and what both forms of it share: refusals, deadlines, sending.
Driver.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import orjson

from lumbre.backends.upstream import Exchange
from lumbre.core.errors import BrokenPromise, UpstreamError
from lumbre.gateway.deadlines import Deadlines, expired
from lumbre.runtime.client import Client, Headers
from lumbre.runtime.records import Record
from lumbre.wire.headers import forwarded_reply
from lumbre.wire.openai.promise import Promises, broken
from lumbre.wire.openai.story import Choice
from lumbre.wire.sse import Event, EventTooLong, Splitter

T = TypeVar("T")

EVENT_STREAM = "text/event-stream"
_REFUSAL_LIMIT_BYTES = 1024 * 1024
_EXCERPT_CHARS = 200


@dataclass
class Passage:
    """One reply on its way, and what it has to keep.

    Attributes:
        clock: monotonic seconds, the event loop's.
        began_at: when the request was dispatched, on that clock.
        headers: those that every reply of this request carries.
        choices: how many answers were asked for.
        own_progress: the gateway itself asked for progress events, so they end here.
        sends_nulls: the engine's stream has events of the data `null`, which mean nothing.
    """

    client: Client
    record: Record
    limits: Deadlines
    promises: Promises
    headers: Headers
    choices: int
    own_progress: bool
    sends_nulls: bool
    reply_limit_bytes: int
    clock: Callable[[], float]
    began_at: float


async def within_total(passage: Passage, waiting: Awaitable[T]) -> T:
    """Await something under the total deadline.

    Raises:
        DeadlineError: `total`.
    """
    try:
        async with asyncio.timeout_at(passage.began_at + passage.limits.total_s):
            return await waiting
    except TimeoutError:
        raise expired("total", passage.limits) from None


async def send_whole(passage: Passage, status: int, body: bytes, headers: Iterable[tuple[str, str]]) -> None:
    """Send a reply of one piece."""
    passage.record.status = status
    head = [*headers, ("content-length", str(len(body))), *passage.headers]
    passage.record.finished = True
    await within_total(passage, passage.client.head(status, head))
    await within_total(passage, passage.client.piece(body))
    await within_total(passage, passage.client.end())


async def relay_refusal(passage: Passage, exchange: Exchange) -> None:
    """Pass on an upstream's own error: its status, its Retry-After and rate-limit headers, its JSON body.

    Raises:
        UpstreamError: the status says nothing to this caller (a redirect, a refused key), the body is no JSON error, or
            the stream has already begun.
    """
    passage.record.outcome = "upstream_refused"
    if not 400 <= exchange.status <= 599:
        raise UpstreamError(f"the upstream answers with status {exchange.status}, which is none; see its base_url")
    if exchange.status in (401, 407):
        raise UpstreamError(f"the upstream refuses the gateway's key ({exchange.status}); see its api_key_env")
    body = await within_total(passage, exchange.read_whole(_REFUSAL_LIMIT_BYTES))
    if passage.client.started or not _is_error_document(body):
        raise _retold(exchange, body)
    await send_whole(passage, exchange.status, body, forwarded_reply(exchange.headers))


def _is_error_document(body: bytes) -> bool:
    """Whether a client of the OpenAI API can read it: `error` is an object with a message."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    error = document.get("error") if isinstance(document, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str)


def _retold(exchange: Exchange, body: bytes) -> UpstreamError:
    text = " ".join(body.decode("utf-8", "replace").split())[:_EXCERPT_CHARS]
    kept = {name: value for name, value in forwarded_reply(exchange.headers) if name != "content-type"}
    message = f"the upstream answered {exchange.status}: {text or '(nothing)'}"
    return UpstreamError(message, status=exchange.status, headers=kept)


def check_encoding(exchange: Exchange) -> None:
    """The gateway asks for plain bodies, and has to look into them.

    Raises:
        UpstreamError: the upstream compressed its reply all the same.
    """
    encoding = next((value for name, value in exchange.headers if name == "content-encoding"), "identity")
    if encoding.lower() != "identity":
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
