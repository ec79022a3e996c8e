"""What the dispatcher needs of whoever asked: a place to put the reply. The doors implement it for their transport."""

from collections.abc import Sequence
from typing import Protocol

Headers = Sequence[tuple[str, str]]


class Client(Protocol):
    """The one who waits for the reply. When it goes away, the task that serves it is cancelled.

    Writing never waits. Whoever writes more than one piece asks `congested` between them, and waits for `room`, so
    that a slow reader slows its upstream.
    """

    @property
    def started(self) -> bool:
        """Whether the status has been sent, so that an error can only come as an event."""

    @property
    def congested(self) -> bool:
        """Whether the transport holds as much as it should of what the client has not taken in yet."""

    def head(self, status: int, headers: Headers) -> None:
        """Send status and headers; the body follows in pieces."""

    def piece(self, data: bytes) -> None:
        """Send a piece of the body."""

    def end(self) -> None:
        """The body is complete."""

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a reply of one piece."""

    async def room(self) -> None:
        """Wait until the transport can take more; the caller sets the deadline."""
