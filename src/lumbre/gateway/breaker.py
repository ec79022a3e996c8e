"""Decides whether an upstream gets all requests, one on trial, or none, from its probes and requests. Pure; the tier's
driver tells what was seen and keeps the time, and admission decides who makes the trial.

Probes and requests are counted apart, and so many in a row of either open the breaker: an engine that lists its models
while every completion fails is as broken as one that answers nobody. A node that keeps failing stays open longer each
time, up to a cap. What counts as a failure is the driver's to know: a caller's own mistake is none.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lumbre.gateway.engine_life import NoTransitionError


class BreakerState(enum.StrEnum):
    """What gets through."""

    CLOSED = "closed"
    """Everything."""
    OPEN = "open"
    """Nothing."""
    HALF_OPEN = "half_open"
    """One request, whose verdict decides."""


CLOSED, OPEN, HALF_OPEN = BreakerState

SHOWN: Mapping[BreakerState, str] = MappingProxyType(
    {CLOSED: "closed (flowing)", OPEN: "open (tripped)", HALF_OPEN: "half_open"}
)
"""The states in the words that people read: a closed switch stops what a closed breaker lets flow."""


class Seen(enum.StrEnum):
    """What was seen of the upstream."""

    PROBED_WELL = "probed_well"
    PROBE_FAILED = "probe_failed"
    SUCCEEDED = "succeeded"
    """A request. In `HALF_OPEN` only the trial's verdict may be told: the breaker cannot know it from a late one."""
    FAILED = "failed"
    """A request, by the upstream's fault."""
    TIME_PASSED = "time_passed"
    """Nothing but the clock; due at `Breaker.until`."""
    RESTARTED = "restarted"
    """A supervised engine is a new process."""


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """When it opens, and for how long.

    Attributes:
        failures: failed probes in a row, or failed requests in a row, that open it; 1 or more.
        open_s: how long the first opening lasts; each one after it, twice as long.
        most_open_s: how long no opening lasts longer than.
        jitter: 0 to 1, the largest part that an opening is shortened by.
        calm_s: closed for so long without a failure, it forgets how often it opened.
    """

    failures: int
    open_s: float
    most_open_s: float
    jitter: float
    calm_s: float


@dataclass(frozen=True, slots=True)
class Breaker:
    """One upstream's breaker. Times are the driver's monotonic seconds.

    Attributes:
        state: what gets through.
        failures: failed requests in a row.
        probe_failures: failed probes in a row.
        trips: openings since it was last calm.
        until: when the clock alone changes something: open, a trial may come; closed, `trips` are forgotten.
        since: when it came into its state, or its engine restarted.
        reason: the last failure's; None when it is closed and clean.
    """

    state: BreakerState = CLOSED
    failures: int = 0
    probe_failures: int = 0
    trips: int = 0
    until: float = 0.0
    since: float = 0.0
    reason: str | None = None

    @property
    def is_clean(self) -> bool:
        """Closed with no failure counted: another success is no news, and need not be told."""
        return self.state is CLOSED and not self.failures and not self.probe_failures

    @property
    def shown(self) -> str:
        """Its state in the words that people read."""
        return SHOWN[self.state]


Rule = Callable[[Breaker, float, str | None, BreakerLimits, float], Breaker]
"""From the breaker, now, the reason, the limits and the dice to the breaker after."""


def open_time_s(trips: int, limits: BreakerLimits, dice: float) -> float:
    """Seconds that the opening number `trips` (from 1) lasts: doubled each time, capped, then jittered.

    The jitter only shortens: it parts the trials of breakers that opened together, and the cap stays a promise.

    Args:
        trips: openings since it was last calm, this one included.
        limits: the breaker's.
        dice: 0 to 1, drawn anew.
    """
    doublings = min(trips - 1, 64)  # past every cap, and a year of trips overflows nothing
    return min(limits.open_s * 2.0**doublings, limits.most_open_s) * (1 - limits.jitter * dice)


def _stay(breaker: Breaker, *_: object) -> Breaker:
    return breaker


def _forgive_requests(breaker: Breaker, *_: object) -> Breaker:
    if not breaker.failures:
        return breaker
    return replace(breaker, failures=0, reason=breaker.reason if breaker.probe_failures else None)


def _forgive_probes(breaker: Breaker, now: float, *_: object) -> Breaker:
    calm = _forget_trips(breaker, now)
    if not calm.probe_failures:
        return calm
    return replace(calm, probe_failures=0, reason=calm.reason if calm.failures else None)


def _forget_trips(breaker: Breaker, now: float, *_: object) -> Breaker:
    return replace(breaker, trips=0) if breaker.trips and now >= breaker.until else breaker


def _count_request(breaker: Breaker, now: float, reason: str | None, limits: BreakerLimits, dice: float) -> Breaker:
    calm = _forget_trips(breaker, now)
    counted = replace(calm, failures=calm.failures + 1, until=now + limits.calm_s, reason=reason)
    return counted if counted.failures < limits.failures else _open(counted, now, limits, dice)


def _count_probe(breaker: Breaker, now: float, reason: str | None, limits: BreakerLimits, dice: float) -> Breaker:
    calm = _forget_trips(breaker, now)
    counted = replace(calm, probe_failures=calm.probe_failures + 1, until=now + limits.calm_s, reason=reason)
    return counted if counted.probe_failures < limits.failures else _open(counted, now, limits, dice)


def _note_silence(breaker: Breaker, _now: float, reason: str | None, *_: object) -> Breaker:
    return replace(breaker, probe_failures=breaker.probe_failures + 1, reason=reason)


def _hear(breaker: Breaker, *_: object) -> Breaker:
    return replace(breaker, probe_failures=0) if breaker.probe_failures else breaker


def _hear_again(breaker: Breaker, now: float, _reason: str | None, limits: BreakerLimits, _dice: float) -> Breaker:
    heard = _hear(breaker)
    # Only after so many silent probes is an answer news. If it answered probes all the while its requests failed, or
    # misses one now and then, one more answer would let it flap at the pace of the probes: the time has to pass.
    return _offer_trial(heard, now) if breaker.probe_failures >= limits.failures else heard


def _await_trial(breaker: Breaker, now: float, *_: object) -> Breaker:
    return _offer_trial(breaker, now) if now >= breaker.until else breaker


def _fail_trial(breaker: Breaker, now: float, reason: str | None, limits: BreakerLimits, dice: float) -> Breaker:
    return _open(replace(breaker, failures=breaker.failures + 1, reason=reason), now, limits, dice)


def _fall_silent(breaker: Breaker, now: float, reason: str | None, limits: BreakerLimits, dice: float) -> Breaker:
    return _open(_note_silence(breaker, now, reason), now, limits, dice)


def _close(breaker: Breaker, now: float, _reason: str | None, limits: BreakerLimits, _dice: float) -> Breaker:
    return Breaker(trips=breaker.trips, until=now + limits.calm_s, since=now)


def _open(breaker: Breaker, now: float, limits: BreakerLimits, dice: float) -> Breaker:
    trips = breaker.trips + 1
    until = now + open_time_s(trips, limits, dice)
    return replace(breaker, state=OPEN, trips=trips, until=until, since=now)


def _offer_trial(breaker: Breaker, now: float) -> Breaker:
    return replace(breaker, state=HALF_OPEN, since=now)


@dataclass(frozen=True, slots=True)
class Row:
    """What is done about something seen in a state.

    Attributes:
        rule: makes the breaker after.
        to: the states it may lead to.
    """

    rule: Rule
    to: frozenset[BreakerState]


def _row(rule: Rule, *to: BreakerState) -> Row:
    return Row(rule, frozenset(to))


TRANSITIONS: Mapping[tuple[BreakerState, Seen], Row] = MappingProxyType(
    {
        (CLOSED, Seen.PROBED_WELL): _row(_forgive_probes, CLOSED),
        (CLOSED, Seen.PROBE_FAILED): _row(_count_probe, CLOSED, OPEN),
        (CLOSED, Seen.SUCCEEDED): _row(_forgive_requests, CLOSED),
        (CLOSED, Seen.FAILED): _row(_count_request, CLOSED, OPEN),
        (CLOSED, Seen.TIME_PASSED): _row(_forget_trips, CLOSED),
        (CLOSED, Seen.RESTARTED): _row(_close, CLOSED),
        (OPEN, Seen.PROBED_WELL): _row(_hear_again, OPEN, HALF_OPEN),
        (OPEN, Seen.PROBE_FAILED): _row(_note_silence, OPEN),
        # An open breaker lets no request through, so this one began before: it tells how the upstream was then, and a
        # hundred that die together are one opening, not a hundred.
        (OPEN, Seen.SUCCEEDED): _row(_stay, OPEN),
        (OPEN, Seen.FAILED): _row(_stay, OPEN),
        (OPEN, Seen.TIME_PASSED): _row(_await_trial, OPEN, HALF_OPEN),
        (OPEN, Seen.RESTARTED): _row(_close, CLOSED),
        # Who answers probes may still fail its work: only a request closes the breaker again.
        (HALF_OPEN, Seen.PROBED_WELL): _row(_hear, HALF_OPEN),
        (HALF_OPEN, Seen.PROBE_FAILED): _row(_fall_silent, OPEN),
        (HALF_OPEN, Seen.SUCCEEDED): _row(_close, CLOSED),
        (HALF_OPEN, Seen.FAILED): _row(_fail_trial, OPEN),
        (HALF_OPEN, Seen.TIME_PASSED): _row(_stay, HALF_OPEN),
        (HALF_OPEN, Seen.RESTARTED): _row(_close, CLOSED),
    }
)


def step(
    breaker: Breaker, seen: Seen, *, now: float, dice: float, limits: BreakerLimits, reason: str | None = None
) -> Breaker:
    """The breaker after `seen`; the very same object when nothing changes.

    Args:
        breaker: as it was.
        seen: what was seen of its upstream.
        now: the driver's monotonic seconds.
        dice: 0 to 1, drawn anew; used when it opens.
        limits: the breaker's.
        reason: what went wrong, with `PROBE_FAILED` and `FAILED`.

    Raises:
        NoTransitionError: the table has no row for this, or the row's rule left it.
    """
    row = TRANSITIONS.get((breaker.state, seen))
    if row is None:
        raise NoTransitionError(f"{seen} cannot happen to a breaker that is {breaker.shown}")
    after = row.rule(breaker, now, reason, limits, dice)
    if after is not breaker and after.state not in row.to:
        raise NoTransitionError(f"{seen} led from {breaker.shown} to {after.shown}")
    return after


def diagram() -> str:
    """The table as a Mermaid state diagram. What leaves a breaker in its state is not drawn."""
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{shown}" as {state}' for state, shown in SHOWN.items()]
    lines.append(f"    [*] --> {CLOSED}")
    for before in BreakerState:
        for after in BreakerState:
            seen = [key[1] for key, row in TRANSITIONS.items() if key[0] is before and after in row.to]
            if before is not after and seen:
                lines.append(f"    {before} --> {after}: {', '.join(seen)}")
    return "\n".join(lines) + "\n"
