"""Keeps one engine running. Driver; `gateway.engine_life` decides when it is started, killed and restarted.

One task, `run`, owns the engine. In each phase it waits for the first of the things that can happen there,
feeds it to the table, and carries out the effects.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumbre.core.errors import LumbreError
from lumbre.gateway.engine_life import (
    BackoffElapsed,
    BootFailed,
    BootSucceeded,
    BootTimedOut,
    Effect,
    EngineLife,
    Event,
    KillProcess,
    Moment,
    Phase,
    ProbeFailed,
    ProbeSucceeded,
    ProcessExited,
    ScheduleRestart,
    SpawnFailed,
    SpawnProcess,
    StartRequested,
    StopRequested,
    step,
)
from lumbre.runtime.engine_probe import HealthProbe
from lumbre.runtime.engine_process import EngineProcess, trim_log
from lumbre.runtime.launches import Launch
from lumbre.runtime.tasks import TaskRoom

Probe = Callable[[str, str], Awaitable[bool]]
"""Asks the engine at an address, with its key, whether it is well."""

_POLL_S = 0.1
_SHORTEST_PROBE_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineStatus:
    """What others may know of the engine.

    Attributes:
        phase: `starting`, `ready`, `backing_off`, `stopping` or `stopped`.
        address: where it answers; None unless ready.
        api_key: what it demands; None unless ready.
        pid: of its process (with a command: of the guard); None if there is none.
        restarts: starts after the first.
        reason: why it is not ready; None when it is, or when nothing went wrong yet.
        retry_in_s: how long it backs off before the next start; 0 in every other phase.
    """

    phase: str
    address: str | None
    api_key: str | None
    pid: int | None
    restarts: int
    reason: str | None
    retry_in_s: float = 0


class Supervisor:
    """The owner of one engine.

    Args:
        make_launch: called for every start. An `OSError` or `LumbreError` of it counts as a failed start.
        boot_timeout_s: seconds from a start until the engine has to answer.
        probe_s: seconds between health probes of a ready engine, and how long each may take (at least 1).
        failures: failed probes in a row after which the engine is killed and started again.
        log_path: where the engine's own output goes.
        on_change: called with each new status, from the loop; it must not block.
        probe: another health probe than GET `/health`.
    """

    def __init__(
        self,
        make_launch: Callable[[], Launch],
        *,
        boot_timeout_s: float,
        probe_s: float,
        failures: int,
        log_path: Path,
        on_change: Callable[[EngineStatus], None],
        probe: Probe | None = None,
    ) -> None:
        self._make_launch = make_launch
        self._boot_timeout_s = boot_timeout_s
        self._probe_s = probe_s
        self._failures = failures
        self._log_path = log_path
        self._on_change = on_change
        self._health = HealthProbe()
        self._probe = probe or self._health
        self._life = EngineLife()
        self._process: EngineProcess | None = None
        self._address: str | None = None
        self._spawn_error = ""
        self._delay_s = 0.0
        self._killing: asyncio.Task[bool] | None = None
        self._room = TaskRoom()
        self._hurry = asyncio.Event()
        self._stop = asyncio.Event()
        self._stop_grace_s = 0.0
        self._over = asyncio.Event()
        self._over.set()
        self.status = self._make_status()

    async def run(self) -> None:
        """Own the engine until `stop`. Cancelled, it ends the engine too, without grace."""
        self._over.clear()
        try:
            trim_log(self._log_path)
            if not self._stop.is_set():
                await self._feed(StartRequested())
            while self._life.phase is not Phase.STOPPED:
                await self._feed(await self._next())
        finally:
            if self._process is not None:
                await self._process.end(0)
            await self._room.close()
            await self._health.close()
            self._over.set()

    async def stop(self, grace_s: float = 5) -> None:
        """End the engine (SIGTERM, `grace_s` seconds, SIGKILL) and `run`; wait until no process is left."""
        self._stop_grace_s = grace_s
        self._stop.set()
        await self._over.wait()

    def suspect(self) -> None:
        """A request could not reach the engine: probe it now instead of at the next turn."""
        self._hurry.set()

    async def _next(self) -> Event:
        """Wait for the first of what can happen in this phase; the earlier one wins a tie."""
        match self._life.phase:
            case Phase.STARTING:
                return await self._first(self._boot(), self._stopped())
            case Phase.READY:
                return await self._first(self._exited(), self._stopped(), self._probed())
            case Phase.BACKING_OFF:
                return await self._first(self._stopped(), self._backed_off())
            case Phase.KILLING:
                return await self._first(self._killed(), self._stopped())
            case _:
                return await self._killed()

    async def _first(self, *waits: Coroutine[Any, Any, Event]) -> Event:
        room = TaskRoom()
        tasks = [room.spawn(wait, "engine watch") for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(task.result() for task in tasks if task.done())
        finally:
            await room.close()

    async def _feed(self, event: Event) -> None:
        moment = Moment(asyncio.get_running_loop().time(), random.random(), self._failures)  # noqa: S311
        self._life, effects = step(self._life, event, moment)
        for effect in effects:
            await self._carry_out(effect)
        if self._life.phase in (Phase.STOPPED, Phase.BACKING_OFF):
            self._process = None
        status = self._make_status()
        if status != self.status:
            self.status = status
            level = logging.INFO if status.reason is None else logging.WARNING
            log.log(level, "engine %s (pid %s): %s", status.phase, status.pid, status.reason or "well")
            self._on_change(status)

    async def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SpawnProcess():
                try:
                    self._process = await EngineProcess.spawn(self._make_launch(), self._log_path)
                except (OSError, LumbreError) as error:
                    self._spawn_error = f"the engine could not be started: {error}"
            case KillProcess(grace_s=grace_s):
                self._killing = self._room.spawn(self._live().end(grace_s), "engine kill")
            case ScheduleRestart(delay_s=delay_s):
                self._delay_s = delay_s

    async def _boot(self) -> Event:
        if self._process is None:
            return SpawnFailed(self._spawn_error)
        try:
            async with asyncio.timeout(self._boot_timeout_s):
                if self._process.launch.announces:
                    return await self._booted_by_word(self._process)
                return await self._first(self._exited(), self._booted_by_answer(self._process.launch))
        except TimeoutError:
            return BootTimedOut(self._with_last_words(f"not ready within {self._boot_timeout_s:g} s"))

    async def _booted_by_word(self, process: EngineProcess) -> Event:
        word = await process.announced()
        if word is None:  # its stdout ended: so has the process, or it is about to
            return await self._exited()
        if word.address is None:
            return BootFailed(self._with_last_words(word.reason))
        self._address = word.address
        if 0 < word.context_tokens < process.launch.context_tokens:
            log.warning(
                "each request gets %d tokens of context, not the %d of [tier_a] context_tokens: the model has no more",
                word.context_tokens,
                process.launch.context_tokens,
            )
        return BootSucceeded()

    async def _booted_by_answer(self, launch: Launch) -> Event:
        self._address = launch.address
        while True:
            if await self._answers():
                return BootSucceeded()
            await asyncio.sleep(_POLL_S)

    async def _exited(self) -> Event:
        return ProcessExited(self._with_last_words(await self._live().exited()))

    async def _killed(self) -> Event:
        ended = self._killing is not None and await asyncio.shield(self._killing)
        if not ended:
            log.error("engine process %s survives SIGKILL: it is stuck in the kernel", self._live().pid)
        return ProcessExited("killed")

    async def _probed(self) -> Event:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._probe_s):
                await self._hurry.wait()
        self._hurry.clear()
        if await self._answers():
            return ProbeSucceeded()
        return ProbeFailed(f"no good answer from {self._address}")

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(max(self._probe_s, _SHORTEST_PROBE_S)):
                return await self._probe(self._address or "", self._live().launch.api_key)
        except TimeoutError:
            return False

    async def _backed_off(self) -> Event:
        await asyncio.sleep(self._delay_s)
        return BackoffElapsed()

    async def _stopped(self) -> Event:
        await self._stop.wait()
        return StopRequested(self._stop_grace_s)

    def _live(self) -> EngineProcess:
        if self._process is None:
            raise RuntimeError(f"there is no engine process in phase {self._life.phase}")
        return self._process

    def _with_last_words(self, reason: str) -> str:
        words = self._live().last_words()
        return f"{reason}; its log says: {words}" if words else reason

    def _make_status(self) -> EngineStatus:
        life, process = self._life, self._process
        ready = process if life.phase is Phase.READY else None
        return EngineStatus(
            phase=(Phase.BACKING_OFF if life.phase is Phase.KILLING else life.phase).value,
            address=self._address if ready else None,
            api_key=ready.launch.api_key if ready else None,
            pid=process.pid if process else None,
            restarts=life.restarts,
            reason=None if ready else life.reason,
            retry_in_s=self._delay_s if life.phase is Phase.BACKING_OFF else 0,
        )
