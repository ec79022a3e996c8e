"""Lanes and tiers that no process stands behind. Used by the tests of what keeps and asks them."""

import asyncio
from collections.abc import Callable
from typing import Any

from lumbre.backends.permit import Address
from lumbre.gateway.breaker import BreakerLimits
from lumbre.gateway.health import Health, HealthState
from lumbre.runtime.lanes import Lane
from lumbre.runtime.tier import Checks, Tier

ADDRESS = Address("http://127.0.0.1:1/v1")
LIMITS = BreakerLimits(failures=3, open_s=60, most_open_s=600, jitter=0.2, calm_s=600)


def a_lane(name: str, slots: int = 1, state: HealthState = HealthState.READY, model: str = "m", **more: Any) -> Lane:
    told = {"address": ADDRESS, "health": Health(state), "asked": True, "settled": True, **more}
    return Lane(name, slots, model, **told)


def a_tier(
    *lanes: Lane,
    name: str = "A",
    waiting: int = 4,
    wait_s: float = 9,
    breaker: BreakerLimits = LIMITS,
    suspect: Callable[[Lane], None] = lambda _lane: None,
    news: Callable[[], None] = lambda: None,
) -> Tier:
    return Tier(name, lanes, max_waiting=waiting, wait_s=wait_s, suspect=suspect, breaker=breaker, news=news)


def unchecked(_lane: Lane) -> Callable[[], None]:
    """No switch stands before a lane."""
    return lambda: None


UNCHECKED: Checks = unchecked


def set_state(tier: Tier, lane: Lane, state: HealthState) -> None:
    lane.health = Health(state, reason=None if state is HealthState.READY else "told so")
    tier.changed(lane)


def soon() -> float:
    """A moment on the loop's clock that a test does not live to see."""
    return asyncio.get_running_loop().time() + 10
