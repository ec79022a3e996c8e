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

EXPOSED = ("Retry-After", "X-Request-Id", "Request-Id", "X-Lumbre-Tier", "X-Lumbre-Node", "X-Lumbre-Decision")
"""Headers that a page may read."""


class Door(Protocol):
    """What answers a POST to one path."""

    @property
    def voice(self) -> Voice:
        """How it tells of failures."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer one request, whatever comes of it."""


class Front:
    """The one place that every request passes.

    Args:
        doors: by path.
        app: everything else.
    """

    def __init__(self, doors: Mapping[str, Door], app: AsgiBridge, access: Access) -> None:
        self._doors = doors
        self._app = app
        self._access = access
        self.connections: set[Connection] = set()
        self.empty = asyncio.Event()
        """No client is connected."""
        self.empty.set()

    def admit(self, request: Request) -> None:
        """See `Gatekeeper`."""
        headers = request.headers
        preflight = request.method == "OPTIONS" and "access-control-request-method" in headers
        self._access.check(request.path, headers, preflight=preflight)
        door = self._doors.get(request.path)
        if door is None or preflight:
            request.handler = self._app
        elif request.method == "POST":
            request.handler = door if "origin" not in headers else self._for_page(door)
        else:
            message = f"{request.path} takes POST, not {request.method}"
            raise CallerError(message, status=405, code="method_not_allowed", headers={"allow": "POST"})

    def refuse(self, reply: Reply, request: Request, error: LumbreError) -> None:
        """See `Gatekeeper`."""
        self._voice(request).refuse(reply, error, None)

    def opened(self, connection: Connection) -> None:
        """See `Gatekeeper`."""
        self.connections.add(connection)
        self.empty.clear()

    def lost(self, connection: Connection) -> None:
        """See `Gatekeeper`."""
        self.connections.discard(connection)
        if not self.connections:
            self.empty.set()

    def _voice(self, request: Request) -> Voice:
        door = self._doors.get(request.path)
        if door is not None:
            return door.voice
        # The list of models belongs to both APIs; this header is one's alone.
        return ANTHROPIC if "anthropic-version" in request.headers else OPENAI

    def _for_page(self, door: Door) -> "_PageDoor":
        return _PageDoor(door, self._access)


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
