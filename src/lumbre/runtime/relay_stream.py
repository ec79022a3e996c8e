"""Carries a stream: whole events as they come, comments while the engine is silent, the ending as it was. Driver;
what an
event means is `wire.openai.story`'s to say, and what is due when `gateway.deadlines`'.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from lumbre.backends.upstream import Exchange
from lumbre.core.errors import UpstreamCut, UpstreamError
from lumbre.gateway.deadlines import Countdown
from lumbre.runtime.client import Headers
from lumbre.runtime.passage import (
    EVENT_STREAM,
    Passage,
    check_encoding,
    check_promises,
    relay_refusal,
    split,
    within_total,
)
from lumbre.runtime.tasks import TaskRoom
from lumbre.wire.headers import forwarded_reply
from lumbre.wire.openai.story import Beat, Story
from lumbre.wire.sse import KEEP_ALIVE, Event, Splitter

_LAST_BYTES_S = 0.25

_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)


async def relay_stream(passage: Passage, opening: Coroutine[Any, Any, Exchange]) -> None:
    """Carry a stream. While the engine is silent the client gets comments, also before the engine's header."""
    countdown = Countdown(passage.limits, passage.began_at, keepalive=True)
    exchange = await _opened(passage, opening, countdown)
    try:
        if exchange.status >= 300:
            await relay_refusal(passage, exchange)
        else:
            check_encoding(exchange)
            if exchange.content_type != EVENT_STREAM:
                raise UpstreamError(f"asked for a stream, the upstream answered with {exchange.content_type}")
            await _StreamRelay(passage, exchange, countdown).run()
    finally:
        exchange.close()


async def _opened(passage: Passage, opening: Coroutine[Any, Any, Exchange], countdown: Countdown) -> Exchange:
    room = TaskRoom()
    task = room.spawn(_outcome(opening), name=f"open {passage.record.decision}")
    try:
        while not task.done():
            wait_s = max(countdown.next_at() - passage.clock(), 0)
            await asyncio.wait({task}, timeout=wait_s)
            if not task.done():
                await _nothing_came(passage, countdown)
    except BaseException:
        await room.close()
        if not task.cancelled() and task.exception() is None and isinstance(late := task.result(), Exchange):
            late.close()  # the header came in the very moment we gave up
        raise
    outcome = task.result()
    if isinstance(outcome, UpstreamError):
        raise outcome
    passage.record.mark("header", passage.clock())
    return outcome


async def _outcome(opening: Coroutine[Any, Any, Exchange]) -> Exchange | UpstreamError:
    """What came of an opening. That an upstream fails is a value: the client is told, and no task is at fault."""
    try:
        return await opening
    except UpstreamError as error:
        return error


async def _nothing_came(passage: Passage, countdown: Countdown) -> None:
    now = passage.clock()
    if (error := countdown.due(now)) is not None:
        raise error
    if now >= countdown.next_at():
        await _begin(passage, ())
        await within_total(passage, passage.client.piece(KEEP_ALIVE))
        countdown.sent(now)


async def _begin(passage: Passage, upstream: Headers) -> None:
    if not passage.client.started:
        passage.record.status = 200
        extra = [(name, value) for name, value in upstream if name != "content-type"]
        await within_total(passage, passage.client.head(200, [*_HEADERS, *extra, *passage.headers]))


class _StreamRelay:
    """The loop of one stream: read what comes, forward whole events, stop where the engine stops."""

    def __init__(self, passage: Passage, exchange: Exchange, countdown: Countdown) -> None:
        self._passage = passage
        self._exchange = exchange
        self._countdown = countdown
        self._splitter = Splitter()
        self._story = Story(keep_text=passage.promises.any, choices=passage.choices)

    async def run(self) -> None:
        """Relay until the engine ends."""
        passage = self._passage
        await _begin(passage, forwarded_reply(self._exchange.headers))
        try:
            while not self._story.done and (chunk := await self._read()):
                await self._forward(chunk)
        finally:
            passage.record.usage = self._story.usage
        if not self._story.finished and not self._story.failed:
            raise UpstreamCut("the upstream's stream ended before it said that it was finished")
        passage.record.finished = True
        if self._story.failed:
            passage.record.outcome = "engine_failed"
        await self._send_rest()
        await within_total(passage, passage.client.end())

    async def _send_rest(self) -> None:
        """Send what belongs to the last event still (the LF of a CRLF), and let the upstream end its body."""
        await self._send(self._splitter.tail)
        with contextlib.suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(_LAST_BYTES_S):
                while chunk := await self._exchange.read():
                    await self._send(chunk)

    async def _read(self) -> bytes:
        while True:
            try:
                async with asyncio.timeout_at(self._countdown.next_at()):
                    return await self._exchange.read()
            except TimeoutError:
                await _nothing_came(self._passage, self._countdown)

    async def _forward(self, chunk: bytes) -> None:
        kept = []
        broken: Exception | None = None
        for event in split(self._splitter, chunk):
            try:
                if self._see(event):
                    kept.append(event.raw)
            except UpstreamError as error:
                # What came before it in the same read is the client's; the event that breaks the promise is not.
                broken = error
                break
        await self._send(b"".join(kept))
        if broken is not None:
            raise broken

    async def _send(self, data: bytes) -> None:
        """Hand bytes to the client; one that does not take them holds its slot until the total deadline, not longer."""
        if data:
            await within_total(self._passage, self._passage.client.piece(data))
            self._countdown.sent(self._passage.clock())

    def _see(self, event: Event) -> bool:
        """Take note of an event; say whether the client gets it."""
        story, passage = self._story, self._passage
        beat = story.see(event).beat
        if event.data is not None:
            now = passage.clock()
            spoken = beat in (Beat.TOKEN, Beat.FINISH)
            self._countdown.said(now, token=spoken)
            if spoken:
                passage.record.mark("token", now)
        if beat in (Beat.FINISH, Beat.DONE) and story.finished:
            check_promises(passage.promises, tuple(story.choices.values()))
        return not ((beat is Beat.PROGRESS and passage.own_progress) or (event.data == b"null" and passage.sends_nulls))
