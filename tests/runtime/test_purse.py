"""The day's money at run time: what is set aside, what is settled, what a day makes of it."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumbre.core.errors import CapacityError
from lumbre.gateway.budget import TokenPrice
from lumbre.runtime import purse as module
from lumbre.runtime.purse import Hold
from lumbre.wire.openai.story import Usage
from runtime.purses import NOON, Day, refused, with_clock


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> Day:
    """A purse of 10,000 micro-dollars, whose machine costs one a second."""
    made = Day({"all": 10_000})
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.seconds))
    return made


def test_what_a_request_may_cost_is_set_aside_and_what_it_cost_is_spent(day: Day) -> None:
    hold = day.purse.for_tokens("x", 1000, 2000)
    assert hold.reserved == 5000
    assert day.figures() == (10_000, 0, 5000)
    assert hold.settle(Usage(10, 20, estimated=False)) == 50
    assert day.figures() == (10_000, 50, 0)


def test_what_is_settled_twice_is_spent_once(day: Day) -> None:
    hold = day.purse.for_tokens("x", 10, 0)
    assert hold.settle(Usage(10, 1, estimated=False)) == 12
    assert hold.settle(Usage(10, 1, estimated=False)) == 0
    assert hold.settle(None) == 0
    assert day.figures() == (10_000, 12, 0)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(1, 1, estimated=True),
        *(Usage(prompt, answer, estimated=False) for prompt, answer in ((0, 0), (0, 5), (5, 0), (-5, 5), (5, -5))),
        *(Usage(prompt, answer, estimated=False) for prompt, answer in ((10**9 + 1, 5), (5, 10**9 + 1), (10**400, 1))),
    ],
    ids=str,
)
def test_what_nobody_counted_costs_all_that_was_set_aside(day: Day, usage: Usage | None) -> None:
    assert day.purse.for_tokens("x", 100, 100).settle(usage) == 300
    assert day.figures() == (10_000, 300, 0)


@pytest.mark.parametrize("usage", [None, Usage(0, 0, estimated=False), Usage(10, 20, estimated=False)])
def test_what_never_came_to_be_answered_costs_no_tokens_but_a_machines_time(day: Day, usage: Usage | None) -> None:
    assert day.purse.for_tokens("x", 100, 100).settle(usage, free=True) == 0
    hold = day.purse.for_time("gpu-1", "d")
    day.pass_(7)
    assert hold.settle(usage, free=True) == 7
    assert day.figures() == (10_000, 7, 0)


def test_what_is_not_there_is_not_set_aside_and_the_refusal_says_where_to_look(day: Day) -> None:
    day.purse.for_tokens("x", 9000, 0)
    error = refused(lambda: day.purse.for_tokens("y", 1001, 0))
    assert "daily_budget_usd" in error.message
    assert "0.0010 USD left" in error.message
    assert day.figures() == (10_000, 0, 9000)
    day.purse.for_tokens("y", 1000, 0)


@pytest.mark.parametrize("second_s", [0, 2])
def test_who_joins_in_is_let_in_only_where_there_is_money_for_the_longer_time(second_s: int) -> None:
    def live(day: Day) -> None:
        day.purse.for_time("gpu-1", "d")
        first = day.purse.for_time("gpu-1", "d")
        day.pass_(second_s)
        first.settle(None)
        if second_s:
            refused(lambda: day.purse.for_time("gpu-1", "d"))
        else:
            day.purse.for_time("gpu-1", "d")

    with_clock(Day({"all": 20}, longest_s=20), live)


def test_where_only_what_is_reserved_is_in_the_way_one_is_asked_back_soon(day: Day) -> None:
    hold = day.purse.for_tokens("x", 9000, 0)
    for take in (lambda: day.purse.for_tokens("y", 1001, 0), lambda: day.purse.for_time("gpu-1", "d")):
        error = refused(take)
        assert error.retry_after_s == 5
        assert "0.0090 USD that is reserved by requests on their way" in error.message
    assert (day.purse.over, day.news) == (frozenset(), 0)
    hold.settle(None)
    for take in (lambda: day.purse.for_tokens("y", 1001, 0), lambda: day.purse.for_time("gpu-1", "d")):
        error = refused(take)
        assert error.retry_after_s == 3600
        assert "reserved" not in error.message


def test_what_the_day_never_had_is_not_worth_a_second_try_today(day: Day) -> None:
    day.at = NOON.replace(hour=22, minute=59, second=59)
    assert refused(lambda: day.purse.for_tokens("x", 10_001, 0)).retry_after_s == 3600
    day.at = NOON.replace(hour=23, minute=59, second=50)
    assert refused(lambda: day.purse.for_tokens("x", 10_001, 0)).retry_after_s == 10


def test_each_tier_keeps_its_own_limit_and_the_common_one() -> None:
    day = Day({"C": 500, "all": 4200})
    day.purse.for_tokens("x", 500, 0).settle(None)
    assert day.purse.over == {"C"}
    refused(lambda: day.purse.for_tokens("y", 1, 0))
    day.purse.for_time("gpu-1", "d").settle(None)


def test_what_costs_nothing_is_never_over() -> None:
    day = Day({"all": 0}, hourly={"gpu-1": 0}, price=TokenPrice(0, 0))
    assert day.purse.over == frozenset()
    assert day.purse.for_time("gpu-1", "d").reserved == 0
    assert day.purse.for_time("stranger", "d").settle(None) == 0
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
    assert (sorted(day.purse.over), day.news) == ([], 0)
    hold.settle(None)
    assert (sorted(day.purse.over), day.news) == (["B", "C"], 1)
    day.at = NOON + timedelta(days=1)
    day.purse.look()
    assert (sorted(day.purse.over), day.news) == ([], 2)
    day.purse.for_tokens("y", 10, 0)
    assert day.news == 2


def test_a_new_day_has_all_its_money_but_what_is_set_aside(day: Day) -> None:
    day.purse.for_tokens("old", 6000, 0).settle(None)
    late = day.purse.for_tokens("late", 4000, 0)
    day.at = NOON + timedelta(days=1)
    assert day.figures() == (10_000, 0, 4000)
    late.settle(None)
    assert day.figures() == (10_000, 4000, 0)


def test_a_clock_that_is_set_back_gives_no_money_back(day: Day) -> None:
    day.purse.for_tokens("x", 10_000, 0).settle(None)
    day.at = NOON - timedelta(days=1)
    day.purse.look()
    assert day.purse.over == {"B", "C"}


def test_a_machines_time_is_set_aside_once_and_costs_once_however_many_share_it(day: Day) -> None:
    first = day.purse.for_time("gpu-1", "d")
    second = day.purse.for_time("gpu-1", "d")
    assert day.figures() == (10_000, 0, 3600)
    day.pass_(100)
    assert first.settle(None) == 100
    assert day.figures() == (10_000, 100, 3500)  # the second may go on until its hour is over
    day.pass_(50)
    assert second.settle(None) == 50
    assert day.figures() == (10_000, 150, 0)
    assert day.purse.spent_on("gpu-1") == 150


def test_what_a_machine_cost_is_told_of_today_alone(day: Day) -> None:
    hold = day.purse.for_time("gpu-1", "d")
    day.pass_(10)
    hold.settle(None)
    assert day.purse.spent_on("gpu-1") == 10
    day.at = NOON + timedelta(days=1)
    day.purse.look()
    assert day.purse.spent_on("gpu-1") == 0


def test_a_machine_that_begins_to_work_is_written_down_once_however_many_share_it(day: Day) -> None:
    first, second = day.purse.for_time("gpu-1", "d1"), day.purse.for_time("gpu-1", "d2")
    (written,) = day.written
    assert (written["kind"], written["decision"], written["node"]) == ("hold", "d1", "gpu-1")
    assert (written["at"], written["reserved_microusd"]) == (NOON, 3600)
    assert (first.idle, second.idle) == (None, None)
    second.settle(None)
    first.settle(None)
    assert (second.idle, first.idle) == (False, True)
    day.purse.for_time("gpu-1", "d3")
    assert [each["decision"] for each in day.written] == ["d1", "d3"]


def test_a_machine_that_costs_nothing_is_not_written_down() -> None:
    day = Day({"all": 10}, hourly={"gpu-1": 0})
    held = day.purse.for_time("gpu-1", "d")
    held.settle(None)
    assert (day.written, held.idle) == ([], None)


def test_what_cannot_be_written_down_is_not_begun_and_takes_no_money(day: Day) -> None:
    day.fault = OSError(28, "No space left on device")
    with pytest.raises(CapacityError, match="written down: the ledger: No space left"):
        day.purse.for_time("gpu-1", "d")
    assert day.figures() == (10_000, 0, 0)
    day.fault = None
    held = day.purse.for_time("gpu-1", "d")
    day.fault = OSError(28, "No space left on device")
    day.purse.for_time("gpu-1", "d").settle(None)  # it is written down already that the machine works
    day.pass_(3)
    assert held.settle(None) == 3


def test_a_tier_with_no_machine_that_can_be_paid_is_over_and_says_why() -> None:
    day = Day({"all": 5000}, hourly={"gpu-1": 6000, "gpu-2": 5500})
    day.purse.look()
    assert (sorted(day.purse.over), day.news) == (["B"], 1)
    assert "0.0050 USD is not spent" in day.purse.why_over("B")
    assert "0.0055 USD on the cheapest" in day.purse.why_over("B")
    day.purse.for_tokens("x", 5000, 0).settle(None)
    assert day.purse.over == {"B", "C"}
    assert {day.purse.why_over(tier) for tier in "BC"} == {"it is spent"}
    day.purse.fail_closed("the ledger is gone")
    assert day.purse.why_over("B") == "the ledger is gone"


@pytest.mark.parametrize("other", [0, 4000])
def test_one_machine_that_can_be_had_keeps_the_tier_open(other: int) -> None:
    day = Day({"all": 5000}, hourly={"gpu-1": 6000, "gpu-2": other})
    day.purse.look()
    assert day.purse.over == frozenset()
    refused(lambda: day.purse.for_time("gpu-1", "d"))
    day.purse.for_time("gpu-2", "d")


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"all": 5_000_000}, "[flow] daily_budget_usd is 5.0000 USD"),
        ({"all": 9_000_000, "B": 5_000_000}, "[tier_b] daily_budget_usd is 5.0000 USD"),
    ],
)
def test_a_machine_that_can_never_be_paid_is_told_with_the_way_out(limits: Mapping[str, int], named: str) -> None:
    day = Day(limits, hourly={"gpu-1": 12_000_000, "gpu-2": 10_000_000, "gpu-3": 0}, longest_s=1800)
    (warning,) = day.purse.warnings
    assert warning.startswith("gpu-1 never runs")
    assert "1800 s ([deadlines] total_s)" in warning
    assert "6.0000 USD" in warning
    assert named in warning
    assert "usd_per_hour" in warning


@pytest.mark.parametrize("limits", [{}, {"all": 0}, {"all": 12_000_000}])
def test_there_is_no_warning_where_there_is_money_or_none_was_meant(limits: Mapping[str, int]) -> None:
    assert Day(limits, hourly={"gpu-1": 12_000_000}).purse.warnings == []


def test_where_it_is_not_known_what_was_spent_nothing_is(day: Day) -> None:
    day.purse.fail_closed("the ledger cannot be read: no such file")
    assert (sorted(day.purse.over), day.news) == (["B", "C"], 1)
    for take in (lambda: day.purse.for_tokens("x", 1, 1), lambda: day.purse.for_time("gpu-1", "d")):
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
                    holds.append(day.purse.for_time("gpu-1", "d"))
                elif act == "pass":
                    day.pass_(amount)
                elif holds:
                    holds.pop(amount % len(holds)).settle(Usage(1, 1, estimated=False) if act == "settle" else None)
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
            for end, held in [each for each in running if each[0] == second]:
                held.settle(None)
                running.remove((end, held))
            for _, length in [each for each in requests if each[0] == second]:
                try:
                    running.append((second + length, day.purse.for_time("gpu-1", "d")))
                except CapacityError:
                    continue
                if length == 0:
                    running.pop()[1].settle(None)
            day.pass_(1)
        _, spent, _ = day.figures()
        assert (spent or 0) <= limit

    with_clock(Day({"all": limit}, longest_s=20), live)
