"""Carries a stream: whole events as they come, comments while the engine is silent, the ending as it was. Driver;
what an event means is `wire`'s to say, and what is due when `gateway.deadlines`'.

Until the first token nothing of the engine's reaches the client, so that another can still be asked.
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

_MOST_HELD_BYTES = 65_536
"""Of what an engine says before its first token; one that says more has begun."""

_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)


async def relay_stream(passage: Passage, opening: Opening) -> None:
    """Carry a stream. While the engine is silent the client gets comments, also before the engine's header."""
    countdown = Countdown(passage.limits, passage.clock(), keepalive=True, began_at=passage.began_at)
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
        passage.record.told_node = passage.record.node
    elif passage.record.told_node != passage.record.node:
        # The head has told of an engine that was silent, and then failed.
        passage.record.told_node = passage.record.node
        told = ", ".join(f"{name}: {value}" for name, value in passage.headers[:2])
        passage.client.piece(f": {told}\n\n".encode())


class _StreamRelay:
    """The loop of one stream: read what comes, forward whole events, stop where the engine stops."""

    def __init__(self, passage: Passage, exchange: Exchange, countdown: Countdown) -> None:
        self._passage = passage
        self._exchange = exchange
        self._countdown = countdown
        self._splitter = Splitter()
        self._story = passage.dialect.follow(passage.promises.any, passage.choices)
        self._held: list[bytes] = []
        """What the engine said before its first token."""
        self._held_bytes = 0
        self._speaks = False
        mend = passage.dialect.mend
        self._mend = None if mend is None else mend(passage.message_id, passage.model)

    async def run(self) -> None:
        """Relay until the engine ends."""
        passage, story = self._passage, self._story
        try:
            while not story.done and (chunk := await self._read()):
                await self._forward(chunk)
        finally:
            passage.record.usage = story.usage
        if not story.finished and not story.failed:
            raise UpstreamCut("the upstream's stream ended before it said that it was finished")
        await self._speak()
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
        is_relayed = passage.translation is None and passage.reading is None
        if is_relayed:
            await self._send(self._splitter.tail)
        rest = await let_it_end(passage, self._exchange)
        if is_relayed:
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
                if self._passage.reading is None:
                    kept.append(self._told(event, now))
                else:
                    kept += self._read_again(event, now)
        finally:
            # What came before a broken promise in the same read is the client's; the event that breaks it is not.
            await self._pass_on(b"".join(kept))

    def _read_again(self, event: Event, now: float) -> list[bytes]:
        reading = self._passage.reading
        with mapped():
            events = [event] if reading is None else reading.events(event)
        return [self._told(each, now) for each in events]

    async def _pass_on(self, data: bytes) -> None:
        """Hand the client what it may have: nothing before the first token."""
        if self._passage.record.spoken:
            await self._send(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._speaks or self._held_bytes > _MOST_HELD_BYTES:
            await self._speak()

    async def _speak(self) -> None:
        """From here on the answer is this engine's."""
        if not self._passage.record.spoken:
            self._passage.record.spoken = True
            self._passage.works()
            _begin(self._passage, forwarded_reply(self._exchange.headers))
            held, self._held = b"".join(self._held), []
            await self._send(held)

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
        if beat is Beat.ERROR and not passage.record.spoken and not self._speaks:
            raise engine_failure(seen.chunk or {})
        if event.data is not None:
            spoken = beat is Beat.TOKEN or beat is Beat.FINISH
            self._countdown.said(now, token=spoken)
            if spoken:
                self._speaks = True
                passage.record.mark("token", now)
            elif beat is Beat.PROGRESS and not passage.own_progress:
                self._speaks = True  # whoever asks for progress wants it now
        if (beat is Beat.FINISH or beat is Beat.DONE) and story.finished:
            check_promises(passage.promises, tuple(story.choices.values()))
        if passage.translation is not None:
            return self._translated(seen)
        if (beat is Beat.PROGRESS and passage.own_progress) or (event.data == b"null" and passage.sends_nulls):
            return b""
        if passage.own_usage and _is_usage(seen.chunk):
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


def _is_usage(chunk: Mapping[str, Any] | None) -> bool:
    return chunk is not None and chunk.get("choices") == [] and "usage" in chunk
