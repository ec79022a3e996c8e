"""What the dispatcher needs of whoever asked: a place to put the reply. The doors implement it for their transport."""

from collections.abc import Sequence
from typing import Protocol

Headers = Sequence[tuple[str, str]]


class Client(Protocol):
    """The one who waits for the reply. When it goes away, the task that serves it is cancelled."""

    @property
    def started(self) -> bool:
        """Whether the status has been sent, so that an error can only come as an event."""

    async def head(self, status: int, headers: Headers) -> None:
        """Send status and headers; the body follows in pieces."""

    async def piece(self, data: bytes) -> None:
        """Send a piece of the body; returns when the transport can take more, so a slow reader slows its upstream."""

    async def end(self) -> None:
        """The body is complete."""
