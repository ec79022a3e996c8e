"""The board of kill switches, and the routing policy: what holds now, and what holds again after a restart. Driver;
what a switch covers is `gateway.switches`' to say, how long a policy holds `gateway.policy`'s.

Closing is applied first and written down after, and holds even if it cannot be written. Opening, and a policy, are
written down first. What cannot be read at a start is taken for closed where it costs money.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson

from lumbre.core.errors import CallerError, OperatorError
from lumbre.core.quoting import quoted
from lumbre.gateway.policy import POLICIES, Policy, PolicyName
from lumbre.gateway.switches import GLOBAL, LABEL_SWITCHES, PAID, TIER_SWITCHES, Switch, first_closed
from lumbre.gateway.unfit import switch_refusal
from lumbre.runtime.state_dir import write_whole

Moved = Callable[[], None]

T = TypeVar("T")

_WITH_IT = ", and with it which switches were closed, and the policy"
_REASON_CHARS = 200
_ITSELF = "lumbre"
_LOST = "its last state could not be read, so nothing is spent until you open it"


class Board:
    """The switches and the policy.

    Args:
        path: the file that they are kept in.
        nodes: the burst nodes' ids, each of which has a switch.
        default: the policy that holds when no other does.
        moved: called when something is not as it was.
        now: an aware moment.

    Attributes:
        closed: the names of the closed switches.
        on_switch: called with a switch that has been moved.
        on_policy: called with the policy that holds from now on, who chose it and why.
    """

    def __init__(
        self,
        path: Path,
        nodes: Iterable[str],
        default: PolicyName,
        moved: Moved,
        now: Callable[[], datetime],
    ) -> None:
        self._path = path
        self._began = path.with_suffix(".began")
        self._default = default
        self._moved = moved
        self._now = now
        self.on_switch: Callable[[Switch], None] = lambda _switch: None
        self.on_policy: Callable[[Policy, str, str | None], None] = lambda _policy, _by, _reason: None
        self._writing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._acts: set[asyncio.Task[Any]] = set()
        names = (*TIER_SWITCHES, *LABEL_SWITCHES, GLOBAL, *nodes)
        self._switches = {name: Switch(name) for name in names}
        self._strangers: dict[str, Any] = {}
        """Switches of nodes that the settings do not name now; they may come back."""
        self._policy: Policy | None = None
        """What somebody chose; None: nobody has, and the settings' policy holds."""
        self._lost: str | None = None
        self._read()
        self.closed = self._closed()
        self._wait_for_the_end()

    @property
    def switches(self) -> list[Switch]:
        """All of them: tiers, labels, `global`, nodes."""
        return list(self._switches.values())

    @property
    def problem(self) -> str | None:
        """Why the state of before could not be read, until the operator has moved what was closed for it."""
        is_kept = any(switch.by == _ITSELF for switch in self._switches.values())
        return self._lost if is_kept else None

    @property
    def policy(self) -> Policy:
        """The one that holds now."""
        return Policy(self._default) if self._policy is None else self._policy.at(self._now(), self._default)

    @property
    def default(self) -> PolicyName:
        """The one that holds when no other does."""
        return self._default

    def switch(self, name: str) -> Switch:
        """One of them.

        Raises:
            CallerError: 404 `unknown_switch`.
        """
        if name not in self._switches:
            names = tuple(self._switches)
            message = f"no switch {quoted(name)}; there are: {', '.join(names)}"
            raise CallerError(message, status=404, code="unknown_switch", valid=names)
        return self._switches[name]

    def check(self, names: tuple[str, ...]) -> None:
        """Ask this before anything is sent.

        Raises:
            SwitchClosed: one of the switches of these names is.
        """
        closed = self.closed
        if closed and (name := first_closed(names, closed)) is not None:
            raise switch_refusal(name)

    async def close(self, name: str, reason: str | None, by: str) -> Switch:
        """Close a switch. From this call on nothing new is sent to what it covers.

        Raises:
            CallerError: there is none of this name.
            OperatorError: it is closed, and will not be after a restart, for that could not be written down.
        """
        self.switch(name)
        closed = self._move(Switch(name, True, _cut(reason), by, self._now()))
        try:
            await self._finish(self._write_all())
        except OperatorError as error:
            message = f"{name} is closed (stopped), but only until the gateway is started again: {error.message}"
            raise OperatorError(message) from error
        return closed

    async def open(self, name: str, reason: str | None, by: str) -> Switch:
        """Open a switch, once that is written down. One that somebody closes meanwhile stays closed.

        Raises:
            CallerError: there is none of this name.
            OperatorError: it stays closed, for its opening could not be written down.
        """
        before = self.switch(name)
        return await self._finish(self._opened(before, Switch(name, False, _cut(reason), by, self._now())))

    async def choose(self, policy: Policy, by: str = "operator", reason: str | None = None) -> Policy:
        """Take another policy, once it is written down; the next request goes by it.

        Raises:
            OperatorError: the policy of before holds, for the new one could not be written down.
        """
        await self._finish(self._chosen(policy, by, reason))
        return self.policy

    def close_timers(self) -> None:
        """The gateway ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _move(self, switch: Switch) -> Switch:
        self._switches[switch.name] = switch
        self.closed = self._closed()
        self._moved()
        self.on_switch(switch)
        return switch

    def _closed(self) -> frozenset[str]:
        return frozenset(name for name, switch in self._switches.items() if switch.is_closed)

    def _wait_for_the_end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        until = None if self._policy is None else self._policy.until
        if until is not None:
            left_s = (until - self._now()).total_seconds()
            self._timer = asyncio.get_running_loop().call_later(max(left_s, 0) + 0.001, self._drain_ended)

    def _drain_ended(self) -> None:
        self._timer = None
        if self.policy is self._policy:
            self._wait_for_the_end()
        else:
            self._moved()
            self.on_policy(self.policy, "lumbre", "the time of the drain is over")

    async def _finish(self, act: Coroutine[Any, Any, T]) -> T:
        """See something through, though whoever asked for it may go away: half of it would be neither."""
        task = asyncio.create_task(act)
        self._acts.add(task)
        task.add_done_callback(self._acted)
        return await asyncio.shield(task)

    def _acted(self, task: "asyncio.Task[Any]") -> None:
        self._acts.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has it, unless nobody waits any more

    async def _write_all(self) -> None:
        async with self._writing:
            await self._write()

    async def _opened(self, before: Switch, opened: Switch) -> Switch:
        async with self._writing:
            name = opened.name
            if self._switches[name] is not before:
                return self._switches[name]
            try:
                await self._write({name: opened})
            except OperatorError:
                await self._take_back()
                raise
            if self._switches[name] is not before:
                await self._write()
                return self._switches[name]
            return self._move(opened)

    async def _chosen(self, policy: Policy, by: str, reason: str | None) -> None:
        async with self._writing:
            try:
                await self._write(policy=policy)
            except OperatorError:
                await self._take_back()
                raise
            self._policy = policy
        self._wait_for_the_end()
        self._moved()
        self.on_policy(policy, by, reason)

    async def _take_back(self) -> None:
        """What failed may have been half done: write once more what holds."""
        with contextlib.suppress(OperatorError):
            await self._write()

    async def _write(self, others: Mapping[str, Switch] | None = None, policy: Policy | None = None) -> None:
        document = self._document({**self._switches, **(others or {})}, policy or self._policy)
        await asyncio.to_thread(self._keep, document)

    def _keep(self, document: object) -> None:
        write_whole(self._path, document)
        _sync_folder(self._path.parent)

    def _document(self, switches: Mapping[str, Switch], policy: Policy | None) -> dict[str, Any]:
        told = {name: told_switch(switch) for name, switch in switches.items() if switch.at is not None}
        return {
            "policy": None if policy is None else {"policy": policy.name, "until": policy.until},
            "switches": {**self._strangers, **told},
        }

    def _read(self) -> None:
        """Take up what was written down. There is nothing to be missed in a folder that never had it."""
        try:
            document = orjson.loads(self._path.read_bytes())
            self._take(document)
        except FileNotFoundError:
            if self._began.exists():
                self._fail_closed(f"{self._path} is gone{_WITH_IT}")
                return
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._keep(self._document({}, self._policy))
            self._began.touch(mode=0o600)
            _sync_folder(self._path.parent)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            self._fail_closed(f"{self._path} cannot be read ({error}){_WITH_IT}")
        else:
            self._began.touch(mode=0o600)

    def _take(self, document: Any) -> None:
        said, switches = document["policy"], document["switches"]
        policy = None if said is None else self._read_policy(said)
        known = {name: read_switch(name, told) for name, told in switches.items()}
        self._strangers = {name: told for name, told in switches.items() if name not in self._switches}
        self._switches.update({name: switch for name, switch in known.items() if name in self._switches})
        self._policy = policy

    def _read_policy(self, said: Mapping[str, Any]) -> Policy:
        if said["policy"] not in POLICIES:
            raise ValueError(f"it names no policy: {quoted(said['policy'])}")
        until = None if said["until"] is None else datetime.fromisoformat(said["until"])
        policy = Policy(cast("PolicyName", said["policy"]), until)
        policy.at(self._now(), self._default)  # a moment without its zone cannot be compared
        return policy

    def _fail_closed(self, problem: str) -> None:
        self._lost = problem
        for name in PAID:
            self._switches[name] = Switch(name, True, _LOST, _ITSELF, self._now())
        with contextlib.suppress(OSError, OperatorError):  # what is not written now is unreadable the next time too
            self._began.touch(mode=0o600)
            if self._path.exists():
                self._path.replace(self._path.with_suffix(".unreadable"))
            self._keep(self._document(self._switches, self._policy))


def told_switch(switch: Switch) -> dict[str, Any]:
    """A switch as it is kept."""
    return {"state": switch.state, "reason": switch.reason, "by": switch.by, "at": switch.at}


def read_switch(name: str, told: Mapping[str, Any]) -> Switch:
    """The same back.

    Raises:
        KeyError, ValueError, TypeError, AttributeError, OverflowError: it is none.
    """
    if told["state"] not in ("open", "closed"):
        raise ValueError(f"the switch {name} is neither open nor closed")
    at = datetime.fromisoformat(told["at"])
    reason, by = told["reason"], told["by"]
    if not (isinstance(reason, str | None) and isinstance(by, str | None)):
        raise TypeError(f"the switch {name} has a reason that is no text")
    return Switch(name, told["state"] == "closed", reason, by, at.astimezone(UTC))


def _cut(reason: str | None) -> str | None:
    return None if reason is None else reason[:_REASON_CHARS]


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder outlast a power cut.

    Raises:
        OperatorError: it cannot be.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise OperatorError(f"{folder} cannot be written: {error.strerror or 'unknown error'}") from error
