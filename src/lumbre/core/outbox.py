"""What busy connections write in one turn of the event loop leaves together, at the turn's end. Knows no loop: it is
told how to be called soon.

To write to a socket is to wake whoever reads it, and to wake a process that sleeps costs more than all the rest of a
small write. Of writes that follow each other closely, most find the reader awake. A connection that is busy alone has
nothing to wait for.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

_HELD_BYTES = 64 * 1024
"""A connection that holds more sends it at once, so that its transport can say that the other side does not read."""


class Sink(Protocol):
    """The part of a transport that is written to."""

    def write(self, data: bytes, /) -> None:
        """Send, or keep for sending."""

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""


class Outbox:
    """The writes of one turn.

    Args:
        soon: calls a function when what is due in this turn is done, as a loop's `call_soon` does.
        alone: whether no more than one connection has work in hand.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], object], alone: Callable[[], bool]) -> None:
        self._soon = soon
        self.alone = alone
        self._outlets: deque[Outlet] = deque()

    def add(self, outlet: "Outlet") -> None:
        """An outlet holds something."""
        if not self._outlets:
            self._soon(self._empty)
        self._outlets.append(outlet)

    def _empty(self) -> None:
        try:
            for _ in range(len(self._outlets)):
                self._outlets.popleft().flush()
        finally:
            if self._outlets:  # one has failed, or has made another write
                self._soon(self._empty)


class Outlet:
    """One connection's way out.

    Attributes:
        held: bytes that the transport has not been given yet.
    """

    __slots__ = ("_outbox", "_parts", "_sink", "held")

    def __init__(self, outbox: Outbox, sink: Sink) -> None:
        self._outbox = outbox
        self._sink = sink
        self._parts: list[bytes] = []
        self.held = 0

    def write(self, data: bytes) -> None:
        """Send at the turn's end, behind what was written before; at once where nobody else writes."""
        if not self._parts:
            if self._outbox.alone():
                if not self._sink.is_closing():
                    self._sink.write(data)
                return
            self._outbox.add(self)
        self._parts.append(data)
        self.held += len(data)
        if self.held > _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what is held now; ask this before the transport is asked for anything that has to come after it."""
        if not self._parts or self._sink.is_closing():
            return  # what is held shows then that it was not sent
        parts, self._parts = self._parts, []
        size, self.held = self.held, 0
        if len(parts) == 1:
            self._sink.write(parts[0])
        elif size <= _HELD_BYTES:
            self._sink.write(b"".join(parts))
        else:  # what is large is not copied
            for part in parts:
                self._sink.write(part)

    def drop(self) -> None:
        """Send nothing of what is held."""
        self._parts = []
        self.held = 0
