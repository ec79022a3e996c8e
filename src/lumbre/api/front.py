"""Decides who may come in and who answers: an inference door, or the ordinary app. The connections ask it. It opens no
socket.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from lumbre.api.access import Access
from lumbre.api.asgi_bridge import AsgiBridge
from lumbre.api.connection import Connection
from lumbre.api.reply import Reply
from lumbre.api.request import Request
from lumbre.api.voices import ANTHROPIC, OPENAI, Voice
from lumbre.core.errors import CallerError, LumbreError
from lumbre.runtime.client import Headers
from lumbre.runtime.dispatch import decision_headers
from lumbre.runtime.gateway import Gateway

_PAGE_BYTES = 65_536
"""Of a body that is sent to a page, which wants none."""

EXPOSED = ("Retry-After", "X-Request-Id", "Request-Id", "X-Lumbre-Tier", "X-Lumbre-Node", "X-Lumbre-Decision")
"""Headers that a page may read."""


class Door(Protocol):
    """What answers a POST to one path."""

    def turn_away(self, reply: Reply, error: LumbreError) -> None:
        """Refuse a request whose head was enough, or whose bytes were none."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer one request, whatever comes of it."""


class Front:
    """The one place that every request passes.

    Args:
        doors: by path.
        app: everything else.
    """

    def __init__(self, doors: Mapping[str, Door], app: AsgiBridge, access: Access, gateway: Gateway) -> None:
        self._gateway = gateway
        self._doors = doors
        self._app = app
        self._access = access
        self.connections: set[Connection] = set()
        self.empty = asyncio.Event()
        """No client is connected."""
        self.empty.set()

    def is_calm(self) -> bool:
        """Whether no more than one answer is being made."""
        return self._gateway.answers < 2

    def admit(self, request: Request) -> None:
        """See `Gatekeeper`."""
        headers = request.headers
        preflight = request.method == "OPTIONS" and "access-control-request-method" in headers
        self._access.check(request.path, headers, preflight=preflight)
        door = self._doors.get(request.path)
        if door is None or preflight:
            request.most_bytes = _PAGE_BYTES
            request.handler = self._app
            if "anthropic-version" in headers:
                request.decision = self._gateway.new_decision()
                request.handler = self._numbered
        elif request.method == "POST":
            request.handler = door if "origin" not in headers else self._for_page(door)
        else:
            message = f"{request.path} takes POST, not {request.method}"
            raise CallerError(message, status=405, code="method_not_allowed", headers={"allow": "POST"})

    def refuse(self, reply: Reply, request: Request, error: LumbreError) -> None:
        """See `Gatekeeper`."""
        origin = request.headers.get("origin")
        if origin is not None and self._access.allows_page(origin):
            reply.also = page_headers(origin)
        door = self._doors.get(request.path)
        if door is None:
            # The list of models belongs to both APIs; this header is one's alone.
            voice = ANTHROPIC if "anthropic-version" in request.headers else OPENAI
            decision = self._gateway.new_decision() if voice is ANTHROPIC else None
            reply.also = (*reply.also, *id_headers(voice, decision))
            voice.refuse(reply, error, decision)
        else:
            door.turn_away(reply, error)

    async def _numbered(self, request: Request, reply: Reply) -> None:
        """Every reply of Anthropic's API has an id, that of a page too."""
        reply.also = (*id_headers(ANTHROPIC, request.decision), *decision_headers(request.decision or ""))
        await self._app(request, reply)

    def opened(self, connection: Connection) -> None:
        """See `Gatekeeper`."""
        self.connections.add(connection)
        self.empty.clear()

    def lost(self, connection: Connection) -> None:
        """See `Gatekeeper`."""
        self.connections.discard(connection)
        if not self.connections:
            self.empty.set()

    def _for_page(self, door: Door) -> "_PageDoor":
        return _PageDoor(door, self._access)


def id_headers(voice: Voice, decision: str | None) -> Headers:
    """The header by which a client of this API knows a request."""
    return [(voice.id_header, decision)] if voice.id_header is not None and decision is not None else []


class _PageDoor:
    """A door for a page's script: the reply says that the page may read it."""

    def __init__(self, door: Door, access: Access) -> None:
        self._door = door
        self._access = access

    async def __call__(self, request: Request, reply: Reply) -> None:
        origin = request.headers["origin"]
        if self._access.allows_page(origin):
            reply.also = page_headers(origin)
        await self._door(request, reply)


def page_headers(origin: str) -> Headers:
    """CORS' headers of a reply to a page of an allowed origin."""
    return [
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", ", ".join(EXPOSED)),
        ("vary", "Origin"),
    ]
