"""One reply on its way from an engine to a client, and what both forms of it share: refusals, deadlines, sending.
Driver.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import orjson

from lumbre.backends.exchange import Exchange
from lumbre.core.errors import BrokenPromise, UpstreamError
from lumbre.gateway.deadlines import Deadlines, expired
from lumbre.runtime.client import Client, Headers
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


@dataclass(slots=True)
class Passage:
    """One reply on its way, and what it has to keep.

    Attributes:
        dialect: how the engine's reply is read.
        translation: tells the reply in the client's API; None where the engine speaks it.
        openai_errors: the client's API has errors as engines of OpenAI's API write them.
        keep: called when the translation is finished, before the client is told so; None: nobody wants to.
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
    dialect: Dialect
    translation: Translation | None
    openai_errors: bool
    keep: Callable[[], Awaitable[None]] | None
    choices: int
    own_progress: bool
    sends_nulls: bool
    reply_limit_bytes: int
    clock: Callable[[], float]
    began_at: float

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
        return await exchange.read_whole(_REFUSAL_LIMIT_BYTES, passage.total_at)
    except TimeoutError:
        raise expired("total", passage.limits) from None


async def relay_refusal(passage: Passage, exchange: Exchange, body: bytes | None = None) -> None:
    """Pass on an upstream's own error: its status, its Retry-After and rate-limit headers, its JSON body.

    Args:
        body: where it has been read already.

    Raises:
        UpstreamError: the status says nothing to this caller (a redirect, a refused key), the body is no error of the
            client's API, or the stream has already begun.
    """
    passage.record.outcome = "upstream_refused"
    if not 400 <= exchange.status <= 599:
        raise UpstreamError(f"the upstream answers with status {exchange.status}, which is none; see its base_url")
    if exchange.status in (401, 407):
        raise UpstreamError(f"the upstream refuses the gateway's key ({exchange.status}); see its api_key_env")
    body = await refusal(passage, exchange) if body is None else body
    message = _message(body)
    readable = passage.openai_errors or (passage.dialect is MESSAGES and _is_of_messages(body))
    if passage.client.started or message is None or not readable:
        raise _retold(exchange, body, message)
    send_whole(passage, exchange.status, body, forwarded_reply(exchange.headers))
    await room(passage)


def _is_of_messages(body: bytes) -> bool:
    """Whether an error that has a message is of the Messages API's shape."""
    return bool(orjson.loads(body).get("type") == "error")


def _message(body: bytes) -> str | None:
    """What a client of either API could read: the message of an `error` object; None if there is none."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    error = document.get("error") if isinstance(document, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else None


def _retold(exchange: Exchange, body: bytes, said: str | None) -> UpstreamError:
    text = said or " ".join(body.decode("utf-8", "replace").split())
    kept = {name: value for name, value in forwarded_reply(exchange.headers) if name != "content-type"}
    message = f"the upstream answered {exchange.status}: {text[:_EXCERPT_CHARS] or '(nothing)'}"
    return UpstreamError(message, status=exchange.status, headers=kept)


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
