"""One act that is put off, again and again: what a connection has to do when nothing happens. Over the event loop."""

import asyncio
from collections.abc import Callable

Act = Callable[[], None]

_CLOSE_ENOUGH_S = 0.001


class Alarm:
    """At most one act at a time.

    A timer that is set and fires too soon is left, and looks again then: so what is put off with every request, and
    hardly ever happens, costs no timer for each.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._due_at = 0.0
        self.act: Act | None = None

    def put_off(self, delay_s: float, act: Act) -> None:
        """Do this after so many seconds, instead of what was put off before."""
        self.act = act
        self._due_at = self._loop.time() + delay_s
        if self._timer is not None:
            if self._timer_at <= self._due_at:
                return
            self._timer.cancel()
        self._set()

    def clear(self) -> None:
        """Do nothing."""
        self.act = None

    def stop(self) -> None:
        """Do nothing, and keep no timer."""
        self.act = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self._timer_at = self._due_at
        self._timer = self._loop.call_at(self._due_at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self.act is None:
            return
        if self._loop.time() < self._due_at - _CLOSE_ENOUGH_S:
            self._set()
            return
        act, self.act = self.act, None
        act()
