"""Keeps the breakers of one tier's lanes: tells them what was seen, and when their time has come. Driver; what a
breaker does is `gateway.breaker`'s to say.
"""

import asyncio
import random
from collections.abc import Callable

from lumbre.gateway.breaker import BreakerLimits, BreakerState, Seen, step
from lumbre.runtime.lanes import Lane


class Breakers:
    """Writes `Lane.breaker`, `Lane.is_doubted` and `Lane.rests_until`.

    Args:
        changed: called with a lane whose breaker, or rest, is another than before.
    """

    def __init__(self, limits: BreakerLimits, changed: Callable[[Lane], None]) -> None:
        self._limits = limits
        self._changed = changed
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._rests: dict[str, asyncio.TimerHandle] = {}
        self._doubts: dict[str, asyncio.TimerHandle] = {}

    def saw(self, lane: Lane, seen: Seen, reason: str | None = None) -> None:
        """A probe, a request or the clock has told something of a lane."""
        before = lane.breaker
        if seen is Seen.SUCCEEDED and before.is_clean:
            return
        loop = asyncio.get_running_loop()
        dice = random.random()  # noqa: S311 it parts trials, it keeps no secret
        after = step(before, seen, now=loop.time(), dice=dice, limits=self._limits, reason=reason)
        if after is before:
            return
        lane.breaker = after
        self._set_timer(loop, lane)
        if seen is Seen.RESTARTED:
            self.wake(lane)
        if seen is Seen.FAILED and after.state is BreakerState.CLOSED:
            self._doubt(loop, lane)
        elif after.state is not BreakerState.CLOSED or not after.failures:
            self._trust(lane)
        self._changed(lane)

    def rest(self, lane: Lane, seconds: float) -> None:
        """A lane's upstream wants to be left alone; of several such wishes the latest end holds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if until <= lane.rests_until:
            return
        lane.rests_until = until
        if (timer := self._rests.pop(lane.id, None)) is not None:
            timer.cancel()
        self._rests[lane.id] = loop.call_at(until, self._rested, lane)
        self._changed(lane)

    def wake(self, lane: Lane) -> None:
        """A lane's upstream need not be left alone any longer."""
        if (timer := self._rests.pop(lane.id, None)) is not None:
            timer.cancel()
            self._rested(lane)

    def doubt(self, lane: Lane) -> None:
        """A lane's upstream has just refused work, through no fault that counts: others come before it for a while."""
        self._doubt(asyncio.get_running_loop(), lane)
        self._changed(lane)

    def close(self) -> None:
        """Forget the timers."""
        for timer in (*self._timers.values(), *self._rests.values(), *self._doubts.values()):
            timer.cancel()

    def _doubt(self, loop: asyncio.AbstractEventLoop, lane: Lane) -> None:
        """Others come before it for a while; not for ever, or it would never be seen to be well again."""
        lane.is_doubted = True
        if (timer := self._doubts.pop(lane.id, None)) is not None:
            timer.cancel()
        self._doubts[lane.id] = loop.call_later(self._limits.open_s, self._trusted, lane)

    def _trust(self, lane: Lane) -> None:
        lane.is_doubted = False
        if (timer := self._doubts.pop(lane.id, None)) is not None:
            timer.cancel()

    def _trusted(self, lane: Lane) -> None:
        self._trust(lane)
        self._changed(lane)

    def _rested(self, lane: Lane) -> None:
        lane.rests_until = 0.0
        self._changed(lane)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, lane: Lane) -> None:
        if (timer := self._timers.pop(lane.id, None)) is not None:
            timer.cancel()
        if lane.breaker.until > loop.time():
            # A timer may come a moment early by the clock that the breaker is told.
            self._timers[lane.id] = loop.call_at(lane.breaker.until + 0.001, self.saw, lane, Seen.TIME_PASSED)
