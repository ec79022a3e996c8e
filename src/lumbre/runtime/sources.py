"""What writes the lanes of one tier: a prober for each upstream that somebody else runs, or a supervised engine.
Driver; the gateway makes one for each of its tiers.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumbre.backends.permit import Address
from lumbre.backends.upstream import Outbound
from lumbre.gateway.capability import UNKNOWN, Capability
from lumbre.gateway.health import Health, HealthState
from lumbre.runtime.engine_lane import EngineLane
from lumbre.runtime.lanes import Lane
from lumbre.runtime.launches import Launch
from lumbre.runtime.prober import Prober
from lumbre.runtime.schema import AbilitySection, BreakerSection, UpstreamSection
from lumbre.runtime.supervisor import Supervisor
from lumbre.runtime.tasks import TaskRoom
from lumbre.runtime.tier import Tier


@dataclass(frozen=True)
class Engine:
    """A supervised engine.

    Attributes:
        make_launch: called for every start.
        log_path: where its own output goes.
    """

    make_launch: Callable[[], Launch]
    boot_timeout_s: float
    log_path: Path


class Sources:
    """Makes, starts and ends them.

    Args:
        secret: reads a named secret, such as an upstream's key.
    """

    def __init__(
        self, outbound: Outbound, tasks: TaskRoom, breaker: BreakerSection, secret: Callable[[str], str]
    ) -> None:
        self._outbound = outbound
        self._tasks = tasks
        self._breaker = breaker
        self._secret = secret
        self._suspects: dict[str, Callable[[], None]] = {}
        self._supervisor: Supervisor | None = None
        self._waiting: list[tuple[Callable[[], Coroutine[Any, Any, None]], Tier, Lane]] = []

    def suspect(self, lane: Lane) -> None:
        """A request could not reach a lane's upstream, or was cut off: look at it now."""
        look = self._suspects.get(lane.id)
        if look is not None:  # nobody probes the outside API
            look()

    def probe(self, tier: Tier, upstreams: Sequence[UpstreamSection]) -> None:
        """Watch upstreams, whose lanes the tier has by their ids, from `start` on.

        Raises:
            SettingsError: a key is missing.
        """
        for upstream in upstreams:
            lane = tier.lanes[upstream.id]
            key = self._secret(upstream.api_key_env) if upstream.api_key_env else None
            prober = Prober(
                lane,
                Address(str(upstream.base_url).rstrip("/"), key),
                self._outbound,
                tier.changed,
                tier.breakers.saw,
                probe_s=self._breaker.probe_s,
                failures=self._breaker.failures,
            )
            self._suspects[lane.id] = prober.suspect
            self._waiting.append((prober.run, tier, lane))

    def supervise(self, tier: Tier, lane: Lane, engine: Engine) -> None:
        """Run an engine for a lane, from `start` on."""
        written = EngineLane(lane, self._outbound, tier.changed, tier.breakers.saw, self._tasks)
        supervisor = Supervisor(
            engine.make_launch,
            boot_timeout_s=engine.boot_timeout_s,
            probe_s=self._breaker.probe_s,
            failures=self._breaker.failures,
            log_path=engine.log_path,
            on_change=written.report,
        )
        self._suspects[lane.id] = lambda: written.doubt(supervisor.suspect)
        self._supervisor = supervisor
        self._waiting.append((supervisor.run, tier, lane))

    @property
    def begun(self) -> bool:
        """Whether all of them have been started."""
        return not self._waiting

    def start(self) -> None:
        """Begin; once begun, nothing happens."""
        waiting, self._waiting = self._waiting, []
        for run, tier, lane in waiting:
            self._watch(run(), tier, lane)

    async def stop(self) -> None:
        """End the engine; the tasks are their room's to end."""
        self._waiting.clear()
        if self._supervisor is not None:
            await self._supervisor.stop()

    def _watch(self, source: Coroutine[Any, Any, None], tier: Tier, lane: Lane) -> None:
        """Run what writes a lane; if that should ever fail, the lane must not go on as it was."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                lane.health = Health(
                    HealthState.DOWN, reason="what watches it failed; the gateway's log has the details"
                )
                lane.settled = True
                tier.changed(lane)

        self._tasks.spawn(source, name=f"watch {lane.id}").add_done_callback(ended)


def said(ability: AbilitySection, context_tokens: int = 0) -> Capability:
    """What the settings say that an upstream can do."""
    told = Capability(
        context_tokens=context_tokens or None,
        tools=ability.tools,
        images=ability.images,
        json_schema=ability.json_schema,
        endpoints=frozenset(ability.endpoints) or None,
    )
    return UNKNOWN if told == UNKNOWN else told
