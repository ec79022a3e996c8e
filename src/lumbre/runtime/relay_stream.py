"""Carries a stream: whole events as they come, comments while the engine is silent, the ending as it was. Driver;
what an event means is `wire`'s to say, and what is due when `gateway.deadlines`'.
"""

from collections.abc import Mapping
from typing import Any

from lumbre.backends.exchange import Exchange, Opening
from lumbre.core.errors import UpstreamCut, UpstreamError
from lumbre.gateway.deadlines import Countdown
from lumbre.runtime.client import Headers
from lumbre.runtime.passage import (
    EVENT_STREAM,
    Passage,
    check_encoding,
    check_promises,
    relay_refusal,
    room,
    split,
)
from lumbre.runtime.relay_json import engine_failure, let_it_end, mapped
from lumbre.wire.headers import forwarded_reply
from lumbre.wire.openai.story import Beat, Seen
from lumbre.wire.sse import KEEP_ALIVE, Event, Splitter

_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)


async def relay_stream(passage: Passage, opening: Opening) -> None:
    """Carry a stream. While the engine is silent the client gets comments, also before the engine's header."""
    countdown = Countdown(passage.limits, passage.began_at, keepalive=True)
    with await _opened(passage, opening, countdown) as exchange:
        passage.record.mark("header", passage.clock())
        if exchange.status >= 300:
            await relay_refusal(passage, exchange)
        else:
            check_encoding(exchange)
            if exchange.content_type != EVENT_STREAM:
                raise UpstreamError(f"asked for a stream, the upstream answered with {exchange.content_type}")
            await _StreamRelay(passage, exchange, countdown).run()


async def _opened(passage: Passage, opening: Opening, countdown: Countdown) -> Exchange:
    while True:
        try:
            return await opening.header(countdown.next_at())
        except TimeoutError:
            await _nothing_came(passage, countdown)


async def _nothing_came(passage: Passage, countdown: Countdown) -> None:
    now = passage.clock()
    if (error := countdown.due(now)) is not None:
        raise error
    if now >= countdown.next_at():
        _begin(passage, ())
        passage.client.piece(KEEP_ALIVE)
        countdown.sent(now)
        await room(passage)


def _begin(passage: Passage, upstream: Headers) -> None:
    if not passage.client.started:
        passage.record.status = 200
        extra = [(name, value) for name, value in upstream if name != "content-type"]
        passage.client.head(200, [*_HEADERS, *extra, *passage.headers])


class _StreamRelay:
    """The loop of one stream: read what comes, forward whole events, stop where the engine stops."""

    def __init__(self, passage: Passage, exchange: Exchange, countdown: Countdown) -> None:
        self._passage = passage
        self._exchange = exchange
        self._countdown = countdown
        self._splitter = Splitter()
        self._story = passage.dialect.follow(passage.promises.any, passage.choices)
        mend = passage.dialect.mend
        self._mend = None if mend is None else mend(passage.message_id, passage.model)

    async def run(self) -> None:
        """Relay until the engine ends."""
        passage, story = self._passage, self._story
        _begin(passage, forwarded_reply(self._exchange.headers))
        try:
            while not story.done and (chunk := await self._read()):
                await self._forward(chunk)
        finally:
            passage.record.usage = story.usage
        if not story.finished and not story.failed:
            raise UpstreamCut("the upstream's stream ended before it said that it was finished")
        passage.record.finished = True
        if story.failed:
            passage.record.outcome = "engine_failed"
        await self._finish()
        passage.client.end()
        await room(passage)

    async def _finish(self) -> None:
        """Send what belongs to the last event still (the LF of a CRLF), and let the upstream end its body."""
        passage = self._passage
        if passage.translation is not None:
            if passage.keep is not None:
                await passage.keep()
            with mapped():
                ending = passage.translation.ending()
            await self._send(ending)
        else:
            await self._send(self._splitter.tail)
        rest = await let_it_end(passage, self._exchange)
        if passage.translation is None:
            await self._send(rest)

    async def _read(self) -> bytes:
        while True:
            try:
                return await self._exchange.read(self._countdown.next_at())
            except TimeoutError:
                await _nothing_came(self._passage, self._countdown)

    async def _forward(self, chunk: bytes) -> None:
        now = self._passage.clock()
        kept: list[bytes] = []
        try:
            for event in split(self._splitter, chunk):
                kept.append(self._told(event, now))  # noqa: PERF401 what came before a failure counts
        finally:
            # What came before a broken promise in the same read is the client's; the event that breaks it is not.
            await self._send(b"".join(kept))

    async def _send(self, data: bytes) -> None:
        """Hand bytes to the client."""
        if data:
            passage = self._passage
            passage.client.piece(data)
            self._countdown.sent(passage.clock())
            if passage.client.congested:
                await room(passage)

    def _told(self, event: Event, now: float) -> bytes:
        """Take note of an event; what the client gets of it."""
        story, passage = self._story, self._passage
        seen = story.see(event)
        beat = seen.beat
        if event.data is not None:
            spoken = beat is Beat.TOKEN or beat is Beat.FINISH
            self._countdown.said(now, token=spoken)
            if spoken:
                passage.record.mark("token", now)
        if (beat is Beat.FINISH or beat is Beat.DONE) and story.finished:
            check_promises(passage.promises, tuple(story.choices.values()))
        if passage.translation is not None:
            return self._translated(seen)
        if (beat is Beat.PROGRESS and passage.own_progress) or (event.data == b"null" and passage.sends_nulls):
            return b""
        return event.raw if self._mend is None else self._mend(event).raw

    def _translated(self, seen: Seen) -> bytes:
        chunk: Mapping[str, Any] | None = seen.chunk
        translation = self._passage.translation
        if chunk is None or translation is None or seen.beat is Beat.PROGRESS:
            return b""
        if seen.beat is Beat.ERROR:
            raise engine_failure(chunk)
        with mapped():
            return translation.chunk(chunk)
