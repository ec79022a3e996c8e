"""One tier at run time: its lanes, the line before them, and the permits that requests run under. Driver; who may start
is `gateway.admission`'s to say, and what a breaker does `gateway.breaker`'s.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lumbre.backends.permit import Address
from lumbre.backends.permit import Permit as Leave
from lumbre.core.errors import CapacityError, NoConnection, SwitchClosed
from lumbre.gateway.admission import Admission, Admitted, Refused
from lumbre.gateway.breaker import BreakerLimits, BreakerState, Seen
from lumbre.gateway.facts import Node, NodeState
from lumbre.runtime.breakers import Breakers
from lumbre.runtime.lanes import Lane, state_of

_RETRY_DOWN_S = 5
_TAKES_NONE = frozenset({NodeState.DOWN, NodeState.TRIPPED, NodeState.COOLING})


class Permit(Leave):
    """One request may run on one upstream, now: while it is held, as a context manager, its place is taken.

    It is the only way to an upstream. It is refused, also later, in the moment of sending, when a switch stops it.
    """

    __slots__ = ("_request", "_tier", "lane")

    def __init__(self, tier: "Tier", request: str, lane: Lane, address: Address, check: Callable[[], None]) -> None:
        super().__init__(address, check)
        self._tier = tier
        self._request = request
        self.lane = lane

    def __enter__(self) -> "Permit":
        return self

    def __exit__(self, *_: object) -> None:
        self._tier.leave(self._request)


Checks = Callable[[Lane], Callable[[], None]]
"""Makes what is asked before anything of a request is sent to a lane; raises `SwitchClosed`."""


@dataclass(frozen=True)
class _Waiter:
    admitted: asyncio.Future[str]
    candidates: list[Lane]
    checks: Checks


class Tier:
    """The lanes of one tier.

    Args:
        name: `A`, `B` or `C`.
        lanes: its upstreams.
        max_waiting: requests that may wait.
        wait_s: how long each may.
        suspect: called with a lane that a request could not reach.
        breaker: when an upstream's breaker opens.
        news: called when something is not as it was: a lane, its breaker, who may be asked.

    Attributes:
        is_alone: there is no other tier.
    """

    def __init__(
        self,
        name: str,
        lanes: Sequence[Lane],
        *,
        max_waiting: int,
        wait_s: float,
        suspect: Callable[[Lane], None],
        breaker: BreakerLimits,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.is_alone = False
        self.lanes = {lane.id: lane for lane in lanes}
        self.suspect = suspect
        self.breakers = Breakers(breaker, self.changed)
        self._max_waiting = max_waiting
        self._wait_s = wait_s
        self._on_news = news
        self._settling = 0
        self._nodes: tuple[Node, ...] | None = None
        self._serving: dict[str | None, list[Lane]] = {}
        self._admission = Admission(max_waiting)
        self._waiters: dict[str, _Waiter] = {}
        self._settled = asyncio.Event()
        self._ready = asyncio.Event()
        self._news = asyncio.Event()
        for lane in lanes:
            self.changed(lane)

    @property
    def wait_s(self) -> float:
        """How long a request may wait, all its waits together."""
        return self._wait_s

    @property
    def waiting(self) -> int:
        """Requests in line, and those that wait for an upstream's first word."""
        return self._admission.waiting + self._settling

    @property
    def ready(self) -> bool:
        """Whether some lane takes work now."""
        return any(map(_takes_work, self.lanes.values()))

    def in_flight(self, lane: Lane) -> int:
        """Requests that run on a lane."""
        return self._admission.in_flight(lane.id)

    def waiting_for(self, lane: Lane) -> int:
        """Requests in line that a lane could take."""
        return self._admission.waiting_for(lane.id)

    def changed(self, lane: Lane) -> None:
        """A lane's source, or its breaker, wrote to it: open or close its slots."""
        self._changed()
        self._serving.clear()
        self._resize(lane)
        if state_of(lane) in _TAKES_NONE:
            self._send_away()
        if all(each.settled for each in self.lanes.values()):
            self._settled.set()
        else:
            self._settled.clear()
        if self.ready:
            self._ready.set()
        else:
            self._ready.clear()
        self._news.set()
        self._news = asyncio.Event()

    def recheck(self) -> None:
        """A switch has been moved: whoever waits for what is stopped now is told so."""
        self._changed()
        for waiter in self._waiters.values():
            if not waiter.admitted.done() and (closed := _stopped(waiter)) is not None:
                waiter.admitted.set_exception(closed)

    def saw(self, lane: Lane, request: str, *, failed: str | None) -> None:
        """A request, which still holds its permit, has a verdict on its lane: None, or why it failed.

        On trial only the one that tries it has a say: the others began before.
        """
        if lane.breaker.state is BreakerState.HALF_OPEN and not self._admission.tries(lane.id, request):
            return
        self.breakers.saw(lane, Seen.SUCCEEDED if failed is None else Seen.FAILED, failed)

    def nodes(self) -> tuple[Node, ...]:
        """The lanes as the decision sees them."""
        if self._nodes is None:
            self._nodes = tuple(self._node(lane) for lane in self.lanes.values())
        return self._nodes

    @property
    def is_complete(self) -> bool:
        """Whether every upstream has said what it serves; of rented machines, that are often off, those that are up."""
        return all(lane.asked or (lane.settled and self.name == "B") for lane in self.lanes.values())

    async def wait_ready(self) -> None:
        """Wait until some lane takes work; the caller sets the deadline."""
        await self._ready.wait()

    async def settle(self, deadline_at: float) -> None:
        """Wait until every lane has been looked at once, or until a moment on the loop's clock.

        Raises:
            CapacityError: as many wait for it as may wait in line.
        """
        if self._settled.is_set():
            return
        with self._aside():
            try:
                async with asyncio.timeout_at(deadline_at):
                    await self._settled.wait()
            except TimeoutError:
                return  # decide with what is known; a lane that says nothing must not hold up the others

    def models(self) -> tuple[str, ...]:
        """Every model served by name, in the lanes' order, each once."""
        names = (name for lane in self.lanes.values() for name in ((lane.model,) if lane.model else ()) + lane.models)
        return tuple(dict.fromkeys(names))

    def first_of(self, nodes: Sequence[str]) -> str:
        """The one of some lanes that would be asked first now."""
        return min(nodes, key=self._admission.rank)

    def lanes_for(self, model: str | None) -> list[Lane]:
        """The lanes that serve a model; None: all of them."""
        lanes = self._serving.get(model)
        if lanes is None:
            lanes = [lane for lane in self.lanes.values() if lane.serves(model)]
            if lanes:  # a name that nobody serves is the caller's invention, and there is no end of those
                self._serving[model] = lanes
        return lanes

    async def reach(self, candidates: list[Lane], deadline_at: float) -> Lane:
        """Wait for a lane that takes work, to ask it something that needs no place on it.

        Args:
            deadline_at: a moment on the loop's clock.

        Raises:
            CapacityError: 503 `no_tier` when no candidate is up, or comes up in time; 429 `saturated` when as many wait
                for that as may wait in line.
        """
        if (found := _first_that_takes_work(candidates)) is not None:
            return found
        self._refuse_if_down(candidates)
        with self._aside():
            try:
                async with asyncio.timeout_at(deadline_at):
                    while (found := _first_that_takes_work(candidates)) is None:
                        await self._news.wait()
                        self._refuse_if_down(candidates)
            except TimeoutError:
                raise self._down(candidates) from None
        return found

    def refuse_if_full(self, weight: int, candidates: list[Lane]) -> None:
        """Turn away a request that a permit would be refused now; one that is not keeps no place.

        Args:
            weight: the slots that it wants.

        Raises:
            CapacityError: see `permit`.
        """
        if self._admission.waiting < self._max_waiting or any(self._has_room(lane, weight) for lane in candidates):
            return
        self._refuse_if_down(candidates)
        raise self._saturated("and the line is full")

    async def permit(
        self, request: str, weight: int, candidates: list[Lane], deadline_at: float, checks: Checks
    ) -> Permit:
        """Take a place on one of the candidates, waiting for it if need be, until a moment on the loop's clock.

        Whoever is given the permit enters it at once, with `with`, and so gives the place back.

        Raises:
            NoConnection: the upstream went away in the moment it was taken.
            SwitchClosed: a switch stops it.
            CapacityError: 429 `saturated` when there is no room to wait or the wait was too long; 503 `no_tier` when
                no upstream is up.
        """
        try:
            lane = self.lanes[await self._place(request, weight, candidates, deadline_at, checks)]
            if lane.breaker.state is not BreakerState.CLOSED:
                self._changed()  # its trial has begun
            check = checks(lane)
            check()
            if lane.address is None:
                raise NoConnection(f"{lane.id} went away in the moment it was taken")
            return Permit(self, request, lane, lane.address, check)
        except BaseException:
            self.leave(request)
            raise

    async def _place(
        self, request: str, weight: int, candidates: list[Lane], deadline_at: float, checks: Checks
    ) -> str:
        """The upstream that runs the request, now or in its turn."""
        self._refuse_if_down(candidates)
        answer = self._admission.arrive(request, weight, {lane.id: lane.slots for lane in candidates})
        if isinstance(answer, Admitted):
            return answer.upstream
        if isinstance(answer, Refused):
            raise self._saturated("and the line is full")
        return await self._turn(
            request, _Waiter(asyncio.get_running_loop().create_future(), candidates, checks), deadline_at
        )

    def leave(self, request: str) -> None:
        """A request ends or gives up waiting; whoever waits for its place gets it."""
        self._wake(self._admission.leave(request))
        if self._admission.has_trials:
            self._changed()  # it may have been one

    async def _turn(self, request: str, waiter: _Waiter, deadline_at: float) -> str:
        """Wait in line; the upstream that came free."""
        self._waiters[request] = waiter
        try:
            async with asyncio.timeout_at(deadline_at):
                return await waiter.admitted
        except TimeoutError:
            if not any(map(_takes_work, waiter.candidates)):
                raise self._down(waiter.candidates) from None
            raise self._saturated(f"and none came free within {self._wait_s:g} s ([limits] wait_s)") from None
        finally:
            del self._waiters[request]

    def _wake(self, started: list[Admitted]) -> None:
        for admitted in started:
            waiter = self._waiters.get(admitted.request)
            if waiter is not None and not waiter.admitted.done():
                waiter.admitted.set_result(admitted.upstream)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Wait for an upstream's word: not in line, but counted with those who are."""
        if self._settling >= self._max_waiting:
            raise self._saturated("and the line is full")
        self._settling += 1
        try:
            yield
        finally:
            self._settling -= 1

    def _has_room(self, lane: Lane, weight: int) -> bool:
        """Whether a lane could take a request at once; whoever waits for it comes first."""
        held = self._admission.held(lane.id)
        fits = held + min(weight, lane.slots) <= lane.slots
        return fits and _takes_work(lane) and self._admission.waiting_for(lane.id) == 0

    def _send_away(self) -> None:
        """Whoever waits for upstreams that all take nothing any more is told so now."""
        for waiter in self._waiters.values():
            if not waiter.admitted.done() and all(state_of(lane) in _TAKES_NONE for lane in waiter.candidates):
                waiter.admitted.set_exception(self._down(waiter.candidates))

    def _refuse_if_down(self, candidates: list[Lane]) -> None:
        for lane in candidates:
            if state_of(lane) not in _TAKES_NONE:
                return
        raise self._down(candidates)

    def _resize(self, lane: Lane) -> None:
        state = lane.breaker.state
        started = self._admission.resize(
            lane.id,
            lane.slots if _takes_work(lane) else 0,
            trial=state is BreakerState.HALF_OPEN,
            doubtful=lane.is_doubted,
        )
        self._wake(started)

    def _changed(self) -> None:
        self._nodes = None
        self._on_news()

    def _node(self, lane: Lane) -> Node:
        state = state_of(lane)
        reason = lane.health.reason
        if state is NodeState.TRIPPED:
            reason = f"its breaker is {lane.breaker.shown}: {lane.breaker.reason or reason or 'it failed'}"
        elif state is NodeState.COOLING:
            reason = "it asked to be left alone for a while"
        elif not self.is_alone and self._admission.on_trial(lane.id):
            # Where there is nobody else to ask, others wait for the trial's end.
            state, reason = NodeState.TRIPPED, "its breaker is half_open, and a request tries it"
        models = tuple(dict.fromkeys(((lane.model,) if lane.model else ()) + lane.models))
        return Node(lane.id, state, reason, lane.labels, models)

    def _down(self, lanes: list[Lane]) -> CapacityError:
        nodes = [self._node(lane) for lane in lanes]
        reasons = "; ".join(f"{node.id}: {node.reason or 'not up yet'}" for node in nodes)
        return CapacityError(f"no upstream of tier {self.name} is up ({reasons})", retry_after_s=_RETRY_DOWN_S)

    def _saturated(self, why: str) -> CapacityError:
        retry_s = max(1, math.ceil(self._wait_s / 4)) if self._wait_s < 40 else 10
        return CapacityError(f"every slot is taken {why}", status=429, code="saturated", retry_after_s=retry_s)


def _takes_work(lane: Lane) -> bool:
    return state_of(lane) is NodeState.READY and lane.address is not None


def _first_that_takes_work(lanes: list[Lane]) -> Lane | None:
    return next(filter(_takes_work, lanes), None)


def _stopped(waiter: _Waiter) -> SwitchClosed | None:
    """Why none of the lanes that a request waits for may be asked; None if one may."""
    closed: SwitchClosed | None = None
    for lane in waiter.candidates:
        try:
            waiter.checks(lane)()
        except SwitchClosed as error:
            closed = error
        else:
            return None
    return closed
