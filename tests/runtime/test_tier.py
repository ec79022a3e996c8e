"""The tier's line: who would be refused is told so beforehand, and who only asks something waits for a lane."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.core.errors import CapacityError
from lumbre.gateway.facts import NodeState
from lumbre.gateway.health import HealthState
from lumbre.runtime.lanes import Lane, state_of
from lumbre.runtime.tier import Tier
from runtime.tiers import UNCHECKED, a_lane, a_tier, set_state, soon


@given(
    slots=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    states=st.lists(st.sampled_from(list(HealthState)), min_size=3, max_size=3),
    waiting=st.integers(0, 2),
    requests=st.lists(st.tuples(st.integers(1, 4), st.sets(st.integers(0, 2), min_size=1)), max_size=12),
)
def test_whoever_is_refused_beforehand_is_who_would_be_refused_a_permit(
    slots: list[int], states: list[HealthState], waiting: int, requests: list[tuple[int, set[int]]]
) -> None:
    async def scene() -> None:
        lanes = [a_lane(str(n), each, states[n]) for n, each in enumerate(slots)]
        tier = a_tier(*lanes, waiting=waiting)
        loop, entering = asyncio.get_running_loop(), []
        for number, (weight, among) in enumerate(requests):
            candidates = [lane for n, lane in enumerate(lanes) if n in among] or lanes[:1]
            foreseen = _refusal_of(tier, weight, candidates)
            task = loop.create_task(tier.permit(str(number), weight, candidates, loop.time() + 60, UNCHECKED))
            await asyncio.sleep(0)
            refused = task.done() and task.exception() is not None
            if all(lane.health.state is HealthState.DOWN for lane in candidates):
                assert refused
                assert foreseen in (None, 503)
            else:
                assert (foreseen == 429) == refused
            entering.append(task)
        for task in entering:
            task.cancel()
        await asyncio.gather(*entering, return_exceptions=True)

    asyncio.run(scene())


def _refusal_of(tier: Tier, weight: int, candidates: list[Lane]) -> int | None:
    try:
        tier.refuse_if_full(weight, candidates)
    except CapacityError as error:
        return error.status
    return None


def test_who_asks_something_waits_for_a_lane_that_is_not_up_yet() -> None:
    async def scene() -> None:
        first, second = a_lane("first", state=HealthState.STARTING), a_lane("second", state=HealthState.STARTING)
        tier = a_tier(first, second)
        asking = asyncio.create_task(tier.reach([first, second], soon()))
        await asyncio.sleep(0)
        assert tier.waiting == 1
        set_state(tier, first, HealthState.DOWN)
        await asyncio.sleep(0)
        assert not asking.done()
        set_state(tier, second, HealthState.READY)
        assert await asking is second
        assert tier.waiting == 0

    asyncio.run(scene())


def test_who_asks_something_is_told_when_nobody_is_up_or_comes_up_in_time() -> None:
    async def scene() -> None:
        lane = a_lane("only", state=HealthState.STARTING)
        tier = a_tier(lane, waiting=1)
        with pytest.raises(CapacityError, match="no upstream of tier A is up") as late:
            await tier.reach([lane], asyncio.get_running_loop().time() + 0.05)
        assert (late.value.status, late.value.code) == (503, "no_tier")
        asking = asyncio.create_task(tier.reach([lane], soon()))
        await asyncio.sleep(0)
        with pytest.raises(CapacityError) as crowded:
            await tier.reach([lane], soon())
        assert (crowded.value.status, crowded.value.code) == (429, "saturated")
        set_state(tier, lane, HealthState.DOWN)
        with pytest.raises(CapacityError) as fell:
            await asking
        assert (fell.value.status, tier.waiting) == (503, 0)
        with pytest.raises(CapacityError, match="told so"):
            await tier.reach([lane], soon())

    asyncio.run(scene())


def test_a_permit_leads_to_the_address_that_its_lane_has_now() -> None:
    async def scene() -> None:
        lane = a_lane("a")
        with await a_tier(lane).permit("x", 1, [lane], soon(), UNCHECKED) as permit:
            assert (permit.lane, permit.address) == (lane, lane.address)

    asyncio.run(scene())


def test_a_lane_that_rests_takes_nothing_and_those_who_wait_for_it_alone_are_told() -> None:
    async def scene() -> None:
        rests, works = a_lane("rests"), a_lane("works")
        tier = a_tier(rests, works)
        with await tier.permit("first", 1, [rests], soon(), UNCHECKED):
            alone = asyncio.create_task(tier.permit("alone", 1, [rests], soon(), UNCHECKED))
            await asyncio.sleep(0)
            tier.breakers.rest(rests, 30)
            assert state_of(rests) is NodeState.COOLING
            with pytest.raises(CapacityError, match="left alone") as caught:
                await alone
            assert (caught.value.status, caught.value.code) == (503, "no_tier")
        with await tier.permit("other", 1, [rests, works], soon(), UNCHECKED) as permit:
            assert permit.lane is works
        tier.breakers.close()

    asyncio.run(scene())


@pytest.mark.parametrize("weights", [[1, 1, 1], [2, 1], [3], [9]])
def test_whoever_leaves_leaves_nothing_behind(weights: list[int]) -> None:
    async def scene() -> None:
        lane = a_lane("a", 3)
        tier = a_tier(lane)
        for _ in range(2):
            permits = []
            for number, weight in enumerate(weights):
                permits.append(await tier.permit(f"r{number}", weight, [lane], soon(), UNCHECKED))
            with pytest.raises(CapacityError):
                await tier.permit("late", 3, [lane], asyncio.get_running_loop().time(), UNCHECKED)
            for permit in permits:
                with permit:
                    pass
            assert (tier.in_flight(lane), tier.waiting) == (0, 0)

    asyncio.run(scene())


def test_who_would_be_asked_first_is_who_is_asked() -> None:
    async def scene() -> None:
        lanes = [a_lane(name, 3) for name in "abc"]
        tier, held = a_tier(*lanes), []
        for number in range(9):
            first = tier.first_of([lane.id for lane in lanes])
            permit = await tier.permit(str(number), 1, lanes, soon(), UNCHECKED)
            assert permit.lane.id == first
            held.append(permit)
        for permit in held:
            with permit:
                pass

    asyncio.run(scene())
