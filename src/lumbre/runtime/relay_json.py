"""Carries a reply of one JSON object: read whole, checked, sent on. Driver; the checks are `wire.openai`'s.

An engine that can be cancelled in the middle of such a call is asked for just that and its bytes are not touched. One
that cannot (llama.cpp) is asked for a stream, which is folded into the object.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from lumbre.backends.upstream import Exchange
from lumbre.core.errors import UpstreamCut, UpstreamError
from lumbre.gateway.deadlines import Countdown
from lumbre.runtime.passage import (
    EVENT_STREAM,
    Passage,
    check_encoding,
    check_promises,
    relay_refusal,
    send_whole,
    split,
    within_total,
)
from lumbre.wire.headers import forwarded_reply
from lumbre.wire.json_text import parse
from lumbre.wire.openai.fold import Fold, MalformedReply
from lumbre.wire.openai.story import Beat, Story, choices_of, usage_of
from lumbre.wire.sse import Event, Splitter

_REASON_CHARS = 500


async def relay_json(passage: Passage, opening: Coroutine[Any, Any, Exchange]) -> None:
    """Carry a reply that the engine makes as one object."""
    async with _accepted(passage, opening) as exchange:
        if exchange is None:
            return
        # The header of such a reply comes when the engine is done, so the wait for the body begins here.
        countdown = Countdown(passage.limits, passage.clock(), keepalive=False, began_at=passage.began_at)
        body = b"".join([chunk async for chunk in _chunks(passage, exchange, countdown)])
    reply = _parsed(body, exchange.content_type)
    if isinstance(usage := reply.get("usage"), dict):
        passage.record.usage = usage_of(usage)
    if passage.promises.any:
        check_promises(passage.promises, choices_of(reply))
    await send_whole(passage, exchange.status, body, forwarded_reply(exchange.headers))


async def relay_folded(passage: Passage, opening: Coroutine[Any, Any, Exchange]) -> None:
    """Carry a reply that has to be asked for as a stream."""
    async with _accepted(passage, opening) as exchange:
        if exchange is None:
            return
        if exchange.content_type != EVENT_STREAM:
            raise UpstreamError(f"asked for a stream, the upstream answered with {exchange.content_type}")
        folding = _Folding(passage, exchange)
        await folding.run()
    check_promises(passage.promises, tuple(folding.story.choices.values()))
    headers = [(name, value) for name, value in forwarded_reply(exchange.headers) if name != "content-type"]
    await send_whole(passage, 200, folding.body(), [("content-type", "application/json"), *headers])


@asynccontextmanager
async def _accepted(passage: Passage, opening: Coroutine[Any, Any, Exchange]) -> AsyncIterator[Exchange | None]:
    """Open an exchange and close it after use; None if the upstream refused, which the client has then been told."""
    exchange = await within_total(passage, opening)
    try:
        passage.record.mark("header", passage.clock())
        if exchange.status >= 300:
            await relay_refusal(passage, exchange)
            yield None
        else:
            check_encoding(exchange)
            yield exchange
    finally:
        exchange.close()


async def _chunks(
    passage: Passage, exchange: Exchange, countdown: Countdown, *, counts: bool = True
) -> AsyncIterator[bytes]:
    """The body as it comes, under the deadlines and the limit of size.

    Args:
        counts: whatever comes counts as a token; False where the caller looks into it.
    """
    size = 0
    while chunk := await _next_chunk(passage, exchange, countdown):
        size += len(chunk)
        if counts:
            countdown.said(passage.clock(), token=True)
        if size > passage.reply_limit_bytes:
            raise UpstreamError("the upstream's reply is longer than [limits] reply_bytes")
        yield chunk


async def _next_chunk(passage: Passage, exchange: Exchange, countdown: Countdown) -> bytes:
    while True:
        try:
            async with asyncio.timeout_at(countdown.next_at()):
                return await exchange.read()
        except TimeoutError:
            if (error := countdown.due(passage.clock())) is not None:
                raise error from None


def _parsed(body: bytes, content_type: str) -> dict[str, Any]:
    if content_type == EVENT_STREAM:
        raise UpstreamError("asked for one JSON object, the upstream answered with a stream")
    try:
        reply = parse(body)
    except ValueError as error:
        raise UpstreamCut(f"the upstream's reply is no whole JSON ({error})") from error
    if not isinstance(reply, dict) or not isinstance(reply.get("choices"), list):
        raise UpstreamError("the upstream's reply is JSON, but no completion")
    return reply


class _Folding:
    """Reads a stream to its end."""

    def __init__(self, passage: Passage, exchange: Exchange) -> None:
        self._passage = passage
        self._exchange = exchange
        self._countdown = Countdown(passage.limits, passage.began_at, keepalive=False)
        self._splitter = Splitter()
        self.story = Story(keep_text=passage.promises.any, choices=passage.choices)
        self._fold = Fold()

    async def run(self) -> None:
        """Fold until the engine ends."""
        try:
            async for chunk in _chunks(self._passage, self._exchange, self._countdown, counts=False):
                for event in split(self._splitter, chunk):
                    self._take(event)
        finally:
            self._passage.record.usage = self.story.usage
        if not self.story.finished:
            raise UpstreamCut("the upstream's reply ended before it said that it was finished")

    def _take(self, event: Event) -> None:
        seen = self.story.see(event)
        beat = seen.beat
        if seen.chunk is None:
            return
        now = self._passage.clock()
        spoken = beat in (Beat.TOKEN, Beat.FINISH)
        self._countdown.said(now, token=spoken)
        if spoken:
            self._passage.record.mark("token", now)
        if beat is Beat.ERROR:
            raise UpstreamError(f"the engine failed in the middle of its answer: {_reason(seen.chunk)}")
        if beat is not Beat.PROGRESS:
            with _mapped():
                self._fold.add(seen.chunk)

    def body(self) -> bytes:
        """The reply."""
        with _mapped():
            return self._fold.body()


@contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except MalformedReply as error:
        raise UpstreamError(f"the engine's reply is not of the API's shape: {error}") from error


def _reason(chunk: Mapping[str, Any]) -> str:
    error = chunk["error"]
    text = error.get("message", "") if isinstance(error, dict) else error
    return str(text)[:_REASON_CHARS]
