"""When a running request is due for what: a keep-alive, or one of its deadlines. Pure; the relay holds the clock."""

from dataclasses import dataclass

from lumbre.core.errors import ConnectExpired, DeadlineError


@dataclass(frozen=True)
class Deadlines:
    """The five deadlines and the keep-alive interval, in seconds."""

    connect_s: float
    header_s: float
    first_token_s: float
    idle_s: float
    total_s: float
    keepalive_s: float


_MEANING = {
    "connect": "the upstream took no connection",
    "header": "the upstream sent no response header",
    "first_token": "the upstream sent no token",
    "idle": "the upstream said nothing more",
    "total": "the answer was not finished",
}


def expired(name: str, limits: Deadlines) -> DeadlineError:
    """The error for a deadline that passed: `connect`, `header`, `first_token`, `idle` or `total`."""
    kind = ConnectExpired if name == "connect" else DeadlineError
    return kind(name, getattr(limits, f"{name}_s"), _MEANING[name])


class Countdown:
    """Follows one exchange. All times are in seconds on the caller's monotonic clock.

    Args:
        limits: the deadlines.
        now: when the wait for the first token begins.
        keepalive: whether the client gets keep-alive comments (streams only).
        began_at: when the request was dispatched; `now` if not said.
    """

    def __init__(self, limits: Deadlines, now: float, *, keepalive: bool, began_at: float | None = None) -> None:
        self._limits = limits
        self._total_at = (now if began_at is None else began_at) + limits.total_s
        self._phase = "first_token"
        self._phase_at = now + limits.first_token_s
        self._keepalive_at = now + limits.keepalive_s if keepalive else None

    def said(self, now: float, *, token: bool) -> None:
        """The upstream sent an event; the first token ends the wait for it, every later event the idle time."""
        if token or self._phase == "idle":
            self._phase = "idle"
            self._phase_at = now + self._limits.idle_s

    def sent(self, now: float) -> None:
        """The client was sent something."""
        if self._keepalive_at is not None:
            self._keepalive_at = now + self._limits.keepalive_s

    def next_at(self) -> float:
        """When to look again."""
        due = min(self._total_at, self._phase_at)
        return due if self._keepalive_at is None else min(due, self._keepalive_at)

    def due(self, now: float) -> DeadlineError | None:
        """The deadline that has passed; None if only a keep-alive is due."""
        if now >= self._total_at:
            return expired("total", self._limits)
        if now >= self._phase_at:
            return expired(self._phase, self._limits)
        return None
