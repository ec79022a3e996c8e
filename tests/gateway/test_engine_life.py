"""The life of a supervised engine, told as transcripts of events and what each one asks for."""

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.gateway import engine_life
from lumbre.gateway.engine_life import (
    KILL_GRACE_S,
    LONGEST_DELAY_S,
    STABLE_S,
    TRANSITIONS,
    BackoffElapsed,
    BootFailed,
    BootSucceeded,
    BootTimedOut,
    Effect,
    EngineLife,
    Event,
    KillProcess,
    Moment,
    NoTransitionError,
    Phase,
    ProbeFailed,
    ProbeSucceeded,
    ProcessExited,
    Row,
    ScheduleRestart,
    SpawnFailed,
    SpawnProcess,
    StartRequested,
    StopRequested,
    restart_delay_s,
    step,
)

Line = tuple[float, Event, Phase, tuple[Effect, ...]]

SPAWN = (SpawnProcess(),)
KILL = (KillProcess(KILL_GRACE_S),)
BOOT: list[Line] = [
    (0, StartRequested(), Phase.STARTING, SPAWN),
    (1, BootSucceeded(), Phase.READY, ()),
]


def back_in(delay_s: float) -> tuple[Effect, ...]:
    return (ScheduleRestart(delay_s),)


TRANSCRIPTS: dict[str, list[Line]] = {
    "an engine that serves and is stopped": [
        *BOOT,
        (2, ProbeSucceeded(), Phase.READY, ()),
        (3, StopRequested(7), Phase.STOPPING, (KillProcess(7),)),
        (4, ProcessExited("SIGTERM"), Phase.STOPPED, ()),
    ],
    "a crash loop waits longer each time": [
        (0, StartRequested(), Phase.STARTING, SPAWN),
        (1, ProcessExited("status 1"), Phase.BACKING_OFF, back_in(0)),
        (1, BackoffElapsed(), Phase.STARTING, SPAWN),
        (2, SpawnFailed("no such program"), Phase.BACKING_OFF, back_in(0.5)),
        (3, BackoffElapsed(), Phase.STARTING, SPAWN),
        (4, BootFailed("no model"), Phase.KILLING, KILL),
        (5, ProcessExited("status 1"), Phase.BACKING_OFF, back_in(1)),
        (6, BackoffElapsed(), Phase.STARTING, SPAWN),
        (126, BootTimedOut("not ready within 120 s"), Phase.KILLING, KILL),
        (127, ProcessExited("SIGKILL"), Phase.BACKING_OFF, back_in(2)),
        (128, StopRequested(5), Phase.STOPPED, ()),
    ],
    "a crash soon after the boot counts on": [
        *BOOT,
        (2, ProcessExited("SIGKILL"), Phase.BACKING_OFF, back_in(0)),
        (2, BackoffElapsed(), Phase.STARTING, SPAWN),
        (3, BootSucceeded(), Phase.READY, ()),
        (4, ProcessExited("SIGKILL"), Phase.BACKING_OFF, back_in(0.5)),
        (5, BackoffElapsed(), Phase.STARTING, SPAWN),
        (6, BootSucceeded(), Phase.READY, ()),
        (6 + STABLE_S / 2, ProbeSucceeded(), Phase.READY, ()),
        (6 + STABLE_S, ProcessExited("SIGKILL"), Phase.BACKING_OFF, back_in(0)),
    ],
    "a hung engine is killed after three silent probes in a row": [
        *BOOT,
        (2, ProbeFailed("silence"), Phase.READY, ()),
        (3, ProbeFailed("silence"), Phase.READY, ()),
        (4, ProbeSucceeded(), Phase.READY, ()),
        (5, ProbeFailed("silence"), Phase.READY, ()),
        (6, ProbeFailed("silence"), Phase.READY, ()),
        (7, ProbeFailed("silence"), Phase.KILLING, KILL),
        (8, ProcessExited("SIGKILL"), Phase.BACKING_OFF, back_in(0)),
        (8, BackoffElapsed(), Phase.STARTING, SPAWN),
        (9, BootSucceeded(), Phase.READY, ()),
        (10, ProbeFailed("silence"), Phase.READY, ()),
    ],
    "a stop in mid-boot kills with the stop's grace": [
        (0, StartRequested(), Phase.STARTING, SPAWN),
        (1, StopRequested(9), Phase.STOPPING, (KillProcess(9),)),
        (2, ProcessExited("SIGTERM"), Phase.STOPPED, ()),
        (3, StartRequested(), Phase.STARTING, SPAWN),
    ],
    "a stop while it is being killed kills only once": [
        (0, StartRequested(), Phase.STARTING, SPAWN),
        (1, BootFailed("no model"), Phase.KILLING, KILL),
        (2, StopRequested(5), Phase.STOPPING, ()),
        (3, ProcessExited("SIGTERM"), Phase.STOPPED, ()),
    ],
}


def play(lines: list[Line]) -> EngineLife:
    life, restarts = EngineLife(), 0
    for number, (now_s, event, phase, effects) in enumerate(lines):
        life, done = step(life, event, Moment(now_s, jitter=0, failures=3))
        restarts += isinstance(event, BackoffElapsed)
        assert (number, life.phase, done, life.restarts) == (number, phase, effects, restarts)
    return life


def play_all() -> None:
    for lines in TRANSCRIPTS.values():
        play(lines)


@pytest.mark.parametrize("title", TRANSCRIPTS)
def test_transcript(title: str) -> None:
    play(TRANSCRIPTS[title])


def rows_visited() -> set[tuple[Phase, type[Event]]]:
    visited = set()
    for lines in TRANSCRIPTS.values():
        phase = Phase.STOPPED
        for _, event, after, _ in lines:
            visited.add((phase, type(event)))
            phase = after
    return visited


def test_the_transcripts_visit_every_row_of_the_table() -> None:
    assert rows_visited() == set(TRANSITIONS)


@pytest.mark.parametrize("key", TRANSITIONS, ids=lambda key: f"{key[0]}-{key[1].__name__}")
def test_a_changed_row_breaks_a_transcript(key: tuple[Phase, type[Event]], monkeypatch: pytest.MonkeyPatch) -> None:
    others = {row.rule for row in TRANSITIONS.values()} - {TRANSITIONS[key].rule}
    for rule in others:
        changed = {**TRANSITIONS, key: Row(rule, frozenset(Phase))}
        monkeypatch.setattr(engine_life, "TRANSITIONS", MappingProxyType(changed))
        with pytest.raises((AssertionError, NoTransitionError)):
            play_all()


def test_a_missing_row_raises() -> None:
    with pytest.raises(NoTransitionError, match="BackoffElapsed cannot happen to an engine that is ready"):
        step(EngineLife(Phase.READY), BackoffElapsed(), Moment(0, 0, 3))


def test_a_rule_that_leaves_its_row_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    key = (Phase.STARTING, BootSucceeded)
    changed = {**TRANSITIONS, key: replace(TRANSITIONS[key], to=frozenset({Phase.STOPPED}))}
    monkeypatch.setattr(engine_life, "TRANSITIONS", MappingProxyType(changed))
    with pytest.raises(NoTransitionError, match="led from starting to ready"):
        step(EngineLife(Phase.STARTING), BootSucceeded(), Moment(0, 0, 3))


def test_the_reason_of_a_kill_outlives_the_process_it_killed() -> None:
    life = play(TRANSCRIPTS["a hung engine is killed after three silent probes in a row"][:9])
    assert (life.phase, life.reason) == (Phase.BACKING_OFF, "3 health probes in a row failed: silence")
    life = play(TRANSCRIPTS["a crash loop waits longer each time"][:2])
    assert life.reason == "status 1"


def test_restarts_count_the_starts_after_the_first() -> None:
    assert play(BOOT).restarts == 0
    assert play(TRANSCRIPTS["a crash soon after the boot counts on"]).restarts == 2


def test_delays_double_up_to_the_cap_and_jitter_only_shortens_them() -> None:
    assert [restart_delay_s(crashes, 0) for crashes in range(1, 11)] == [0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert restart_delay_s(1_000_000, 0) == LONGEST_DELAY_S
    assert restart_delay_s(9, 1) == pytest.approx(27)


def events() -> st.SearchStrategy[Event]:
    reasons = st.just("because")
    return st.one_of(
        st.just(StartRequested()),
        st.just(BootSucceeded()),
        st.just(ProbeSucceeded()),
        st.just(BackoffElapsed()),
        st.builds(StopRequested, st.floats(0, 10)),
        *(st.builds(kind, reasons) for kind in (BootFailed, BootTimedOut, SpawnFailed)),
        *(st.builds(kind, reasons) for kind in (ProcessExited, ProbeFailed)),
    )


WITH_PROCESS = frozenset({Phase.STARTING, Phase.READY, Phase.KILLING, Phase.STOPPING})


@given(st.lists(st.tuples(events(), st.floats(0, 100), st.floats(0, 1)), max_size=60), st.integers(1, 4))
def test_whatever_happens_there_is_one_process_at_most_and_a_way_out(
    happenings: list[tuple[Event, float, float]], failures: int
) -> None:
    life, now_s, alive = EngineLife(), 0.0, False
    for event, passed_s, jitter in happenings:
        now_s += passed_s
        if (life.phase, type(event)) not in TRANSITIONS:
            continue
        alive = alive and not isinstance(event, ProcessExited | SpawnFailed)
        life, effects = step(life, event, Moment(now_s, jitter, failures))
        for effect in effects:
            match effect:
                case SpawnProcess():
                    assert not alive
                    alive = True
                case KillProcess():
                    assert alive
                case ScheduleRestart(delay_s=delay_s):
                    assert 0 <= delay_s <= LONGEST_DELAY_S
        assert alive == (life.phase in WITH_PROCESS)
        assert any(phase is life.phase and row.to - {phase} for (phase, _), row in TRANSITIONS.items())


@given(st.lists(st.tuples(events(), st.floats(0, 100)), max_size=60))
def test_from_anywhere_the_engine_can_be_stopped_and_can_be_ready_again(
    happenings: list[tuple[Event, float]],
) -> None:
    life, now_s = EngineLife(), 0.0
    for event, passed_s in happenings:
        now_s += passed_s
        if (life.phase, type(event)) in TRANSITIONS:
            life, _ = step(life, event, Moment(now_s, 0, 3))
    onward: dict[Phase, Event] = {
        Phase.STOPPED: StartRequested(),
        Phase.STARTING: BootSucceeded(),
        Phase.KILLING: ProcessExited("end"),
        Phase.STOPPING: ProcessExited("end"),
        Phase.BACKING_OFF: BackoffElapsed(),
    }
    for _ in range(len(onward)):
        if life.phase is not Phase.READY:
            life, _ = step(life, onward[life.phase], Moment(now_s, 0, 3))
    assert life.phase is Phase.READY
    life, _ = step(life, StopRequested(5), Moment(now_s, 0, 3))
    life, _ = step(life, ProcessExited("end"), Moment(now_s, 0, 3))
    assert life.phase is Phase.STOPPED
