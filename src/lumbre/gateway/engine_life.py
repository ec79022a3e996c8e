"""Decides when a supervised engine is started, killed, restarted and let go. Pure; driven by the supervisor.

The supervisor tells what happened and carries out what `step` answers. It never gives up: an engine that
cannot start is tried again at least every `LONGEST_DELAY_S`, because its model file may be mended meanwhile.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

STABLE_S = 60.0
"""After so long in `ready` the next crash counts as the first one."""
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
KILL_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL for an engine that hangs: it is not expected to listen."""


class Phase(StrEnum):
    """Where an engine is. There is a live process in all but `backing_off` and `stopped`."""

    STARTING = "starting"
    READY = "ready"
    KILLING = "killing"
    BACKING_OFF = "backing_off"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True)
class StartRequested:
    """The gateway wants the engine."""


@dataclass(frozen=True)
class BootSucceeded:
    """The engine answers."""


@dataclass(frozen=True)
class BootFailed:
    """The engine says that it cannot start; its process may still be there."""

    reason: str


@dataclass(frozen=True)
class BootTimedOut:
    """The boot deadline passed."""

    reason: str


@dataclass(frozen=True)
class SpawnFailed:
    """No process came to be."""

    reason: str


@dataclass(frozen=True)
class ProcessExited:
    """The process is gone and reaped."""

    reason: str


@dataclass(frozen=True)
class ProbeSucceeded:
    """A ready engine answered its health probe."""


@dataclass(frozen=True)
class ProbeFailed:
    """A ready engine did not answer its health probe."""

    reason: str


@dataclass(frozen=True)
class BackoffElapsed:
    """The delay of the last `ScheduleRestart` is over."""


@dataclass(frozen=True)
class StopRequested:
    """The gateway ends; the engine gets `grace_s` seconds."""

    grace_s: float


Event = (
    StartRequested
    | BootSucceeded
    | BootFailed
    | BootTimedOut
    | SpawnFailed
    | ProcessExited
    | ProbeSucceeded
    | ProbeFailed
    | BackoffElapsed
    | StopRequested
)


@dataclass(frozen=True)
class SpawnProcess:
    """Start the engine's process and watch its boot."""


@dataclass(frozen=True)
class KillProcess:
    """SIGTERM, `grace_s` seconds, SIGKILL; `ProcessExited` follows."""

    grace_s: float


@dataclass(frozen=True)
class ScheduleRestart:
    """Say `BackoffElapsed` in `delay_s` seconds, unless `StopRequested` comes first."""

    delay_s: float


Effect = SpawnProcess | KillProcess | ScheduleRestart


@dataclass(frozen=True)
class Moment:
    """What the driver knows when something happens.

    Attributes:
        now_s: monotonic seconds.
        jitter: 0 to 1, drawn anew; spreads the restarts of engines that died together.
        failures: failed probes in a row that make a ready engine a hung one.
    """

    now_s: float
    jitter: float
    failures: int


@dataclass(frozen=True)
class EngineLife:
    """One engine's state.

    Attributes:
        phase: where it is.
        restarts: starts after the first, ever.
        crashes: starts that ended since it last was ready for `STABLE_S`.
        failed_probes: in a row.
        ready_at_s: when it last became ready; None when it is not.
        reason: why it is not ready, or why it last was not; None before anything went wrong.
    """

    phase: Phase = Phase.STOPPED
    restarts: int = 0
    crashes: int = 0
    failed_probes: int = 0
    ready_at_s: float | None = None
    reason: str | None = None


Step = tuple[EngineLife, tuple[Effect, ...]]
Rule = Callable[[EngineLife, Event, Moment], Step]


class NoTransitionError(Exception):
    """The table has no row for this event in this phase: the driver has a bug."""


def restart_delay_s(crashes: int, jitter: float) -> float:
    """Seconds before the start after `crashes` crashes: 0, 0.5, 1, 2, … 30, less up to a tenth of jitter."""
    if crashes <= 1:
        return 0.0
    doublings = min(crashes - 2, 16)  # reaches the cap, and a month of crashes overflows nothing
    return float(min(FIRST_DELAY_S * 2**doublings, LONGEST_DELAY_S) * (1 - jitter / 10))


def _spawn_first(life: EngineLife, _event: Event, _moment: Moment) -> Step:
    return replace(life, phase=Phase.STARTING, crashes=0, reason=None), (SpawnProcess(),)


def _spawn_again(life: EngineLife, _event: Event, _moment: Moment) -> Step:
    return replace(life, phase=Phase.STARTING, restarts=life.restarts + 1), (SpawnProcess(),)


def _serve(life: EngineLife, _event: Event, moment: Moment) -> Step:
    return replace(life, phase=Phase.READY, ready_at_s=moment.now_s, failed_probes=0), ()


def _kill(life: EngineLife, event: Event, _moment: Moment) -> Step:
    return replace(life, phase=Phase.KILLING, reason=_reason(event)), (KillProcess(KILL_GRACE_S),)


def _back_off(life: EngineLife, event: Event, moment: Moment) -> Step:
    stable = life.ready_at_s is not None and moment.now_s - life.ready_at_s >= STABLE_S
    crashes = 1 if stable else life.crashes + 1
    # Who was killed for a reason has died of that, whatever its last words were.
    reason = life.reason if life.phase is Phase.KILLING else _reason(event)
    after = replace(life, phase=Phase.BACKING_OFF, crashes=crashes, failed_probes=0, ready_at_s=None, reason=reason)
    return after, (ScheduleRestart(restart_delay_s(crashes, moment.jitter)),)


def _note_answer(life: EngineLife, _event: Event, _moment: Moment) -> Step:
    return replace(life, failed_probes=0), ()


def _note_silence(life: EngineLife, event: Event, moment: Moment) -> Step:
    failed = replace(life, failed_probes=life.failed_probes + 1)
    if failed.failed_probes < moment.failures:
        return failed, ()
    reason = f"{failed.failed_probes} health probes in a row failed: {_reason(event)}"
    return replace(failed, phase=Phase.KILLING, reason=reason), (KillProcess(KILL_GRACE_S),)


def _stop(life: EngineLife, event: Event, _moment: Moment) -> Step:
    grace_s = event.grace_s if isinstance(event, StopRequested) else KILL_GRACE_S
    return replace(life, phase=Phase.STOPPING, ready_at_s=None), (KillProcess(grace_s),)


def _let_die(life: EngineLife, _event: Event, _moment: Moment) -> Step:
    return replace(life, phase=Phase.STOPPING, ready_at_s=None), ()


def _rest(life: EngineLife, _event: Event, _moment: Moment) -> Step:
    return replace(life, phase=Phase.STOPPED), ()


def _reason(event: Event) -> str:
    return getattr(event, "reason", "")


@dataclass(frozen=True)
class Row:
    """What an event does in a phase.

    Attributes:
        rule: makes the new state and the effects.
        to: the phases it may lead to.
    """

    rule: Rule
    to: frozenset[Phase]


def _row(rule: Rule, *to: Phase) -> Row:
    return Row(rule, frozenset(to))


TRANSITIONS: Mapping[tuple[Phase, type[Event]], Row] = MappingProxyType(
    {
        (Phase.STOPPED, StartRequested): _row(_spawn_first, Phase.STARTING),
        (Phase.STARTING, BootSucceeded): _row(_serve, Phase.READY),
        (Phase.STARTING, BootFailed): _row(_kill, Phase.KILLING),
        (Phase.STARTING, BootTimedOut): _row(_kill, Phase.KILLING),
        (Phase.STARTING, SpawnFailed): _row(_back_off, Phase.BACKING_OFF),
        (Phase.STARTING, ProcessExited): _row(_back_off, Phase.BACKING_OFF),
        (Phase.STARTING, StopRequested): _row(_stop, Phase.STOPPING),
        (Phase.READY, ProbeSucceeded): _row(_note_answer, Phase.READY),
        (Phase.READY, ProbeFailed): _row(_note_silence, Phase.READY, Phase.KILLING),
        (Phase.READY, ProcessExited): _row(_back_off, Phase.BACKING_OFF),
        (Phase.READY, StopRequested): _row(_stop, Phase.STOPPING),
        (Phase.KILLING, ProcessExited): _row(_back_off, Phase.BACKING_OFF),
        (Phase.KILLING, StopRequested): _row(_let_die, Phase.STOPPING),
        (Phase.BACKING_OFF, BackoffElapsed): _row(_spawn_again, Phase.STARTING),
        (Phase.BACKING_OFF, StopRequested): _row(_rest, Phase.STOPPED),
        (Phase.STOPPING, ProcessExited): _row(_rest, Phase.STOPPED),
    }
)


def step(life: EngineLife, event: Event, moment: Moment) -> Step:
    """The state after `event`, and what the driver has to do.

    Raises:
        NoTransitionError: the event cannot happen in this phase.
    """
    row = TRANSITIONS.get((life.phase, type(event)))
    if row is None:
        raise NoTransitionError(f"{type(event).__name__} cannot happen to an engine that is {life.phase}")
    after, effects = row.rule(life, event, moment)
    if after.phase not in row.to:
        raise NoTransitionError(f"{type(event).__name__} led from {life.phase} to {after.phase}")
    return after, effects
