"""The inference doors: each takes a request in, hands it to the dispatcher, and tells of failures in its API's shape.
Driver; what an API's request means is its own module's to say.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from lumbre.api.access import key_in
from lumbre.api.body import parse_object
from lumbre.api.openai_schema import Shape, check
from lumbre.api.reply import Reply
from lumbre.api.request import Request
from lumbre.api.voices import Voice
from lumbre.core.errors import CallerError, LumbreError
from lumbre.gateway import hints
from lumbre.gateway.hints import Hints
from lumbre.runtime.call import Call
from lumbre.runtime.gateway import CUT_OFF, Gateway
from lumbre.runtime.keys import digest
from lumbre.wire.headers import forwarded_request

_AT_ONCE_BYTES = 262_144
"""A body up to here is looked at between two turns of the loop; a larger one beside the loop."""

_AT_ONCE_PARTS = 2_000
"""The same for the turns and blocks of a conversation that is told in other words."""

T = TypeVar("T")

log = logging.getLogger(__name__)

MakeCall = Callable[[str, dict[str, Any], dict[str, str], Hints], Awaitable[Call]]
"""Makes the call of a request: its decision's id, its body (types checked), the headers that go upstream, its hints."""


class Inference:
    """One path that an engine answers.

    Args:
        endpoint: below `/v1`, for records.
        shape: the types of its body.
        call: what it asks for.
    """

    def __init__(self, gateway: Gateway, voice: Voice, endpoint: str, shape: Shape, call: MakeCall) -> None:
        self._voice = voice
        self._gateway = gateway
        self._endpoint = endpoint
        self._shape = shape
        self._call = call

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer one request; whatever happens, the client gets a reply in its API's shape."""
        gateway = self._gateway
        decision = self._begin(reply)
        call: Call | None = None
        try:
            try:
                call = await self._read(decision, request)
                gateway.refuse_if_draining()
            except LumbreError as error:
                gateway.records.turned_away(decision, self._endpoint, error)
                raise
            gateway.begin_answer(decision, reply.task)
            try:
                await self._answer(call, reply)
            finally:
                gateway.end_answer(decision)
        except LumbreError as error:
            await self._tell(reply, error, decision, call)
        except asyncio.CancelledError as error:
            if error.args != (CUT_OFF,):
                raise
            reply.task.uncancel()  # it still has something to say
            late = LumbreError("the gateway stopped before the answer was finished", status=503, code="draining")
            await self._tell(reply, late, decision, call)
        except Exception:  # shape: the last line of defence; the log gets it whole, the client without its insides
            log.exception("request %s failed", decision)
            await self._tell(reply, LumbreError("the gateway failed; its log has the details"), decision, call)

    def turn_away(self, reply: Reply, error: LumbreError) -> None:
        """See `front.Door`."""
        decision = self._begin(reply)
        self._gateway.records.turned_away(decision, self._endpoint, error)
        self._voice.refuse(reply, error, decision)

    def _begin(self, reply: Reply) -> str:
        decision = self._gateway.new_decision()
        if self._voice.id_header is not None:
            reply.also = (*reply.also, (self._voice.id_header, decision))
        return decision

    async def _tell(self, reply: Reply, error: LumbreError, decision: str, call: Call | None) -> None:
        retelling = None if call is None else call.retelling
        if retelling is not None and retelling.blame is not None and isinstance(error, CallerError):
            error = retelling.blame(error)
        await self._voice.tell(reply, error, decision, None if retelling is None else retelling.error_event)

    async def _answer(self, call: Call, reply: Reply) -> None:
        await self._gateway.dispatcher.answer(call, reply)

    async def _read(self, decision: str, request: Request) -> Call:
        body = await understand(request.body, self._shape)
        told = hints.read(request.headers, body.get("lumbre"))
        call = await self._call(decision, body, forwarded_request(request.headers), told)
        call.is_large = call.is_large or _is_large(request.body)
        if self._gateway.knows_keys:
            call.key = digest(key_in(request.headers))
        return call


async def understand(raw: bytes, shape: Shape) -> dict[str, Any]:
    """Parse a body and check its types; a large one in a thread, so that the loop goes on meanwhile.

    Raises:
        CallerError: see `parse_object` and `check`.
    """
    return await asyncio.to_thread(_understood, raw, shape) if _is_large(raw) else _understood(raw, shape)


def _is_large(raw: bytes) -> bool:
    return len(raw) > _AT_ONCE_BYTES


def _understood(raw: bytes, shape: Shape) -> dict[str, Any]:
    body = parse_object(raw)
    check(body, shape)
    return body


def are_many(parts: int) -> bool:
    """Whether what grows with a request's parts is to be done beside the loop."""
    return parts > _AT_ONCE_PARTS


async def beside(parts: int, act: Callable[[], T]) -> T:
    """Do what grows with a request's parts: at once for few, in a thread for many, so that the loop goes on."""
    return await asyncio.to_thread(act) if are_many(parts) else act()
