"""The tier's line: who would be refused is told so beforehand, and who only asks something waits for a lane."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.backends.upstream import Address
from lumbre.core.errors import CapacityError
from lumbre.gateway.health import Health, HealthState
from lumbre.runtime.lanes import Lane
from lumbre.runtime.tier import Tier

ADDRESS = Address("http://127.0.0.1:1/v1")


def a_lane(name: str, slots: int = 1, state: HealthState = HealthState.READY) -> Lane:
    return Lane(name, slots, "m", address=ADDRESS, health=Health(state))


def a_tier(*lanes: Lane, waiting: int = 4) -> Tier:
    tier = Tier(lanes, max_waiting=waiting, wait_s=9, strict_json=False, suspect=lambda _lane: None)
    for lane in lanes:
        tier.changed(lane)
    return tier


def set_state(tier: Tier, lane: Lane, state: HealthState) -> None:
    lane.health = Health(state, reason=None if state is HealthState.READY else "told so")
    tier.changed(lane)


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
            task = loop.create_task(tier.permit(str(number), weight, candidates, loop.time() + 60))
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
        asking = asyncio.create_task(tier.reach([first, second], _soon()))
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
        asking = asyncio.create_task(tier.reach([lane], _soon()))
        await asyncio.sleep(0)
        with pytest.raises(CapacityError) as crowded:
            await tier.reach([lane], _soon())
        assert (crowded.value.status, crowded.value.code) == (429, "saturated")
        set_state(tier, lane, HealthState.DOWN)
        with pytest.raises(CapacityError) as fell:
            await asking
        assert (fell.value.status, tier.waiting) == (503, 0)
        with pytest.raises(CapacityError, match="told so"):
            await tier.reach([lane], _soon())

    asyncio.run(scene())


def _soon() -> float:
    return asyncio.get_running_loop().time() + 10
