"""Runs the gateway on a socket until it is told to stop, and drains before it goes. Driver; `up` composes it."""

import asyncio
import signal
import socket
from collections.abc import Callable

from lumbre.api.server import Server
from lumbre.cli.words import Words
from lumbre.core.errors import OperatorError
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.tasks import TaskRoom

_LAST_WRITES_S = 2

Tell = Callable[[str, dict[str, object]], None]
"""Tells whoever watches that something happened: `draining`, `cut_off`, `stopped`, and what belongs to it."""


def bind(host: str, port: int, words: Words) -> socket.socket:
    """Take the address.

    Raises:
        OperatorError: it is taken, or none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host.strip("[]"), port))
    except OSError as error:
        sock.close()
        where, reason = f"{host}:{port}", error.strerror or str(error)
        raise OperatorError(words("serve.taken", where=where, reason=reason), code="cannot_listen") from error
    sock.listen(2048)
    sock.setblocking(False)
    return sock


def url_of(sock: socket.socket) -> str:
    """The address as a client on this machine writes it."""
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 not a place to bind but one to recognise
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Running:
    """A gateway's server while it runs.

    Args:
        tell: where the way down is reported.
    """

    def __init__(self, server: Server, gateway: Gateway, sock: socket.socket, tell: Tell) -> None:
        self._gateway = gateway
        self._sock = sock
        self._tell = tell
        self._tasks = TaskRoom()
        self._signalled = asyncio.Event()
        self._hurried = asyncio.Event()
        self.stopped_by: signal.Signals | None = None
        self._server = server

    def heed_signals(self) -> None:
        """From now on a signal is a wish to stop, even before `serve`."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(each, self._on_signal, each)

    async def serve(self) -> None:
        """Serve until a signal, then drain: what runs is finished, what is new gets a 503. A second signal cuts off."""
        try:
            await self._server.open(self._sock)
            await self._signalled.wait()
            self._tell("draining", {"answers": self._gateway.answers})
            await self._drain()
        finally:
            await self._server.close(_LAST_WRITES_S)
            await self._tasks.close()
            await self._gateway.close()

    async def _drain(self) -> None:
        draining = self._tasks.spawn(self._gateway.drain(), name="drain")
        hurry = self._tasks.spawn(self._hurried.wait(), name="wait for a second signal")
        await asyncio.wait({draining, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            self._tell("cut_off", {"answers": self._gateway.answers})
            await self._gateway.cut_off()
        await draining
        hurry.cancel()

    def _on_signal(self, which: signal.Signals) -> None:
        if self._signalled.is_set():
            self._hurried.set()
        self.stopped_by = which
        self._signalled.set()
