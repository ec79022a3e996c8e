"""The day's money at run time: what is set aside, what is settled, what a day and a restart make of it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumbre.core.errors import CapacityError
from lumbre.gateway.budget import TokenPrice
from lumbre.runtime import purse as module
from lumbre.runtime.purse import Hold, Purse
from lumbre.wire.openai.story import Usage

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
PRICE = TokenPrice(prompt=1_000_000, completion=2_000_000)
"""A micro-dollar for a token of prompt, two for one of an answer."""
HOUR_S = 3600.0


class Day:
    """A purse, its clocks, and how often it had news."""

    def __init__(
        self,
        limits: Mapping[str, int],
        *,
        hourly: Mapping[str, int] | None = None,
        price: TokenPrice = PRICE,
        longest_s: float = HOUR_S,
    ) -> None:
        self.at = NOON
        self.seconds = 0.0
        self.news = 0
        rates = {"gpu-1": 3600} if hourly is None else hourly
        self.purse = Purse(limits, rates, price, longest_s=longest_s, now=lambda: self.at, news=self.note)

    def note(self) -> None:
        self.news += 1

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds
        self.at += timedelta(seconds=seconds)

    def figures(self) -> tuple[int | None, ...]:
        """Limit, spent, reserved."""
        return tuple(self.purse.figures().values())


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> Day:
    """A purse of 10,000 micro-dollars, whose machine costs one a second."""
    made = Day({"all": 10_000})
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.seconds))
    return made


def refused(take: Any) -> CapacityError:
    with pytest.raises(CapacityError) as caught:
        take()
    error = caught.value
    assert (error.status, error.code) == (429, "over_budget")
    assert (error.retry_after_s or 0) >= 1
    return error


def test_what_a_request_may_cost_is_set_aside_and_what_it_cost_is_spent(day: Day) -> None:
    hold = day.purse.for_tokens("x", 1000, 2000)
    assert hold.reserved == 5000
    assert day.figures() == (10_000, 0, 5000)
    assert hold.settle(Usage(10, 20, estimated=False)) == 50
    assert day.figures() == (10_000, 50, 0)


def test_what_is_settled_twice_is_spent_once(day: Day) -> None:
    hold = day.purse.for_tokens("x", 10, 0)
    assert hold.settle(Usage(10, 0, estimated=False)) == 10
    assert hold.settle(Usage(10, 0, estimated=False)) == 0
    assert hold.settle(None) == 0
    assert day.figures() == (10_000, 10, 0)


@pytest.mark.parametrize("usage", [None, Usage(1, 1, estimated=True)])
def test_what_nobody_counted_costs_all_that_was_set_aside(day: Day, usage: Usage | None) -> None:
    assert day.purse.for_tokens("x", 100, 100).settle(usage) == 300
    assert day.figures() == (10_000, 300, 0)


def test_what_is_not_there_is_not_set_aside_and_the_refusal_says_where_to_look(day: Day) -> None:
    day.purse.for_tokens("x", 9000, 0)
    error = refused(lambda: day.purse.for_tokens("y", 1001, 0))
    assert "daily_budget_usd" in error.message
    assert "0.0010 USD left" in error.message
    assert day.figures() == (10_000, 0, 9000)
    day.purse.for_tokens("y", 1000, 0)
    assert day.purse.over == {"B", "C"}


def test_each_tier_keeps_its_own_limit_and_the_common_one() -> None:
    day = Day({"C": 500, "all": 4200})
    day.purse.for_tokens("x", 500, 0)
    assert day.purse.over == {"C"}
    refused(lambda: day.purse.for_tokens("y", 1, 0))
    day.purse.for_time("gpu-1").settle(None)


def test_what_costs_nothing_is_never_over() -> None:
    day = Day({"all": 0}, hourly={"gpu-1": 0}, price=TokenPrice(0, 0))
    assert day.purse.over == frozenset()
    assert day.purse.for_time("gpu-1").reserved == 0
    assert day.purse.for_time("stranger").settle(None) == 0
    assert day.purse.for_tokens("x", 10**9, 10**9).reserved == 0
    day.purse.fail_closed("the ledger is gone")
    day.purse.for_tokens("y", 1, 1)
    assert day.purse.over == frozenset()


def test_without_money_the_tiers_that_cost_are_over_from_the_start_of_the_day() -> None:
    day = Day({"all": 0})
    day.purse.look()
    assert (sorted(day.purse.over), day.news) == (["B", "C"], 1)


def test_news_comes_when_a_tier_comes_to_its_end_and_when_it_has_money_again(day: Day) -> None:
    hold = day.purse.for_tokens("x", 10_000, 0)
    assert (sorted(day.purse.over), day.news) == (["B", "C"], 1)
    hold.settle(Usage(10, 0, estimated=False))
    assert (sorted(day.purse.over), day.news) == ([], 2)
    day.purse.for_tokens("y", 10, 0)
    assert day.news == 2


def test_a_new_day_has_all_its_money_but_what_is_set_aside(day: Day) -> None:
    day.purse.for_tokens("old", 6000, 0).settle(None)
    late = day.purse.for_tokens("late", 4000, 0)
    assert day.purse.over == {"B", "C"}
    day.at = NOON + timedelta(days=1)
    day.purse.look()
    assert (sorted(day.purse.over), day.news) == ([], 2)
    assert day.figures() == (10_000, 0, 4000)
    late.settle(None)
    assert day.figures() == (10_000, 4000, 0)


def test_a_clock_that_is_set_back_gives_no_money_back(day: Day) -> None:
    day.purse.for_tokens("x", 10_000, 0).settle(None)
    day.at = NOON - timedelta(days=1)
    day.purse.look()
    assert day.purse.over == {"B", "C"}


def test_a_machines_time_is_set_aside_once_and_costs_once_however_many_share_it(day: Day) -> None:
    first = day.purse.for_time("gpu-1")
    second = day.purse.for_time("gpu-1")
    assert day.figures() == (10_000, 0, 3600)
    day.pass_(100)
    assert first.settle(None) == 100
    assert day.figures() == (10_000, 100, 3600)
    day.pass_(50)
    assert second.settle(None) == 50
    assert day.figures() == (10_000, 150, 0)
    assert day.purse.spent_on("gpu-1") == 150


def test_what_a_machine_cost_is_told_of_today_alone(day: Day) -> None:
    hold = day.purse.for_time("gpu-1")
    day.pass_(10)
    hold.settle(None)
    assert day.purse.spent_on("gpu-1") == 10
    day.at = NOON + timedelta(days=1)
    day.purse.look()
    assert day.purse.spent_on("gpu-1") == 0


def crossing(decision: str, reserved: object, tier: str = "C") -> dict[str, Any]:
    return {"kind": "crossing", "decision": decision, "tier": tier, "reserved_microusd": reserved}


def attempt(decision: str, cost: object, tier: str = "C", node: str = "tier-c") -> dict[str, Any]:
    return {"kind": "attempt", "decision": decision, "tier": tier, "node": node, "cost_microusd": cost}


@pytest.mark.parametrize(
    ("records", "spent"),
    [
        ([], 0),
        ([crossing("d1", 400), attempt("d1", 70)], 70),
        ([attempt("d1", 70), attempt("d2", 30, "B", "gpu-1")], 100),
        # nobody settled it: the gateway was killed meanwhile
        ([crossing("d1", 400)], 400),
        ([crossing("d1", 400), attempt("d1", 70), crossing("d1", 300)], 370),
        # tier A costs nothing, and what is no sum is none
        ([attempt("d1", 70, "A", "one"), {"kind": "request", "tier": "C", "cost_microusd": 70}], 0),
        ([attempt("d1", None), attempt("d2", -5), attempt("d3", "9"), {}], 0),
    ],
)
def test_after_a_restart_what_the_ledger_says_was_spent(day: Day, records: list[dict[str, Any]], spent: int) -> None:
    day.purse.restore(records)
    assert day.figures() == (10_000, spent, 0)


def test_after_a_restart_a_machines_cost_is_told_and_the_end_of_the_money_known(day: Day) -> None:
    day.purse.restore([attempt("d1", 9000, "B", "gpu-1"), attempt("d2", 1000)])
    assert day.purse.spent_on("gpu-1") == 9000
    assert day.purse.over == {"B", "C"}


def test_where_it_is_not_known_what_was_spent_nothing_is(day: Day) -> None:
    day.purse.fail_closed("the ledger cannot be read: no such file")
    assert (sorted(day.purse.over), day.news) == (["B", "C"], 1)
    for take in (lambda: day.purse.for_tokens("x", 1, 1), lambda: day.purse.for_time("gpu-1")):
        assert "the ledger cannot be read" in refused(take).message
    day.at = NOON + timedelta(days=1)
    day.purse.look()
    assert day.purse.over == {"B", "C"}


acts = st.one_of(
    st.tuples(st.just("tokens"), st.integers(0, 90)),
    st.tuples(st.just("time"), st.integers(0, 0)),
    st.tuples(st.just("settle"), st.integers(0, 20)),
    st.tuples(st.just("lose"), st.integers(0, 20)),
    st.tuples(st.just("pass"), st.integers(1, 10)),
)


@settings(max_examples=300)
@given(st.integers(0, 400), st.lists(acts, max_size=40))
def test_no_reservation_takes_what_is_spent_and_set_aside_over_the_limit(
    limit: int, happened: list[tuple[str, int]]
) -> None:
    def live(day: Day) -> None:
        holds: list[Hold] = []
        for number, (act, amount) in enumerate(happened):
            try:
                if act == "tokens":
                    holds.append(day.purse.for_tokens(str(number), amount, 0))
                elif act == "time":
                    holds.append(day.purse.for_time("gpu-1"))
                elif act == "pass":
                    day.pass_(amount)
                elif holds:
                    holds.pop(amount % len(holds)).settle(Usage(1, 0, estimated=False) if act == "settle" else None)
                    continue
            except CapacityError as error:
                assert error.code == "over_budget"  # noqa: PT017 some are refused, and all that are for this
                continue
            if act in ("tokens", "time"):
                _, spent, reserved = day.figures()
                assert (spent or 0) + (reserved or 0) <= limit or not holds[-1].reserved

    with_clock(Day({"all": limit}, longest_s=20), live)


@settings(max_examples=300)
@given(st.integers(0, 200), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=8))
def test_a_machines_time_is_never_spent_beyond_the_limit(limit: int, requests: list[tuple[int, int]]) -> None:
    """Each request comes at a second, and ends within the longest time that it may take."""

    def live(day: Day) -> None:
        running: list[tuple[int, Hold]] = []
        for second in range(60):
            for end, hold in [each for each in running if each[0] == second]:
                hold.settle(None)
                running.remove((end, hold))
            for _, length in [each for each in requests if each[0] == second]:
                try:
                    running.append((second + length, day.purse.for_time("gpu-1")))
                except CapacityError:
                    continue
                if length == 0:
                    running.pop()[1].settle(None)
            day.pass_(1)
        _, spent, _ = day.figures()
        assert (spent or 0) <= limit

    with_clock(Day({"all": limit}, longest_s=20), live)


def with_clock(day: Day, live: Any) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "time", SimpleNamespace(monotonic=lambda: day.seconds))
        live(day)
