"""The OpenAI door: takes a request in, hands it to the dispatcher, tells of failures in OpenAI's shape. ASGI driver."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from lumbre.api.asgi_client import AsgiClient, until_gone
from lumbre.api.body import ClientGone, parse_object, read_body
from lumbre.api.openai_schema import Request, check
from lumbre.core.errors import LumbreError
from lumbre.gateway import hints
from lumbre.runtime.dispatch import Call, decision_headers
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.tasks import TaskRoom
from lumbre.wire.headers import forwarded_request
from lumbre.wire.openai.errors import error_body, error_event

_LAST_WORDS_S = 1.0
_AT_ONCE_BYTES = 262_144
"""A body up to here is looked at between two turns of the loop; a larger one beside the loop."""

log = logging.getLogger(__name__)


class Inference:
    """One endpoint that an engine answers; an ASGI app."""

    def __init__(self, gateway: Gateway, endpoint: str, shape: type[Request]) -> None:
        self._gateway = gateway
        self._endpoint = endpoint
        self._shape = shape
        self._tasks = TaskRoom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever happens, the client gets a reply in OpenAI's shape."""
        decision = self._gateway.new_decision()
        client = AsgiClient(send)
        try:
            try:
                call = await self._read(decision, scope, receive)
                self._gateway.refuse_if_draining()
            except LumbreError as error:
                self._gateway.records.turned_away(decision, self._endpoint, error)
                raise
            await self._answer(call, client, receive)
        except ClientGone:
            return
        except LumbreError as error:
            await tell(client, error, decision)
        except Exception:  # shape: the last line of defence; the log gets it whole, the client without its insides
            log.exception("request %s failed", decision)
            await tell(client, LumbreError("the gateway failed; its log has the details"), decision)

    async def _read(self, decision: str, scope: Scope, receive: Receive) -> Call:
        headers = header_map(scope)
        limits = self._gateway.settings.limits
        raw = await read_body(headers, receive, limits.body_bytes, limits.body_s)
        body = await understand(raw, self._shape)
        told = hints.read(headers, body.get("lumbre"))
        return Call(decision, self._endpoint, body, forwarded_request(headers), told)

    async def _answer(self, call: Call, client: AsgiClient, receive: Receive) -> None:
        """Run the answer beside a watch on the connection, and cancel it when the client goes."""
        work = self._tasks.spawn(self._outcome(call, client), name=f"answer {call.decision}")
        watch = self._tasks.spawn(until_gone(receive), name=f"watch {call.decision}")
        try:
            with self._gateway.answering(call.decision, work):
                await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    if not client.ended:
                        work.cancel()
                    await asyncio.wait({work})
        finally:
            work.cancel()
            watch.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
        if not work.cancelled():
            if (error := work.result()) is not None:
                raise error
        elif watch.cancelled():
            await self._tell_cut_off(call, client)

    async def _outcome(self, call: Call, client: AsgiClient) -> LumbreError | None:
        """What came of an answer. A failure of the house's own kind is a value: it is told, and is none of a task."""
        try:
            await self._gateway.dispatcher.answer(call, client)
        except LumbreError as error:
            return error
        return None

    async def _tell_cut_off(self, call: Call, client: AsgiClient) -> None:
        error = LumbreError("the gateway stopped before the answer was finished", status=503, code="draining")
        await tell(client, error, call.decision)


async def understand(raw: bytes, shape: type[Request]) -> dict[str, Any]:
    """Parse a body and check its types; a large one in a thread, so that the loop goes on meanwhile.

    Raises:
        CallerError: see `parse_object` and `check`.
    """
    if len(raw) <= _AT_ONCE_BYTES:
        return _understood(raw, shape)
    return await asyncio.to_thread(_understood, raw, shape)


def _understood(raw: bytes, shape: type[Request]) -> dict[str, Any]:
    body = parse_object(raw)
    check(body, shape)
    return body


def header_map(scope: Scope) -> dict[str, str]:
    """The request's headers; names in lower case, the last of several wins."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def tell(client: AsgiClient, error: LumbreError, decision: str | None) -> None:
    """Tell the client what went wrong: a reply of its own, or the last event of a stream that has begun.

    A client that does not even read that, or has half of another reply, is left alone: its connection is cut.
    """
    if not client.takes_an_error:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS_S):
            if client.started:
                await client.piece(error_event(error, decision))
            else:
                body = error_body(error, decision)
                await client.head(error.status, error_headers(error, decision, len(body)))
                await client.piece(body)
            await client.end()


def error_headers(error: LumbreError, decision: str | None, length: int) -> list[tuple[str, str]]:
    """The headers of an error reply."""
    extra: Mapping[str, Any] = {**error.headers}
    if error.retry_after_s is not None:
        extra = {**extra, "retry-after": str(error.retry_after_s)}
    known = decision_headers(decision) if decision else []
    return [("content-type", "application/json"), ("content-length", str(length)), *extra.items(), *known]
