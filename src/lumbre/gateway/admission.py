"""Who may start now, who waits, and who is turned away. Pure; the tier's driver holds the clock and wakes the waiting.

First come, first served for each upstream: a request that wants two slots keeps the slots that come free until it has
both, so nobody starves behind a stream of small ones. Everything is keyed by the request's id, so leaving twice, or
leaving without having come, changes nothing and no counter can go below zero.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(slots=True)  # not frozen: every request makes one
class Admitted:
    """The request runs on this upstream and holds its slots until it leaves."""

    request: str
    upstream: str


@dataclass(frozen=True)
class Queued:
    """The request waits."""

    request: str


@dataclass(frozen=True)
class Refused:
    """There is no room to wait."""

    request: str


@dataclass(frozen=True)
class _Ticket:
    request: str
    weights: Mapping[str, int]
    """What it fills on each upstream that may run it."""


class Admission:
    """The slots of one tier's upstreams and the line before them.

    Args:
        max_waiting: how long the line may be; 0 turns away whoever cannot start at once.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._slots: dict[str, int] = {}
        self._running: dict[str, tuple[str, int]] = {}
        self._taken: dict[str, int] = {}
        self._line: dict[str, _Ticket] = {}
        self._turn = 0
        self._last_turn: dict[str, int] = {}
        self._trials: dict[str, str | None] = {}
        """Upstreams that are on trial, each with the request that tries it."""
        self._doubtful: set[str] = set()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    def in_flight(self, upstream: str) -> int:
        """How many requests run on an upstream."""
        return sum(1 for name, _ in self._running.values() if name == upstream)

    def held(self, upstream: str) -> int:
        """How many of an upstream's slots are taken."""
        return self._taken.get(upstream, 0)

    def waiting_for(self, upstream: str) -> int:
        """How many of the waiting could run on an upstream."""
        return sum(1 for ticket in self._line.values() if upstream in ticket.weights)

    @property
    def has_trials(self) -> bool:
        """Whether an upstream is on trial."""
        return bool(self._trials)

    def tries(self, upstream: str, request: str) -> bool:
        """Whether this request is the one that tries an upstream."""
        return self._trials.get(upstream) == request

    def on_trial(self, upstream: str) -> bool:
        """Whether a request tries an upstream that is on trial."""
        return self._trials.get(upstream) is not None

    def resize(self, upstream: str, slots: int, *, trial: bool = False, doubtful: bool = False) -> list[Admitted]:
        """Set how many slots an upstream has now (0: it takes nothing for the moment); return who may start.

        Args:
            trial: one request at a time, however many slots; its leaving, in whatever way, gives the trial back.
            doubtful: it has just failed: others come before it, however busy they are.
        """
        self._slots[upstream] = slots
        if trial:
            self._trials.setdefault(upstream, None)
        else:
            self._trials.pop(upstream, None)
        if doubtful:
            self._doubtful.add(upstream)
        else:
            self._doubtful.discard(upstream)
        return self._advance()

    def arrive(self, request: str, weight: int, upstreams: Mapping[str, int]) -> Admitted | Queued | Refused:
        """A request comes.

        Args:
            request: its id, not seen before.
            weight: the slots it wants at once; more than an upstream ever has is all that this one has.
            upstreams: those that may run it, each with the most slots it has when it is well.
        """
        weights = {name: min(weight, full) for name, full in upstreams.items()}
        if not self._line:  # nobody to be fair to
            upstream = self._free(weights, ())
            if upstream is not None:
                return self._start(request, upstream, weights[upstream])
        ticket = _Ticket(request, weights)
        self._line[request] = ticket
        for admitted in self._advance():
            if admitted.request == request:
                return admitted
        if len(self._line) > self._max_waiting:
            del self._line[request]
            return Refused(request)
        return Queued(request)

    def leave(self, request: str) -> list[Admitted]:
        """A request ends, gives up waiting or is gone; return who may start in its place."""
        if (ran := self._running.pop(request, None)) is not None:
            upstream, weight = ran
            self._taken[upstream] -= weight
            if self._trials.get(upstream) == request:
                self._trials[upstream] = None
        elif self._line.pop(request, None) is None:
            return []
        return self._advance()

    def _advance(self) -> list[Admitted]:
        if not self._line:
            return []
        started = []
        kept: set[str] = set()
        for ticket in tuple(self._line.values()):
            upstream = self._free(ticket.weights, kept)
            if upstream is None:
                kept.update(ticket.weights)
                continue
            del self._line[ticket.request]
            started.append(self._start(ticket.request, upstream, ticket.weights[upstream]))
        return started

    def _free(self, weights: Mapping[str, int], kept: Collection[str]) -> str | None:
        """The upstream that has room now: one whose trial is free, for nothing else brings it back; then one that is
        well before one that has just failed; then the least busy; then the one whose turn is longest ago.
        """
        fits = [
            name
            for name, weight in weights.items()
            if name not in kept and self._taken.get(name, 0) + weight <= self._slots.get(name, 0)
        ]
        if self._trials:
            fits = [name for name in fits if self._trials.get(name) is None]
        if len(fits) < 2:
            return fits[0] if fits else None
        return min(fits, key=self.rank)

    def rank(self, name: str) -> tuple[bool, bool, int, int, str]:
        """The lowest is asked first."""
        no_trial = self._trials.get(name, name) is not None
        return no_trial, name in self._doubtful, self._taken.get(name, 0), self._last_turn.get(name, 0), name

    def _start(self, request: str, upstream: str, weight: int) -> Admitted:
        self._turn += 1
        self._last_turn[upstream] = self._turn
        self._taken[upstream] = self._taken.get(upstream, 0) + weight
        self._running[request] = (upstream, weight)
        if upstream in self._trials:
            self._trials[upstream] = request
        return Admitted(request, upstream)
