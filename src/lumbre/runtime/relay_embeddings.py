"""Carries embeddings: one call, or several one after the other for an engine that cannot be cancelled inside a call.
Driver; how a request is cut and its replies are put together is `wire.openai.embeddings`'.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from lumbre.backends.exchange import Exchange, Opening
from lumbre.gateway.deadlines import Countdown
from lumbre.runtime.passage import Passage, check_encoding, refusal, relay_refusal, room, send_whole
from lumbre.runtime.relay_json import header, mapped, parsed, read_body
from lumbre.wire.headers import forwarded_reply
from lumbre.wire.openai.embeddings import Merge


async def relay_embeddings(
    passage: Passage,
    request: Mapping[str, Any],
    parts: Iterable[Mapping[str, Any]],
    send: Callable[[Mapping[str, Any]], Opening],
) -> None:
    """Ask for the parts of a request in their order and send one reply.

    Args:
        send: puts one part to the engine.
    """
    merge = Merge(request)
    headers: list[tuple[str, str]] = []
    for part in parts:
        opening = send(part)
        try:
            exchange = await header(passage, opening)
        finally:
            opening.close()
        with exchange:
            if exchange.status >= 300:
                await _refused(passage, exchange, merge, part)
                return
            check_encoding(exchange)
            countdown = Countdown(passage.limits, passage.clock(), keepalive=False, began_at=passage.began_at)
            body = await read_body(passage, exchange, countdown)
            reply = parsed(body, exchange.content_type)
        with mapped():
            merge.add(reply, part)
        headers = forwarded_reply(exchange.headers)
    passage.record.usage = merge.usage or passage.record.usage
    with mapped():
        whole = merge.body()
    send_whole(passage, 200, whole, headers)
    await room(passage)


async def _refused(passage: Passage, exchange: Exchange, merge: Merge, part: Mapping[str, Any]) -> None:
    """Pass on a refusal; one that is the caller's fault, and says otherwise, is told as what it is."""
    body = await refusal(passage, exchange)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if (error := merge.refused(exchange.status, document, part)) is not None:
        raise error
    await relay_refusal(passage, exchange, body)
