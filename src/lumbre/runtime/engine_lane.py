"""Ties a supervised engine to its lane: what the supervisor reports becomes what the tier sees. Driver."""

import asyncio
from collections.abc import Callable

from lumbre.backends.permit import Address, looking
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import UpstreamError
from lumbre.gateway.breaker import Seen
from lumbre.gateway.health import Health, HealthState
from lumbre.runtime.capability import CapabilityReader
from lumbre.runtime.lanes import Changed, Lane, Saw, read_catalogue
from lumbre.runtime.supervisor import EngineStatus
from lumbre.runtime.tasks import TaskRoom

_LOOK_AGAIN_S = 0.25
_ASK_TIMEOUT_S = 2.0
_WORTH_WAITING_S = 1.0
"""An engine that starts again this soon is not down: requests wait for it."""


class EngineLane:
    """Writes one lane from its supervisor's reports. A lane that is `asked` from the start keeps its models' names."""

    def __init__(self, lane: Lane, outbound: Outbound, on_change: Changed, saw: Saw, tasks: TaskRoom) -> None:
        self._lane = lane
        self._outbound = outbound
        self._on_change = on_change
        self._saw = saw
        self._tasks = tasks
        self._reader = CapabilityReader(lane, outbound)
        self._status: EngineStatus | None = None

    def report(self, status: EngineStatus) -> None:
        """The supervisor's callback."""
        self._status = status
        lane = self._lane
        if status.phase == "ready" and status.address is not None:
            lane.address = Address(status.address.rstrip("/") + "/v1", status.api_key)
            self._reader.forget()
            self._saw(lane, Seen.RESTARTED, None)
            self._ask_later(status)
        elif status.phase == "starting" or (status.phase == "backing_off" and status.retry_in_s <= _WORTH_WAITING_S):
            lane.address, lane.health = None, Health(HealthState.STARTING, reason=status.reason)
        else:
            lane.address, lane.health = None, Health(HealthState.DOWN, reason=status.reason or status.phase)
        lane.settled = lane.settled or lane.asked or lane.health.state is HealthState.DOWN
        self._on_change(lane)

    def doubt(self, suspect: Callable[[], None]) -> None:
        """A request found the engine gone, or was cut off: no new one goes there until it has answered again.

        A process that died is noticed by its supervisor, which then reports; one that lives is asked here.
        """
        if self._status is None or self._lane.health.state is not HealthState.READY:
            return
        self._lane.health = Health(HealthState.STARTING, reason="it cut a request off")
        self._on_change(self._lane)
        suspect()
        self._ask_later(self._status)

    def _ask_later(self, status: EngineStatus) -> None:
        self._tasks.spawn(self._ask(status), name=f"ask {self._lane.id} for its models")

    async def _ask(self, status: EngineStatus) -> None:
        """Ask the engine until it answers, or until its supervisor has something new to say."""
        lane = self._lane
        while status is self._status and lane.address is not None:
            try:
                permit = looking(lane.address)
                catalogue = await read_catalogue(self._outbound, permit, timeout_s=_ASK_TIMEOUT_S)
            except UpstreamError as error:
                if status is self._status:
                    lane.health = Health(HealthState.STARTING, reason=error.message)
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            await self._reader.read(permit, catalogue)
            if status is self._status:
                if not lane.asked:
                    lane.models, lane.traits = catalogue.models, catalogue.traits
                lane.asked = lane.settled = True
                lane.health = Health(HealthState.READY)
                self._on_change(lane)
            return
