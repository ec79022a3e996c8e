"""The gateway as one object: its tier, what feeds the tier, the dispatcher, and the way down. Driver; the
composition root in
`cli` makes it, the doors use it.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lumbre import __version__
from lumbre.backends.traits import LLAMA_CPP
from lumbre.backends.upstream import Address, Outbound
from lumbre.core.errors import CapacityError
from lumbre.core.ids import DecisionId, decision_id
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.health import Health, HealthState
from lumbre.runtime.dispatch import Dispatcher
from lumbre.runtime.engine_lane import EngineLane
from lumbre.runtime.lanes import Lane
from lumbre.runtime.launches import Launch, command_launch, embedded_launch
from lumbre.runtime.prober import Prober
from lumbre.runtime.records import Records
from lumbre.runtime.schema import Settings, UpstreamSection
from lumbre.runtime.supervisor import Supervisor
from lumbre.runtime.tasks import TaskRoom
from lumbre.runtime.tier import Tier

log = logging.getLogger(__name__)

CUT_OFF = "cut_off"
_CUT_OFF_S = 5
"""Each client has a second to be told."""


class Gateway:
    """Everything behind the doors.

    Args:
        settings: all of them.
        model_path: the embedded engine's file; None with another backend.
        model_alias: what its model is called.
        secret: reads a named secret, such as an upstream's key.
        environ: this process's environment; engines get what they need of it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        model_path: Path | None,
        model_alias: str,
        secret: Callable[[str], str],
        environ: Mapping[str, str],
    ) -> None:
        self.settings = settings
        self.began_at_s = int(time.time())
        self.draining = False
        self._secret = secret
        self._environ = environ
        self._tasks = TaskRoom()
        self._outbound = Outbound(user_agent=f"lumbre/{__version__}")
        self._supervisor: Supervisor | None = None
        self._answers: dict[str, asyncio.Task[object]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        tier_a, limits = settings.tier_a, settings.limits
        suspects: dict[str, Callable[[], None]] = {}
        self.tier = Tier(
            self._lanes(model_alias),
            max_waiting=limits.waiting,
            wait_s=limits.wait_s,
            strict_json=tier_a.strict_json,
            suspect=lambda lane: suspects[lane.id](),
        )
        self._attach(model_path, suspects)
        self.records = Records(self.tier)
        self.dispatcher = Dispatcher(
            self.tier,
            self._outbound,
            self.records,
            _deadlines(settings),
            reply_limit_bytes=limits.reply_bytes,
            clock=asyncio.get_running_loop().time,
        )

    def new_decision(self) -> DecisionId:
        """An id for a request that has just arrived."""
        return decision_id(secrets.token_bytes(12))

    def refuse_if_draining(self) -> None:
        """Ask this in the moment before an answer is begun.

        Raises:
            CapacityError: 503 `draining`; the gateway takes nothing new.
        """
        if self.draining:
            raise CapacityError("the gateway is stopping and takes no new work", code="draining", retry_after_s=5)

    @contextmanager
    def answering(self, decision: str, task: "asyncio.Task[object]") -> Iterator[None]:
        """Count an answer while it is being made. There is no wait between `refuse_if_draining` and this."""
        self._answers[decision] = task
        self._idle.clear()
        try:
            yield
        finally:
            del self._answers[decision]
            if not self._answers:
                self._idle.set()

    @property
    def answers(self) -> int:
        """Answers that are being made."""
        return len(self._answers)

    async def drain(self) -> None:
        """Take nothing new, and wait for what runs; what is not done by the drain limit is cut off."""
        self.draining = True
        try:
            async with asyncio.timeout(self.settings.deadlines.drain_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("drain limit passed; cutting %d answers off", len(self._answers))
            await self.cut_off()

    async def cut_off(self) -> None:
        """End every answer now; its client is told."""
        self.draining = True
        for task in tuple(self._answers.values()):
            task.cancel(CUT_OFF)
        try:
            async with asyncio.timeout(_CUT_OFF_S):
                await self._idle.wait()
        except TimeoutError:
            log.error("%d answers would not end", len(self._answers))

    async def close(self) -> None:
        """Stop the engine, the probes and the connections."""
        self.draining = True
        if self._supervisor is not None:
            await self._supervisor.stop()
        await self._tasks.close()
        await self._outbound.close()

    def _lanes(self, alias: str) -> list[Lane]:
        tier_a = self.settings.tier_a
        if tier_a.backend == "embedded":
            return [Lane("embedded", tier_a.slots, alias, traits=LLAMA_CPP, asked=True, settled=True)]
        if tier_a.backend == "command":
            return [Lane("command", tier_a.slots, "")]
        return [Lane(each.id, each.slots, each.model) for each in tier_a.upstreams]

    def _attach(self, model_path: Path | None, suspects: dict[str, Callable[[], None]]) -> None:
        tier_a = self.settings.tier_a
        if tier_a.backend == "openai":
            for upstream in tier_a.upstreams:
                prober = self._prober(self.tier.lanes[upstream.id], upstream)
                suspects[upstream.id] = prober.suspect
                self._watch(prober.run(), self.tier.lanes[upstream.id])
            return
        (lane,) = self.tier.lanes.values()
        engine = EngineLane(lane, self._outbound, self.tier.changed, self._tasks)
        supervisor = Supervisor(
            self._make_launch(model_path, lane.model),
            boot_timeout_s=tier_a.boot_timeout_s,
            probe_s=self.settings.breaker.probe_s,
            failures=self.settings.breaker.failures,
            log_path=self.settings.gateway.state_dir / "logs" / "engine.log",
            on_change=engine.report,
        )
        suspects[lane.id] = lambda: engine.doubt(supervisor.suspect)
        self._supervisor = supervisor
        self._watch(supervisor.run(), lane)

    def _watch(self, source: Coroutine[Any, Any, None], lane: Lane) -> None:
        """Run what writes a lane; if that should ever fail, the lane must not go on as it was."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                lane.health = Health(
                    HealthState.DOWN, reason="what watches it failed; the gateway's log has the details"
                )
                lane.settled = True
                self.tier.changed(lane)

        self._tasks.spawn(source, name=f"watch {lane.id}").add_done_callback(ended)

    def _make_launch(self, model_path: Path | None, alias: str) -> Callable[[], Launch]:
        tier_a, environ = self.settings.tier_a, self._environ
        if model_path is None:
            return lambda: command_launch(tier_a, environ=environ)
        return lambda: embedded_launch(tier_a, model_path, alias=alias, environ=environ)

    def _prober(self, lane: Lane, upstream: UpstreamSection) -> Prober:
        key = self._secret(upstream.api_key_env) if upstream.api_key_env else None
        return Prober(
            lane,
            Address(str(upstream.base_url).rstrip("/"), key),
            self._outbound,
            self.tier.changed,
            probe_s=self.settings.breaker.probe_s,
            failures=self.settings.breaker.failures,
        )


def _deadlines(settings: Settings) -> Deadlines:
    given = settings.deadlines
    return Deadlines(
        connect_s=given.connect_s,
        header_s=given.header_s,
        first_token_s=given.first_token_s,
        idle_s=given.idle_s,
        total_s=given.total_s,
        keepalive_s=settings.gateway.keepalive_s,
    )
