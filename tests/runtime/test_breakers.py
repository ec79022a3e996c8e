"""The breakers of a tier: their timers, their rests, and one trial at a time that every way out gives back."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from lumbre.core.errors import CapacityError, NoConnection, SwitchClosed
from lumbre.gateway.breaker import BreakerLimits, BreakerState, Seen
from lumbre.runtime.breakers import Breakers
from lumbre.runtime.lanes import Lane, state_of
from lumbre.runtime.tier import Tier
from runtime.tiers import LIMITS, UNCHECKED, a_lane, a_tier, soon

CLOSED, OPEN, HALF_OPEN = BreakerState
FAST = BreakerLimits(failures=1, open_s=0.05, most_open_s=0.2, jitter=0.2, calm_s=0.2)


class Changes:
    """What the breakers told, and a way to wait for it."""

    def __init__(self) -> None:
        self.states: list[BreakerState] = []
        self._came = asyncio.Event()

    def note(self, lane: Lane) -> None:
        self.states.append(lane.breaker.state)
        self._came.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._came.clear()
                await self._came.wait()


def test_an_open_breaker_offers_a_trial_when_its_time_has_come() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(FAST, changes.note)
        loop = asyncio.get_running_loop()
        breakers.saw(lane, Seen.FAILED, "it broke")
        assert (lane.breaker.state, lane.breaker.reason) == (OPEN, "it broke")
        until = lane.breaker.until
        assert 0.04 <= until - lane.breaker.since <= 0.05
        await changes.until(lambda: lane.breaker.state is HALF_OPEN)
        assert loop.time() >= until
        assert changes.states == [OPEN, HALF_OPEN]

    asyncio.run(scene())


def test_each_failed_trial_opens_it_for_longer_up_to_the_cap() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(replace(FAST, jitter=0.0), changes.note)
        lasted = []
        for _ in range(4):
            breakers.saw(lane, Seen.FAILED, "it broke")
            lasted.append(round(lane.breaker.until - lane.breaker.since, 3))
            await changes.until(lambda: lane.breaker.state is HALF_OPEN)
        assert lasted == [0.05, 0.1, 0.2, 0.2]

    asyncio.run(scene())


def test_who_failed_is_doubted_for_a_while_and_not_for_ever() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(replace(FAST, failures=9), changes.note)
        breakers.saw(lane, Seen.FAILED, "it broke")
        assert (lane.is_doubted, lane.breaker.failures) == (True, 1)
        await changes.until(lambda: not lane.is_doubted)
        assert lane.breaker.failures == 1, "only a request forgives it"
        breakers.saw(lane, Seen.FAILED, "it broke")
        breakers.saw(lane, Seen.SUCCEEDED)
        assert not lane.is_doubted

    asyncio.run(scene())


def test_a_breaker_that_stays_calm_forgets_how_often_it_opened() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(FAST, changes.note)
        breakers.saw(lane, Seen.FAILED, "it broke")
        await changes.until(lambda: lane.breaker.state is HALF_OPEN)
        breakers.saw(lane, Seen.SUCCEEDED)
        assert (lane.breaker.state, lane.breaker.trips) == (CLOSED, 1)
        await changes.until(lambda: lane.breaker.trips == 0)

    asyncio.run(scene())


def test_a_trial_that_came_early_leaves_no_timer_behind() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(replace(FAST, open_s=0.2), changes.note)
        breakers.saw(lane, Seen.FAILED, "it broke")
        breakers.saw(lane, Seen.RESTARTED)
        assert lane.breaker.state is CLOSED
        breakers.rest(lane, 0.4)
        await changes.until(lambda: not lane.rests_until)
        assert OPEN not in changes.states[1:]
        assert HALF_OPEN not in changes.states

    asyncio.run(scene())


def test_a_success_of_one_that_is_well_is_no_news() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(LIMITS, changes.note)
        for seen in (Seen.SUCCEEDED, Seen.PROBED_WELL, Seen.TIME_PASSED):
            breakers.saw(lane, seen)
        assert changes.states == []

    asyncio.run(scene())


def test_of_several_wishes_to_be_left_alone_the_latest_end_holds() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(LIMITS, changes.note)
        loop = asyncio.get_running_loop()
        breakers.rest(lane, 0.2)
        longest = lane.rests_until
        breakers.rest(lane, 0.05)
        assert lane.rests_until == longest
        breakers.rest(lane, 0.3)
        assert lane.rests_until > longest
        longest = lane.rests_until
        await changes.until(lambda: not lane.rests_until)
        assert loop.time() >= longest - 0.01
        assert len(changes.states) == 3

    asyncio.run(scene())


def test_when_the_gateway_ends_no_timer_is_left() -> None:
    async def scene() -> None:
        lane, changes = a_lane("a"), Changes()
        breakers = Breakers(FAST, changes.note)
        breakers.saw(lane, Seen.FAILED, "it broke")
        breakers.rest(lane, 0.05)
        breakers.close()
        told = len(changes.states)
        await asyncio.sleep(0.15)
        assert len(changes.states) == told

    asyncio.run(scene())


async def on_trial(slots: int = 8, waiting: int = 200, name: str = "A") -> tuple[Tier, Lane]:
    """A tier whose only lane is half open."""
    lane = a_lane("a", slots)
    tier = a_tier(lane, name=name, waiting=waiting, breaker=replace(FAST, open_s=0.01))
    tier.breakers.saw(lane, Seen.FAILED, "it broke")
    async with asyncio.timeout(10):
        await tier.wait_ready()
    assert lane.breaker.state is HALF_OPEN
    return tier, lane


def test_of_a_hundred_callers_exactly_one_makes_the_trial() -> None:
    async def scene() -> None:
        tier, lane = await on_trial()
        running: list[str] = []
        end = asyncio.Event()

        async def call(name: str) -> None:
            with await tier.permit(name, 1, [lane], soon(), UNCHECKED):
                running.append(name)
                await end.wait()

        callers = [asyncio.create_task(call(f"r{number}")) for number in range(100)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert running == ["r0"]
        assert tier.in_flight(lane) == 1
        tier.saw(lane, "r0", failed=None)  # the trial went well: now as many as there are slots
        for _ in range(20):
            await asyncio.sleep(0)
        assert lane.breaker.state is CLOSED
        assert len(running) == 8
        end.set()
        await asyncio.gather(*callers)
        assert (len(running), tier.in_flight(lane), tier.waiting) == (100, 0, 0)

    asyncio.run(scene())


def test_when_the_trial_fails_those_who_wait_are_sent_away() -> None:
    async def scene() -> None:
        tier, lane = await on_trial()
        with await tier.permit("tries", 1, [lane], soon(), UNCHECKED):
            waits = asyncio.create_task(tier.permit("waits", 1, [lane], soon(), UNCHECKED))
            await asyncio.sleep(0)
            tier.saw(lane, "tries", failed="again")
            with pytest.raises(CapacityError, match="again"):
                await waits
        assert lane.breaker.state is OPEN
        assert (tier.in_flight(lane), tier.waiting) == (0, 0)

    asyncio.run(scene())


def test_only_the_trial_has_a_say() -> None:
    async def scene() -> None:
        lane = a_lane("a", 8)
        tier = a_tier(lane, breaker=replace(FAST, open_s=0.01))
        before = await tier.permit("before", 1, [lane], soon(), UNCHECKED)
        with before:
            tier.breakers.saw(lane, Seen.FAILED, "it broke")
            async with asyncio.timeout(10):
                await tier.wait_ready()
            with await tier.permit("tries", 1, [lane], soon(), UNCHECKED):
                for failed in (None, "late"):
                    tier.saw(lane, "before", failed=failed)
                    assert lane.breaker.state is HALF_OPEN
                tier.saw(lane, "tries", failed=None)
                assert lane.breaker.state is CLOSED

    asyncio.run(scene())


async def returns(tier: Tier, lane: Lane) -> None:
    """It ends without a verdict, as when its caller has gone."""
    with await tier.permit("tries", 1, [lane], soon(), UNCHECKED):
        assert tier.in_flight(lane) == 1


async def raises(tier: Tier, lane: Lane) -> None:
    with suppress(ZeroDivisionError), await tier.permit("tries", 1, [lane], soon(), UNCHECKED):
        raise ZeroDivisionError


async def is_cancelled(tier: Tier, lane: Lane) -> None:
    begun = asyncio.Event()

    async def run() -> None:
        with await tier.permit("tries", 1, [lane], soon(), UNCHECKED):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def is_stopped_by_a_switch(tier: Tier, lane: Lane) -> None:
    def stop(_lane: Lane) -> Callable[[], None]:
        def check() -> None:
            raise SwitchClosed("closed", switch="B")

        return check

    with pytest.raises(SwitchClosed):
        await tier.permit("tries", 1, [lane], soon(), stop)


async def finds_it_gone(tier: Tier, lane: Lane) -> None:
    def go_away(gone: Lane) -> Callable[[], None]:
        def check() -> None:
            gone.address = None

        return check

    address = lane.address
    with pytest.raises(NoConnection):
        await tier.permit("tries", 1, [lane], soon(), go_away)
    lane.address = address


async def is_cancelled_in_the_moment_it_is_its_turn(tier: Tier, lane: Lane) -> None:
    with await tier.permit("first", 1, [lane], soon(), UNCHECKED):
        task = asyncio.create_task(tier.permit("tries", 1, [lane], soon(), UNCHECKED))
        await asyncio.sleep(0)
        assert tier.waiting == 1
    task.cancel()  # it has been let in, and has not come to know it
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def gives_up_waiting(tier: Tier, lane: Lane) -> None:
    now = asyncio.get_running_loop().time()
    with await tier.permit("first", 1, [lane], soon(), UNCHECKED):
        with pytest.raises(CapacityError) as caught:
            await tier.permit("tries", 1, [lane], now + 0.02, UNCHECKED)
        assert caught.value.status == 429


@pytest.mark.parametrize("tier_name", ["A", "B"])
@pytest.mark.parametrize(
    "way_out",
    [
        *(returns, raises, is_cancelled, is_stopped_by_a_switch, finds_it_gone),
        *(is_cancelled_in_the_moment_it_is_its_turn, gives_up_waiting),
    ],
    ids=lambda way: str(way.__name__),
)
def test_every_way_out_gives_the_trial_back(way_out: Callable[[Tier, Lane], Awaitable[None]], tier_name: str) -> None:
    async def scene() -> None:
        tier, lane = await on_trial(name=tier_name)
        for _ in range(3):
            await way_out(tier, lane)
            assert (tier.in_flight(lane), tier.waiting) == (0, 0)
            assert lane.breaker.state is HALF_OPEN
        with await tier.permit("next", 1, [lane], soon(), UNCHECKED):
            tier.saw(lane, "next", failed=None)
        assert lane.breaker.state is CLOSED

    asyncio.run(scene())


def test_nobody_waits_for_a_trial_that_another_makes_unless_there_is_nobody_else_to_ask() -> None:
    async def scene() -> None:
        for name, alone, tried in (("A", True, "ready"), ("A", False, "tripped"), ("B", False, "tripped")):
            tier, lane = await on_trial(name=name)
            tier.is_alone = alone
            assert tier.nodes()[0].state == "ready"
            with await tier.permit("tries", 1, [lane], soon(), UNCHECKED):
                assert tier.nodes()[0].state == tried
            assert tier.nodes()[0].state == "ready"
            assert state_of(lane) == "ready"

    asyncio.run(scene())
