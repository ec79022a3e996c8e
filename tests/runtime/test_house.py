"""The tiers together: when the facts are made anew, and what is asked before a sending."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lumbre.core.errors import SwitchClosed
from lumbre.gateway.breaker import Seen
from lumbre.gateway.decision import Attempt
from lumbre.gateway.facts import Facts, NodeState
from lumbre.gateway.health import HealthState
from lumbre.gateway.policy import Policy
from lumbre.runtime.house import check_of, check_of_node
from runtime.boards import NOON
from runtime.houses import Home, a_home
from runtime.tiers import LIMITS, UNCHECKED, set_state, soon

FAST = replace(LIMITS, failures=1, open_s=0.02, jitter=0.0)


async def close_a_switch(home: Home) -> None:
    await home.board.close("gpu-1", None, "ana")


async def open_a_switch(home: Home) -> None:
    await home.board.open("C", None, "ana")


async def choose_a_policy(home: Home) -> None:
    await home.board.choose(Policy("local-only"))


async def end_a_drain(home: Home) -> None:
    await home.watch.end_drain()


async def go_down(home: Home) -> None:
    set_state(home.house.a, home.lane("a1"), HealthState.DOWN)


async def come_up(home: Home) -> None:
    set_state(home.house.a, home.lane("a2"), HealthState.READY)


async def learn_a_model(home: Home) -> None:
    home.lane("gpu-1").models += ("new",)
    home.tier_of("gpu-1").changed(home.lane("gpu-1"))


async def trip(home: Home) -> None:
    home.tier_of("gpu-1").breakers.saw(home.lane("gpu-1"), Seen.FAILED, "it broke")


async def offer_a_trial(home: Home) -> None:
    await home.until(lambda: home.lane("gpu-2").breaker.state == "half_open")


async def begin_to_rest(home: Home) -> None:
    home.tier_of("gpu-1").breakers.rest(home.lane("gpu-1"), 60)


async def end_to_rest(home: Home) -> None:
    await home.until(lambda: not home.lane("c").rests_until)


async def spend_the_rest(home: Home) -> None:
    home.purse.for_tokens("x", 1000, 0).settle(None)


CHANGES: dict[Callable[[Home], Awaitable[None]], Callable[[Facts], object]] = {
    close_a_switch: lambda facts: "gpu-1" in facts.closed,
    open_a_switch: lambda facts: "C" not in facts.closed,
    choose_a_policy: lambda facts: facts.policy == "local-only",
    end_a_drain: lambda facts: facts.policy == "balanced",
    go_down: lambda facts: facts.a[0].state is NodeState.DOWN,
    come_up: lambda facts: facts.a[1].state is NodeState.READY,
    learn_a_model: lambda facts: "new" in facts.models,
    trip: lambda facts: facts.b[0].state is NodeState.TRIPPED,
    offer_a_trial: lambda facts: facts.b[1].state is NodeState.READY,
    begin_to_rest: lambda facts: facts.b[0].state is NodeState.COOLING,
    end_to_rest: lambda facts: facts.c[0].state is NodeState.READY,
    spend_the_rest: lambda facts: facts.over_budget == {"B", "C"},
}


async def prepare(home: Home) -> None:
    """`C` is closed, `a2` is down, `gpu-2` is tripped, `c` rests, and a drain holds."""
    await home.board.close("C", None, "ana")
    set_state(home.house.a, home.lane("a2"), HealthState.DOWN)
    await home.board.choose(Policy("drain-express", NOON + timedelta(seconds=0.1)))
    home.tier_of("gpu-2").breakers.saw(home.lane("gpu-2"), Seen.FAILED, "it broke")
    home.tier_of("c").breakers.rest(home.lane("c"), 0.02)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.__name__))
def test_the_facts_are_others_once_something_has_changed(
    tmp_path: Path, change: Callable[[Home], Awaitable[None]]
) -> None:
    async def scene() -> None:
        home = a_home(tmp_path, breaker=FAST)
        await prepare(home)
        shows = CHANGES[change]
        before = home.house.facts()
        assert not shows(before)
        await change(home)
        after = home.house.facts()
        assert after is not before
        assert shows(after)
        home.board.close_timers()

    asyncio.run(scene())


def test_the_facts_are_the_same_while_nothing_changes(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path)
        house, tier, lane = home.house, home.house.a, home.lane("a1")
        await home.board.close("gpu-1", None, "ana")
        facts = house.facts()
        with await tier.permit("one", 1, [lane], soon(), house.checks(Attempt("A", None, ("a1",), None))):
            tier.saw(lane, "one", failed=None)
            home.purse.for_tokens("x", 10, 0).settle(None)
            home.purse.for_time("gpu-1", "d-1").settle(None)
            tier.breakers.saw(lane, Seen.PROBED_WELL)
            assert house.facts() is facts
            with pytest.raises(SwitchClosed):
                home.board.check(("gpu-1",))
            house.why_not("B")
            house.tier("A").nodes()
        assert house.facts() is facts

    asyncio.run(scene())


def test_a_trial_that_begins_and_ends_changes_the_facts(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path, breaker=FAST)
        tier, lane = home.tier_of("gpu-2"), home.lane("gpu-2")
        tier.breakers.saw(lane, Seen.FAILED, "it broke")
        await offer_a_trial(home)
        before = home.house.facts()
        with await tier.permit("tries", 1, [lane], soon(), UNCHECKED):
            during = home.house.facts()
            assert during is not before
            assert during.b[1].state is NodeState.TRIPPED
        assert home.house.facts().b[1].state is NodeState.READY

    asyncio.run(scene())


def test_a_new_day_has_money_again_though_nothing_else_happens(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path)
        home.purse.for_tokens("x", 1000, 0).settle(None)
        assert home.house.facts().over_budget == {"B", "C"}
        home.watch.at += timedelta(days=1)
        assert home.house.facts().over_budget == frozenset()

    asyncio.run(scene())


def test_the_facts_tell_what_the_tiers_and_the_rules_say(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path)
        facts = home.house.facts()
        assert [node.id for node in (*facts.a, *facts.b, *facts.c)] == ["a1", "a2", "gpu-1", "gpu-2", "c"]
        assert facts.b[1].labels == ("batch", "express")
        assert facts.models == ("m", "small", "large", "vast")
        assert (facts.c_has_key, facts.a_does_strict_json, facts.a_is_complete) == (True, False, True)
        for name, settled, complete in (("gpu-1", False, False), ("gpu-1", True, True), ("a1", True, False)):
            # A rented machine that is off has no word to be waited for; one of the house's own has.
            home.lane(name).asked, home.lane(name).settled = False, settled
            home.tier_of(name).changed(home.lane(name))
            assert home.house.facts().a_is_complete is complete

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("attempt", "node", "names"),
    [
        (Attempt("A", None, (), None), "a1", {"A"}),
        (Attempt("B", "express", (), None), "gpu-1", {"global", "B", "express", "gpu-1"}),
        (Attempt("B", "batch", (), None), "gpu-2", {"global", "B", "batch", "gpu-2"}),
        # a label that borrows: both
        (Attempt("B", "batch", (), None), "gpu-1", {"global", "B", "batch", "express", "gpu-1"}),
        (Attempt("C", None, (), None), "c", {"global", "C"}),
    ],
)
def test_before_a_sending_exactly_the_switches_that_cover_it_are_asked(
    tmp_path: Path, attempt: Attempt, node: str, names: set[str]
) -> None:
    async def scene() -> None:
        home = a_home(tmp_path)
        check = home.house.checks(attempt)(home.lane(node))
        check()
        for switch in [each.name for each in home.board.switches]:
            await home.board.close(switch, None, "ana")
            if switch in names:
                with pytest.raises(SwitchClosed) as caught:
                    check()
                assert caught.value.switch == switch
            else:
                check()
            await home.board.open(switch, None, "ana")

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("closed", "stopped"),
    [
        ((), False),
        (("A",), False),
        (("batch",), False),
        (("express",), False),
        (("gpu-1",), False),
        (("batch", "express"), True),
        (("gpu-2",), True),
        (("B",), True),
        (("global",), True),
    ],
)
def test_a_node_with_two_labels_is_looked_at_until_both_are_closed(
    tmp_path: Path, closed: tuple[str, ...], stopped: bool
) -> None:
    async def scene() -> None:
        board = a_home(tmp_path).board
        for name in closed:
            await board.close(name, None, "ana")
        check = check_of_node(board, "gpu-2", ("batch", "express"))
        if stopped:
            with pytest.raises(SwitchClosed):
                check()
        else:
            check()

    asyncio.run(scene())


def test_tier_a_is_looked_at_unless_its_own_switch_is_closed(tmp_path: Path) -> None:
    async def scene() -> None:
        board = a_home(tmp_path).board
        await board.close("global", None, "ana")
        check_of(board, "A")()
        await board.close("A", None, "ana")
        with pytest.raises(SwitchClosed):
            check_of(board, "A")()

    asyncio.run(scene())


def test_whoever_may_be_asked_again_is_looked_at_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path)
        await home.board.close("B", None, "ana")
        await home.board.close("gpu-1", None, "ana")
        await home.board.close("C", None, "ana")
        assert home.suspected == []
        await home.board.open("B", None, "ana")
        assert home.suspected == ["gpu-2"]
        await home.board.open("gpu-1", None, "ana")
        assert home.suspected == ["gpu-2", "gpu-1"]

    asyncio.run(scene())


def test_who_waits_for_what_is_stopped_is_told_so_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path)
        tier, lane = home.tier_of("gpu-1"), home.lane("gpu-1")
        checks = home.house.checks(Attempt("B", "express", ("gpu-1",), None))
        with await tier.permit("first", 2, [lane], soon(), checks):
            waits = asyncio.create_task(tier.permit("waits", 1, [lane], soon(), checks))
            await asyncio.sleep(0)
            assert tier.waiting == 1
            await home.board.close("express", None, "ana")
            with pytest.raises(SwitchClosed) as caught:
                await waits
            assert caught.value.switch == "express"
            assert tier.waiting == 0

    asyncio.run(scene())


def test_it_says_what_keeps_all_work_from_a_tier(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path)
        house = home.house
        assert [house.why_not(name) for name in "ABC"] == [[], [], []]
        await home.board.close("global", None, "ana")
        home.purse.for_tokens("x", 1000, 0).settle(None)
        for name in "BC":
            switch, money = house.why_not(name)
            assert "global is closed (stopped)" in switch
            assert "budget" in money
        assert house.why_not("A") == []
        home.purse.fail_closed("the ledger is gone")
        assert any("the ledger is gone" in reason for reason in house.why_not("C"))

    asyncio.run(scene())


def test_it_says_when_the_first_that_is_left_alone_may_be_asked_again(tmp_path: Path) -> None:
    async def scene() -> None:
        home = a_home(tmp_path, breaker=replace(FAST, open_s=50))
        house, now = home.house, asyncio.get_running_loop().time()
        everybody = ("a1", "a2", "gpu-1", "gpu-2", "c")
        assert house.soonest_s(everybody, now) is None
        home.house.b.breakers.saw(home.lane("gpu-1"), Seen.FAILED, "it broke")  # type: ignore[union-attr]
        assert house.soonest_s(everybody, now) in (50, 51)
        home.house.c.breakers.rest(home.lane("c"), 7.5)  # type: ignore[union-attr]
        assert house.soonest_s(everybody, now) == 8
        assert house.soonest_s(everybody, now + 3600) == 1
        assert house.soonest_s(("a1", "gpu-1"), now) in (50, 51), "others' rest is no matter"
        assert house.soonest_s(("a1",), now) is None

    asyncio.run(scene())


def test_a_tier_that_there_is_not_is_none(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(KeyError):
            a_home(tmp_path).house.tier("D")

    asyncio.run(scene())
