"""Carries a reply of one JSON object: read whole, checked, sent on. Driver; the checks are `wire`'s.

An engine that can be cancelled in the middle of such a call is asked for just that and its bytes are not touched. One
that cannot (llama.cpp) is asked for a stream, which is folded into the object.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson

from lumbre.backends.exchange import Exchange, Opening
from lumbre.core.errors import UpstreamCut, UpstreamError
from lumbre.gateway.deadlines import Countdown, expired
from lumbre.runtime.passage import (
    BUSY,
    EVENT_STREAM,
    OPERATORS,
    Passage,
    check_encoding,
    check_promises,
    relay_refusal,
    room,
    send_whole,
    split,
)
from lumbre.wire.headers import forwarded_reply
from lumbre.wire.json_text import parse
from lumbre.wire.openai.fold import MalformedReply
from lumbre.wire.openai.story import Beat
from lumbre.wire.sse import Event, Splitter
from lumbre.wire.translation import Translation

_REASON_CHARS = 500
_LAST_BYTES_S = 0.25


async def relay_json(passage: Passage, opening: Opening) -> None:
    """Carry a reply that the engine makes as one object."""
    with await header(passage, opening) as exchange:
        if exchange.status >= 300:
            await relay_refusal(passage, exchange)
            return
        check_encoding(exchange)
        body = exchange.arrived()
        if body is None or len(body) > passage.reply_limit_bytes:
            # The header of such a reply comes when the engine is done, so the wait for the body begins here.
            countdown = Countdown(passage.limits, passage.clock(), keepalive=False, began_at=passage.began_at)
            body = await read_body(passage, exchange, countdown, body or b"")
        reply = parsed(body, exchange.content_type)
        try:
            if passage.reading is not None:
                reply = passage.reading.whole(reply)
                body = written(reply)
            usage = passage.dialect.count(reply)
        except MalformedReply as error:
            raise _malformed(error) from error
    if usage is not None:
        passage.record.usage = usage
    if passage.promises.any:
        check_promises(passage.promises, passage.dialect.choices(reply))
    if passage.translation is not None:
        body = await translated(passage, passage.translation, reply)
    send_whole(passage, exchange.status, body, forwarded_reply(exchange.headers))
    await room(passage)


async def relay_folded(passage: Passage, opening: Opening) -> None:
    """Carry a reply that has to be asked for as a stream."""
    with await header(passage, opening) as exchange:
        if exchange.status >= 300:
            await relay_refusal(passage, exchange)
            return
        check_encoding(exchange)
        if exchange.content_type != EVENT_STREAM:
            raise UpstreamError(f"asked for a stream, the upstream answered with {exchange.content_type}")
        folding = _Folding(passage, exchange)
        await folding.run()
    check_promises(passage.promises, tuple(folding.story.choices.values()))
    with mapped():
        body = folding.fold.body()
    if passage.translation is not None:
        body = await translated(passage, passage.translation, orjson.loads(body))
    headers = [(name, value) for name, value in forwarded_reply(exchange.headers) if name != "content-type"]
    send_whole(passage, 200, body, [("content-type", "application/json"), *headers])
    await room(passage)


async def translated(passage: Passage, translation: Translation, reply: Mapping[str, Any]) -> bytes:
    """A whole reply as the client's API tells it; kept, where somebody wants to."""
    with mapped():
        body = translation.reply(reply)
        if passage.keep is None:
            return body
        await passage.keep()
        return translation.reply(reply)  # it may say now that it could not be kept


async def header(passage: Passage, opening: Opening) -> Exchange:
    """Wait for the response's header.

    Raises:
        DeadlineError: `connect`, `header` or `total`.
        UpstreamError: see `Opening.header`.
    """
    try:
        exchange = await opening.header(passage.total_at)
    except TimeoutError:
        raise expired("total", passage.limits) from None
    passage.record.mark("header", passage.clock())
    return exchange


async def read_body(passage: Passage, exchange: Exchange, countdown: Countdown, begun: bytes = b"") -> bytes:
    """The whole body, under the deadlines and the limit of size; whatever comes counts as a token.

    Args:
        begun: what has been read of it.
    """
    if len(begun) > passage.reply_limit_bytes:
        raise _too_long()
    parts = [begun] if begun else []
    size = len(begun)
    while chunk := await _next_chunk(passage, exchange, countdown):
        size += len(chunk)
        if size > passage.reply_limit_bytes:
            raise _too_long()
        parts.append(chunk)
        countdown.said(passage.clock(), token=True)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _next_chunk(passage: Passage, exchange: Exchange, countdown: Countdown) -> bytes:
    while True:
        try:
            return await exchange.read(countdown.next_at())
        except TimeoutError:
            if (error := countdown.due(passage.clock())) is not None:
                raise error from None


def _too_long() -> UpstreamError:
    return UpstreamError("the upstream's reply is longer than [limits] reply_bytes")


def parsed(body: bytes, content_type: str) -> dict[str, Any]:
    """A reply's object.

    Raises:
        UpstreamCut: it is no whole JSON.
        UpstreamError: it is a stream, or no object.
    """
    if content_type == EVENT_STREAM:
        raise UpstreamError("asked for one JSON object, the upstream answered with a stream")
    try:
        reply = parse(body)
    except ValueError as error:
        raise UpstreamCut(f"the upstream's reply is no whole JSON ({error})") from error
    if not isinstance(reply, dict):
        raise UpstreamError("the upstream's reply is JSON, but no object")
    return reply


def written(reply: Mapping[str, Any]) -> bytes:
    """A reply that was read in other words, as bytes.

    Raises:
        MalformedReply: it has what no JSON can carry.
    """
    try:
        return orjson.dumps(reply)
    except orjson.JSONEncodeError as error:
        raise MalformedReply(str(error)) from error


class _Folding:
    """Reads a stream to its end."""

    def __init__(self, passage: Passage, exchange: Exchange) -> None:
        self._passage = passage
        self._exchange = exchange
        self._countdown = Countdown(passage.limits, passage.clock(), keepalive=False, began_at=passage.began_at)
        self._splitter = Splitter()
        self.story = passage.dialect.follow(passage.promises.any, passage.choices)
        self.fold = passage.dialect.fold(passage.message_id, passage.model)

    async def run(self) -> None:
        """Fold until the engine ends."""
        size = 0
        try:
            while not self.story.done and (chunk := await _next_chunk(self._passage, self._exchange, self._countdown)):
                size += len(chunk)
                if size > self._passage.reply_limit_bytes:
                    raise _too_long()
                for event in split(self._splitter, chunk):
                    self._take(event)
        finally:
            self._passage.record.usage = self.story.usage
        if not self.story.finished:
            raise UpstreamCut("the upstream's reply ended before it said that it was finished")
        await let_it_end(self._passage, self._exchange)

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
            raise engine_failure(seen.chunk)
        if beat is not Beat.PROGRESS:
            with mapped():
                self.fold.add(seen.chunk)


async def let_it_end(passage: Passage, exchange: Exchange) -> bytes:
    """Give an engine that has said its last word a moment to end its body; what came of it still."""
    rest = []
    until = passage.clock() + _LAST_BYTES_S
    with contextlib.suppress(TimeoutError, UpstreamError):
        while chunk := await exchange.read(until):
            rest.append(chunk)
    exchange.close()
    return b"".join(rest)


class mapped:  # noqa: N801 a context manager, written out since a generator's costs more than what it guards
    """What is not of an API's shape is the engine's fault."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, MalformedReply):
            raise _malformed(error) from error


def _malformed(error: MalformedReply) -> UpstreamError:
    return UpstreamError(f"the engine's reply is not of the API's shape: {error}")


class EngineFailed(UpstreamError):
    """The engine itself reported an error inside its stream."""


def engine_failure(chunk: Mapping[str, Any]) -> EngineFailed:
    """The error for an engine that reports one inside its stream; one that blames the caller is told as such."""
    error = chunk["error"]
    text = error.get("message", "") if isinstance(error, dict) else error
    code = error.get("code") if isinstance(error, dict) else None
    is_callers = isinstance(code, int) and 400 <= code < 500 and code not in BUSY and code not in OPERATORS
    # Half a surrogate pair, which a lenient reader lets through, can be written nowhere.
    plain = str(text)[:_REASON_CHARS].encode("utf-8", "replace").decode()
    return EngineFailed(f"the engine failed: {plain}", status=code if is_callers else None)
