"""Serves connections on a socket until it is told to stop. Driver; `cli.server` says when."""

import asyncio
import contextlib
import socket

from lumbre.api.bounds import Bounds
from lumbre.api.connection import Connection
from lumbre.api.front import Front
from lumbre.core.outbox import Outbox


class Server:
    """The server of one socket."""

    def __init__(self, front: Front, bounds: Bounds) -> None:
        self._front = front
        self._bounds = bounds
        self._server: asyncio.Server | None = None

    async def open(self, sock: socket.socket) -> None:
        """Begin to serve; the socket listens already."""
        loop = asyncio.get_running_loop()
        front, bounds, outbox = self._front, self._bounds, Outbox(loop.call_soon, self._front.is_calm)
        self._server = await loop.create_server(lambda: Connection(front, bounds, outbox), sock=sock, backlog=2048)

    async def close(self, last_writes_s: float) -> None:
        """Take no new connection, and close each when its answer is out; after so many seconds, whatever it does."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._front.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(last_writes_s):
                await self._front.empty.wait()
        for connection in tuple(self._front.connections):
            connection.abort()
