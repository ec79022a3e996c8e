"""Engines that misbehave, each in a process that can be killed and comes back at the same port. Driver; `soak` says
when.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.decision import tiers
from bench.decision.accounts import Death
from bench.decision.chaos import bound, port_of
from bench.gateway.processes import Child


class Engines:
    """All of them, by name."""

    def __init__(self, names: Sequence[str], folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._kept = {name: stack.enter_context(bound(0)) for name in names}
        self.deaths: dict[str, list[Death]] = {name: [] for name in names}
        self._alive: dict[str, Child] = {}
        stack.callback(self._end)
        for name in names:
            self._start(name)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{port_of(self._kept[name])}"

    def seen(self) -> Counter[tuple[str, str]]:
        """How often each request has reached each of them: by tag and name."""
        lines = ((name, tiers.seen_file(self._folder, name).read_text("ascii").splitlines()) for name in self._kept)
        return Counter((line.split()[1], name) for name, found in lines for line in found)

    async def die(self, name: str, dead_s: float) -> None:
        """Kill it, and start it again after a while."""
        child = self._alive[name]
        killed = time.time()
        os.kill(child.pid, signal.SIGKILL)
        await asyncio.to_thread(child.__exit__, None, None, None)
        await asyncio.sleep(dead_s)
        await asyncio.to_thread(self._start, name)
        self.deaths[name].append(Death(killed, time.time()))

    def _start(self, name: str) -> None:
        self._alive[name] = child = tiers.chaos(self._folder, name, port_of(self._kept[name]))
        child.told("url")

    def _end(self) -> None:
        for child in self._alive.values():
            child.__exit__(None, None, None)
