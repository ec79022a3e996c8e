"""The breaker: every row of its table by hand, and transcripts of what it is told."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from lumbre.gateway import breaker as breaker_module
from lumbre.gateway.breaker import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    TRANSITIONS,
    Breaker,
    BreakerLimits,
    BreakerState,
    Row,
    Seen,
    diagram,
    open_time_s,
    step,
)
from lumbre.gateway.engine_life import NoTransitionError

LIMITS = BreakerLimits(failures=3, open_s=10, most_open_s=60, jitter=0.5, calm_s=100)
NOW = 1000
PAGE = Path(__file__).parents[2] / "docs" / "breaker.md"


class Case(NamedTuple):
    """One step from `before` at `NOW`, with no jitter and the reason "new"."""

    title: str
    before: Breaker
    seen: Seen
    after: Breaker


CLEAN = Breaker(since=900)
SORE = Breaker(failures=1, probe_failures=2, trips=2, until=NOW + 1, since=900, reason="old")
CALM = replace(SORE, until=NOW)
BY_REQUESTS = Breaker(OPEN, failures=3, trips=1, until=NOW + 1, since=900, reason="old")
LATE = replace(BY_REQUESTS, probe_failures=1, until=NOW)
BY_PROBES = Breaker(OPEN, probe_failures=3, trips=1, until=NOW + 1, since=900, reason="old")
TRIAL = Breaker(HALF_OPEN, failures=3, probe_failures=3, trips=2, until=NOW - 1, since=950, reason="old")


def since_now(before: Breaker, state: BreakerState) -> Breaker:
    return replace(before, state=state, since=NOW)


CASES = (
    Case("a good probe ends a row of bad ones", SORE, Seen.PROBED_WELL, replace(SORE, probe_failures=0)),
    Case("a good probe when all is well", CLEAN, Seen.PROBED_WELL, CLEAN),
    Case(
        "the last trouble over, its reason goes",
        replace(SORE, failures=0),
        Seen.PROBED_WELL,
        replace(SORE, failures=0, probe_failures=0, reason=None),
    ),
    Case("calm is seen by a probe", CALM, Seen.PROBED_WELL, replace(CALM, probe_failures=0, trips=0)),
    Case(
        "a probe before the last that it takes",
        replace(SORE, probe_failures=1),
        Seen.PROBE_FAILED,
        replace(SORE, probe_failures=2, until=NOW + 100, reason="new"),
    ),
    Case(
        "the last probe that it takes",
        SORE,
        Seen.PROBE_FAILED,
        replace(since_now(SORE, OPEN), probe_failures=3, trips=3, until=NOW + 40, reason="new"),
    ),
    Case(
        "a probe that opens it after calm",
        CALM,
        Seen.PROBE_FAILED,
        replace(since_now(CALM, OPEN), probe_failures=3, trips=1, until=NOW + 10, reason="new"),
    ),
    Case("a success ends a row of failures", SORE, Seen.SUCCEEDED, replace(SORE, failures=0)),
    Case("a success when all is well", CLEAN, Seen.SUCCEEDED, CLEAN),
    Case(
        "the last failure forgiven, its reason goes",
        replace(SORE, probe_failures=0),
        Seen.SUCCEEDED,
        replace(SORE, probe_failures=0, failures=0, reason=None),
    ),
    Case(
        "a request before the last that it takes",
        SORE,
        Seen.FAILED,
        replace(SORE, failures=2, until=NOW + 100, reason="new"),
    ),
    Case(
        "the last request that it takes",
        replace(SORE, failures=2),
        Seen.FAILED,
        replace(since_now(SORE, OPEN), failures=3, trips=3, until=NOW + 40, reason="new"),
    ),
    Case(
        "a request that opens it after calm",
        replace(CALM, failures=2),
        Seen.FAILED,
        replace(since_now(CALM, OPEN), failures=3, trips=1, until=NOW + 10, reason="new"),
    ),
    Case("time before calm", SORE, Seen.TIME_PASSED, SORE),
    Case("time that makes it calm", CALM, Seen.TIME_PASSED, replace(CALM, trips=0)),
    Case("a new process while closed", SORE, Seen.RESTARTED, Breaker(trips=2, until=NOW + 100, since=NOW)),
    Case(
        "an answer after so many silences",
        BY_PROBES,
        Seen.PROBED_WELL,
        replace(since_now(BY_PROBES, HALF_OPEN), probe_failures=0),
    ),
    Case("an answer while requests keep it open", BY_REQUESTS, Seen.PROBED_WELL, BY_REQUESTS),
    Case(
        "an answer after too few silences",
        replace(BY_REQUESTS, probe_failures=2),
        Seen.PROBED_WELL,
        BY_REQUESTS,
    ),
    Case(
        "a probe that fails while open",
        BY_REQUESTS,
        Seen.PROBE_FAILED,
        replace(BY_REQUESTS, probe_failures=1, reason="new"),
    ),
    Case("a late success", LATE, Seen.SUCCEEDED, LATE),
    Case("a late failure", LATE, Seen.FAILED, LATE),
    Case("time before it is over", BY_PROBES, Seen.TIME_PASSED, BY_PROBES),
    Case(
        "time that is over",
        replace(BY_REQUESTS, until=NOW),
        Seen.TIME_PASSED,
        replace(since_now(BY_REQUESTS, HALF_OPEN), until=NOW),
    ),
    Case("a new process while open", BY_PROBES, Seen.RESTARTED, Breaker(trips=1, until=NOW + 100, since=NOW)),
    Case("a good probe during the trial", TRIAL, Seen.PROBED_WELL, replace(TRIAL, probe_failures=0)),
    Case(
        "a bad probe during the trial",
        TRIAL,
        Seen.PROBE_FAILED,
        replace(since_now(TRIAL, OPEN), probe_failures=4, trips=3, until=NOW + 40, reason="new"),
    ),
    Case("a trial that succeeds", TRIAL, Seen.SUCCEEDED, Breaker(trips=2, until=NOW + 100, since=NOW)),
    Case(
        "a trial that fails",
        TRIAL,
        Seen.FAILED,
        replace(since_now(TRIAL, OPEN), failures=4, trips=3, until=NOW + 40, reason="new"),
    ),
    Case("time during the trial", TRIAL, Seen.TIME_PASSED, TRIAL),
    Case("a new process during the trial", TRIAL, Seen.RESTARTED, Breaker(trips=2, until=NOW + 100, since=NOW)),
)


def holds(case: Case) -> bool:
    """Whether it comes out as the case says, as the same object if nothing changed."""
    after = step(case.before, case.seen, now=NOW, dice=0, limits=LIMITS, reason="new")
    return after == case.after and (after != case.before or after is case.before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_row(case: Case) -> None:
    assert holds(case)


def test_the_table_has_a_row_for_everything_and_the_cases_reach_all_that_it_allows() -> None:
    assert set(TRANSITIONS) == {(state, seen) for state in BreakerState for seen in Seen}
    reached = {(case.before.state, case.seen, case.after.state) for case in CASES}
    assert reached == {(*key, state) for key, row in TRANSITIONS.items() for state in row.to}


@pytest.mark.parametrize("key", TRANSITIONS, ids="-".join)
def test_a_changed_row_breaks_a_case(key: tuple[BreakerState, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    for rule in {row.rule for row in TRANSITIONS.values()} - {TRANSITIONS[key].rule}:
        changed = {**TRANSITIONS, key: Row(rule, frozenset(BreakerState))}
        monkeypatch.setattr(breaker_module, "TRANSITIONS", MappingProxyType(changed))
        assert not all(holds(case) for case in CASES), rule


def test_a_missing_row_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {key: row for key, row in TRANSITIONS.items() if key != (OPEN, Seen.FAILED)}
    monkeypatch.setattr(breaker_module, "TRANSITIONS", MappingProxyType(rest))
    with pytest.raises(NoTransitionError, match=r"failed cannot happen to a breaker that is open \(tripped\)"):
        step(BY_PROBES, Seen.FAILED, now=NOW, dice=0, limits=LIMITS)


def test_a_rule_that_leaves_its_row_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    key = (HALF_OPEN, Seen.SUCCEEDED)
    changed = {**TRANSITIONS, key: replace(TRANSITIONS[key], to=frozenset({OPEN}))}
    monkeypatch.setattr(breaker_module, "TRANSITIONS", MappingProxyType(changed))
    with pytest.raises(NoTransitionError, match=r"succeeded led from half_open to closed \(flowing\)"):
        step(TRIAL, Seen.SUCCEEDED, now=NOW, dice=0, limits=LIMITS)


def test_it_is_never_shown_by_the_bare_word_closed() -> None:
    assert [Breaker(state).shown for state in BreakerState] == ["closed (flowing)", "open (tripped)", "half_open"]


@pytest.mark.parametrize(
    "sore", [SORE, BY_PROBES, TRIAL, Breaker(failures=1), Breaker(probe_failures=1), Breaker(OPEN)]
)
def test_only_one_that_is_closed_without_a_failure_is_clean(sore: Breaker) -> None:
    assert Breaker(trips=3).is_clean
    assert not sore.is_clean


Line = tuple[float, str, BreakerState, float | None]
"""When, what is seen then, the state after, and until when it is open."""

PROBES = "probe_failed probe_failed probe_failed"
REQUESTS = "failed failed failed"
TRANSCRIPTS: dict[str, list[Line]] = {
    "three failed probes open it with no traffic at all, and an answer offers a trial at once": [
        (0, "probe_failed probe_failed probed_well probe_failed probe_failed", CLOSED, None),
        (5, "probe_failed", OPEN, 15),
        (6, "probed_well", HALF_OPEN, None),
        (7, "probed_well time_passed", HALF_OPEN, None),
        (8, "succeeded", CLOSED, None),
        (9, "probe_failed probe_failed", CLOSED, None),
    ],
    "an engine that answers its probes while its requests fail": [
        (0, "failed probed_well failed probed_well", CLOSED, None),
        (1, "failed", OPEN, 11),
        (5, "probed_well probed_well", OPEN, 11),
        (11, "time_passed", HALF_OPEN, None),
        (12, "failed", OPEN, 32),
    ],
    "an engine that serves while its probes fail": [
        (0, "probe_failed succeeded probe_failed succeeded", CLOSED, None),
        (1, "probe_failed", OPEN, 11),
    ],
    "a hundred requests that die together are one opening": [
        (0, " ".join(["failed"] * 100), OPEN, 10),
        (9, "succeeded failed time_passed", OPEN, 10),
        (10, "time_passed", HALF_OPEN, None),
        (11, "succeeded", CLOSED, None),
        (12, "failed failed", CLOSED, None),
        (13, "failed", OPEN, 33),
    ],
    "one that flaps stays open longer each time, up to the cap": [
        (0, REQUESTS, OPEN, 10),
        (10, "time_passed succeeded", CLOSED, None),
        (11, REQUESTS, OPEN, 31),
        (31, "time_passed succeeded", CLOSED, None),
        (32, PROBES, OPEN, 72),
        (72, "time_passed failed", OPEN, 132),
        (132, "time_passed probe_failed", OPEN, 192),
    ],
    "a hundred calm seconds make the next opening the first, and a failure starts them anew": [
        (0, REQUESTS, OPEN, 10),
        (10, "time_passed succeeded", CLOSED, None),
        (109, "failed succeeded", CLOSED, None),
        (208, REQUESTS, OPEN, 228),
        (228, "time_passed succeeded", CLOSED, None),
        (328, "time_passed", CLOSED, None),
        (329, REQUESTS, OPEN, 339),
    ],
    "a dead node that comes back is tried at once, however long it was open for": [
        (0, REQUESTS, OPEN, 10),
        (1, "probe_failed probe_failed", OPEN, 10),
        (10, "time_passed failed", OPEN, 30),
        (11, "probe_failed", OPEN, 30),
        (12, "probed_well", HALF_OPEN, None),
    ],
    "one missed probe during a trial gives no shorter way back": [
        (0, PROBES, OPEN, 10),
        (1, "probed_well", HALF_OPEN, None),
        (2, "probe_failed", OPEN, 22),
        (3, "probed_well probe_failed probed_well", OPEN, 22),
        (22, "time_passed", HALF_OPEN, None),
    ],
    "an engine in a crash loop is given its new process and a longer opening each time": [
        (0, PROBES, OPEN, 10),
        (1, "restarted", CLOSED, None),
        (2, REQUESTS, OPEN, 22),
        (3, "restarted", CLOSED, None),
        (4, "failed failed restarted failed failed", CLOSED, None),
        (5, "failed", OPEN, 45),
    ],
}


@pytest.mark.parametrize("title", TRANSCRIPTS)
def test_transcript(title: str) -> None:
    breaker = Breaker()
    for now, happenings, state, until in TRANSCRIPTS[title]:
        for seen in happenings.split():
            breaker = step(breaker, Seen(seen), now=now, dice=0, limits=LIMITS)
        assert (now, breaker.state, until and breaker.until) == (now, state, until)


def test_open_times_double_up_to_the_cap_and_jitter_only_shortens_them() -> None:
    assert [open_time_s(trips, LIMITS, 0) for trips in range(1, 6)] == [10, 20, 40, 60, 60]
    assert open_time_s(1_000_000, LIMITS, 0) == 60
    assert [open_time_s(trips, LIMITS, 1) for trips in range(1, 6)] == [5, 10, 20, 30, 30]


def test_a_long_opening_is_no_longer_than_a_shorter_cap() -> None:
    assert open_time_s(1, replace(LIMITS, most_open_s=4), 0) == 4


def test_the_page_draws_the_table() -> None:
    assert f"```mermaid\n{diagram()}```\n" in PAGE.read_text(encoding="utf-8")
    arrows = {tuple(line.split(":")[0].split(" --> ")) for line in diagram().splitlines() if " --> " in line}
    moves = {(f"    {a}", str(b)) for (a, _), row in TRANSITIONS.items() for b in row.to if a is not b}
    assert arrows == moves | {("    [*]", "closed")}
