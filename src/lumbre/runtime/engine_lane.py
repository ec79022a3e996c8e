"""Ties a supervised engine to its lane: what the supervisor reports becomes what the tier sees. Driver."""

import asyncio
from collections.abc import Callable

from lumbre.backends.upstream import Address, Outbound
from lumbre.core.errors import UpstreamError
from lumbre.gateway.health import Health
from lumbre.runtime.lanes import Changed, Lane, read_catalogue
from lumbre.runtime.supervisor import EngineStatus
from lumbre.runtime.tasks import TaskRoom

_LOOK_AGAIN_S = 0.25
_WORTH_WAITING_S = 1.0
"""An engine that starts again this soon is not down: requests wait for it."""


class EngineLane:
    """Writes one lane from its supervisor's reports.

    Args:
        asks: whether the engine has to be asked what it serves; the embedded one has not.
    """

    def __init__(self, lane: Lane, outbound: Outbound, on_change: Changed, tasks: TaskRoom, *, asks: bool) -> None:
        self._lane = lane
        self._outbound = outbound
        self._on_change = on_change
        self._tasks = tasks
        self._asks = asks
        self._status: EngineStatus | None = None

    def report(self, status: EngineStatus) -> None:
        """The supervisor's callback."""
        self._status = status
        lane = self._lane
        if status.phase == "ready" and status.address is not None:
            lane.address = Address(status.address.rstrip("/") + "/v1", status.api_key)
            if self._asks:
                self._tasks.spawn(self._ask(status), name=f"ask {lane.id} for its models")
                return
            lane.health = Health("ready")
        elif status.phase == "starting" or (status.phase == "backing_off" and status.retry_in_s <= _WORTH_WAITING_S):
            lane.address, lane.health = None, Health("starting", reason=status.reason)
        else:
            lane.address, lane.health = None, Health("down", reason=status.reason or status.phase)
        self._on_change(lane)

    def doubt(self, suspect: Callable[[], None]) -> None:
        """A request found the engine gone, or was cut off: no new one goes there until it has answered again.

        A process that died is noticed by its supervisor, which then reports; one that lives is asked here.
        """
        if self._status is None or self._lane.health.state != "ready":
            return
        self._lane.health = Health("starting")
        self._on_change(self._lane)
        suspect()
        self._tasks.spawn(self._reassure(self._status), name=f"look after {self._lane.id}")

    async def _reassure(self, status: EngineStatus) -> None:
        """Ask the engine until it answers, or until its supervisor has something new to say."""
        lane = self._lane
        while status is self._status and lane.address is not None:
            try:
                await read_catalogue(self._outbound, lane.address, timeout_s=2)
            except UpstreamError:
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                if status is self._status:
                    lane.health = Health("ready")
                    self._on_change(lane)
                return

    async def _ask(self, status: EngineStatus) -> None:
        lane = self._lane
        if lane.address is None:
            return
        try:
            catalogue = await read_catalogue(self._outbound, lane.address)
        except UpstreamError as error:
            health = Health("down", reason=error.message)
        else:
            lane.models, lane.traits = catalogue.models, catalogue.traits
            health = Health("ready")
        lane.settled = True
        if status is self._status:
            lane.health = health
            self._on_change(lane)
