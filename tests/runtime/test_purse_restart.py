"""What a restart makes of the day's money: what the ledger says was spent, and all that nobody settled."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lumbre.ledger import records as entries
from lumbre.ledger.records import Entry, Parcel, Place, hold
from lumbre.ledger.store import Ledger
from lumbre.runtime import outside
from lumbre.runtime.schema import Settings
from runtime.purses import NOON, Day, with_clock


@pytest.fixture
def day() -> Day:
    """A purse of 10,000 micro-dollars, whose machine costs one a second."""
    return Day({"all": 10_000})


def crossing(decision: str, reserved: object, tier: str = "C") -> dict[str, Any]:
    return {"kind": "crossing", "decision": decision, "tier": tier, "reserved_microusd": reserved}


def attempt(decision: str, cost: object, tier: str = "C", node: str = "tier-c") -> dict[str, Any]:
    return {"kind": "attempt", "decision": decision, "tier": tier, "node": node, "cost_microusd": cost}


def worked(cost: int, *, idle: bool, node: str = "gpu-1") -> dict[str, Any]:
    return {**attempt("d", cost, "B", node), "idle": idle}


def begun(reserved: int, node: str = "gpu-1") -> Entry:
    return hold("d", NOON, node, reserved)


@pytest.mark.parametrize(
    ("records", "spent"),
    [
        ([], 0),
        ([crossing("d1", 400), attempt("d1", 70)], 70),
        ([attempt("d1", 70), attempt("d2", 30, "B", "gpu-1")], 100),
        # nobody settled it: the gateway was killed meanwhile
        ([crossing("d1", 400)], 400),
        ([crossing("d1", 400), attempt("d1", 70), crossing("d1", 300)], 370),
        # its attempt was lost, by a disk that was full
        ([crossing("d1", 400), crossing("d1", 300), attempt("d1", 70)], 470),
        # a machine that begins to work, does, and is idle
        ([begun(3600), worked(50, idle=False), worked(20, idle=True)], 70),
        # killed before it was idle again
        ([begun(3600)], 3600),
        ([begun(3600), worked(50, idle=False)], 3650),
        (
            [begun(3600), worked(20, idle=True), begun(3000), begun(2000, "gpu-2"), worked(9, idle=True, node="gpu-2")],
            3029,
        ),
        # twice
        ([begun(3600), begun(3000), worked(20, idle=True)], 3620),
        ([begun(3600), begun(3000)], 6600),
        # it works since yesterday
        ([worked(50, idle=False), worked(40, idle=False)], 3690),
        ([worked(50, idle=False), worked(40, idle=True)], 90),
        # nothing was set aside for it: it was refused, or its price is gone
        ([begun(3600), attempt("d", 0, "B", "gpu-1"), worked(20, idle=True)], 20),
        ([worked(50, idle=False, node="gone")], 50),
        # tier A costs nothing, and what is no sum is none
        ([attempt("d1", 70, "A", "one"), {"kind": "request", "tier": "C", "cost_microusd": 70}], 0),
        ([attempt("d1", None), attempt("d2", -5), attempt("d3", "9"), {}], 0),
    ],
)
def test_after_a_restart_what_the_ledger_says_was_spent(day: Day, records: list[dict[str, Any]], spent: int) -> None:
    day.purse.restore(records)
    assert day.figures() == (10_000, spent, 0)


@pytest.mark.parametrize(
    ("before", "records", "spent"),
    [
        ([crossing("d1", 400), attempt("d1", 70)], [], 0),
        ([crossing("d1", 400)], [], 400),
        ([crossing("d1", 400)], [attempt("d1", 70)], 70),
        ([begun(3600), worked(9, idle=False)], [], 3600),
        ([begun(3600), worked(9, idle=True)], [], 0),
        ([worked(9, idle=False)], [worked(8, idle=False)], 3608),
        ([begun(3600)], [worked(8, idle=True)], 8),
        ([begun(3600)], [begun(3600), worked(8, idle=True)], 3608),
        ([begun(3600), begun(3600), worked(9, idle=True)], [], 0),  # the first was yesterday's
    ],
)
def test_what_was_on_its_way_at_midnight_counts_today_and_what_ended_before_does_not(
    day: Day, before: list[dict[str, Any]], records: list[dict[str, Any]], spent: int
) -> None:
    day.purse.restore(records, before)
    assert day.figures() == (10_000, spent, 0)


def test_after_a_restart_a_machines_cost_is_told_and_the_end_of_the_money_known(day: Day) -> None:
    day.purse.restore([attempt("d1", 9000, "B", "gpu-1"), attempt("d2", 1000)])
    assert day.purse.spent_on("gpu-1") == 9000
    assert day.purse.over == {"B", "C"}


def test_no_kill_loses_what_was_set_aside_for_a_machine(day: Day) -> None:
    """What a restart makes of it is no less than what was spent and reserved, and no more than one hold too much."""

    def live(day: Day) -> None:
        records: list[Mapping[str, Any]] = []
        holds = [day.purse.for_time("gpu-1", "d") for _ in range(3)]
        while holds:
            day.pass_(10)
            held = holds.pop()
            cost = held.settle(None)
            records += [*day.written, worked(cost, idle=bool(held.idle))]
            day.written.clear()
            _, spent, reserved = day.figures()
            again = Day({"all": 10_000})
            again.purse.restore(records)
            restored = again.purse.spent_on("gpu-1")
            assert again.figures() == (10_000, restored, 0)
            if holds:
                assert (spent or 0) + (reserved or 0) <= restored <= (spent or 0) + 3600
            else:
                assert (restored, reserved) == (spent, 0)

    with_clock(day, live)


def test_the_ledger_is_read_as_far_back_as_a_request_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "utc_now", lambda: NOON)
    midnight = NOON.replace(hour=0)
    parcel = Parcel("api.example.com", 5, "ab" * 32, 1, {}, 100)
    ledger = Ledger(tmp_path / "ledger", now=lambda: NOON)
    for seconds, node in ((-1900.0, "gpu-2"), (-1700.0, "gpu-1")):
        ledger.add_now(hold("d", midnight + timedelta(seconds=seconds), node, 3000))
    for number, seconds in enumerate((-1801.0, -1800.0, -0.5, 7.0)):
        ledger.add_now(entries.crossing(f"d{number}", midnight + timedelta(seconds=seconds), Place("C"), parcel, ()))
    purse = outside.made_purse(Settings(), ledger, lambda: None)
    ledger.close()
    assert Settings().deadlines.total_s == 1800
    assert purse.figures() == {"limit_microusd": 5_000_000, "spent_microusd": 3300, "reserved_microusd": 0}
    assert (purse.spent_on("gpu-1"), purse.spent_on("gpu-2")) == (3000, 0)
