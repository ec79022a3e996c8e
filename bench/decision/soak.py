"""A soak: one gateway with three tiers, engines that fail in every way there is and die, clients that ask at all doors
and go away, an operator who moves switches and policies. Driver; `accounts` says whether the books agree. By hand:

    .venv/bin/python -m bench.decision.soak --minutes 10 --rate 200

It prints Markdown, and ends with 1 if a request had neither an answer nor a typed error in time, if something leaked,
or if the books do not agree.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import orjson
from bench.decision import tiers
from bench.decision.accounts import Entry, faults, node_book, request_faults
from bench.decision.clients import Clients, random_ask
from bench.decision.engines import Engines
from bench.decision.soaked import GROWS_UNTIL_S, Soaked, growth_mb, leaks, report
from bench.decision.watch import Look, Watch
from bench.gateway.processes import BenchError, tidy_ending

A, B, C = ("a-1", "a-2"), {"b-express": "express", "b-batch": "batch"}, "tier-c"
NODES = (*A, *B, C)
LIMITS: tiers.Sections = {
    "flow": {"daily_budget_usd": 100_000},
    "deadlines": {"connect_s": 1, "header_s": 2, "first_token_s": 2, "idle_s": 2, "total_s": 8},
    "limits": {"waiting": 64, "wait_s": 3},
    "breaker": {"probe_s": 1, "failures": 4, "open_s": 0.5, "most_open_s": 2},
}
SLOTS = 24
LIMIT_S = 8 + 3 + 5
"""The deadline of everything, the longest wait, and what a busy machine may take."""
LOOK_S = 10.0
REST_S = 60.0
DEAD_S = (0.1, 2.0)
LIVES_S = (4.0, 20.0)
MOVES_S = (2.0, 8.0)
SWITCHES = ("B", "C", "express", "batch", "global", "b-express", "A")
POLICIES = ("balanced", "drain-batch", "drain-express", "local-only")
A_REQUEST_HAS = 4
"""Tasks and sockets that one open request may have at most, each: its client's connection, its engine's, and what
closes just now."""
SPARE = 40
MOST_OPEN = 800
"""Requests at once; beyond that the machine is too slow for the rate, and the next one is held back."""
MOST_LOG_CHARS = 8000
MOST_GROWTH_MB = 16.0


class Soak:
    """One soak."""

    def __init__(self, seconds: float, rate: float, folder: Path, stack: ExitStack) -> None:
        self._seconds = seconds
        self._rate = rate
        self._folder = folder
        self._dice = random.Random()  # noqa: S311 it keeps no secret
        self._engines = Engines(NODES, folder, stack)
        tasks_file = folder / "tasks.json"
        program = (str(tiers.HERE / "watched.py"), str(tasks_file))
        child = stack.enter_context(tiers.gateway(folder, self._config(), program=program))
        self._url = child.told("url")
        child.told("models")
        self._watch = Watch(child.pid, self._url, tasks_file)
        self._log = folder / "lumbre.log"
        place = urlsplit(self._url)
        self._clients = Clients(place.hostname or "", place.port or 0, limit_s=LIMIT_S)
        self._moves = 0

    async def run(self) -> Soaked:
        """Do it.

        Raises:
            BenchError: the gateway, or an engine, cannot be asked or started.
        """
        base = await self._watch.look()
        soaked = Soaked(self._seconds, LIMIT_S, base)
        until = time.monotonic() + self._seconds
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._load(until, soaked))
                group.create_task(self._operate(until))
                group.create_task(self._look_now_and_then(until, soaked))
                for name in NODES:
                    group.create_task(self._kill_now_and_then(until, name))
        except ExceptionGroup as failed:
            raise _first(failed) from failed
        self._clients.close()
        soaked.rest = await self._at_rest(base)
        soaked.entries = self._ledger()
        soaked.deaths = sum(map(len, self._engines.deaths.values()))
        soaked.moves = self._moves
        self._judge(soaked)
        return soaked

    def _config(self) -> str:
        nodes = {name: (label, self._engines.url(name)) for name, label in B.items()}
        upstreams = {name: self._engines.url(name) for name in A}
        key = tiers.key_file(self._folder)
        return tiers.config(upstreams, nodes, self._engines.url(C), slots=SLOTS, key_file=key, more=LIMITS)

    async def _load(self, until: float, soaked: Soaked) -> None:
        """Ask at an even rate, however long the answers take, and wait for the last of them."""
        due, number = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while due < until:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due += 1 / self._rate
                if self._clients.open >= MOST_OPEN:
                    soaked.held_back += 1
                    continue
                group.create_task(self._one(number, soaked))
                number += 1
                if number % 1000 == 0:
                    say(f"{number:,} requests, {self._clients.open} open")

    async def _one(self, number: int, soaked: Soaked) -> None:
        soaked.heard.append(await self._clients.ask(random_ask(self._dice, f"tag-{number}")))

    async def _kill_now_and_then(self, until: float, name: str) -> None:
        while True:
            await asyncio.sleep(min(self._dice.uniform(*LIVES_S), max(0.0, until - time.monotonic())))
            if time.monotonic() >= until:
                return
            await self._engines.die(name, self._dice.uniform(*DEAD_S))

    async def _operate(self, until: float) -> None:
        """Close a switch and open it again, and choose another policy; all is open and balanced at the end."""
        while time.monotonic() + MOVES_S[1] < until:
            await asyncio.sleep(self._dice.uniform(*MOVES_S))
            name = self._dice.choice(SWITCHES)
            await self._move(f"/v1/flow/switches/{name}", {"state": "closed", "reason": "soak"})
            await asyncio.sleep(self._dice.uniform(0.1, 1.0))
            await self._move(f"/v1/flow/switches/{name}", {"state": "open"})
            await self._move("/v1/flow/policy", {"policy": self._dice.choice(POLICIES)})
            await asyncio.sleep(self._dice.uniform(0.1, 1.0))
            await self._move("/v1/flow/policy", {"policy": "balanced"})

    async def _move(self, path: str, document: object) -> None:
        await asyncio.to_thread(self._watch.post, path, document)
        self._moves += 1

    async def _look_now_and_then(self, until: float, soaked: Soaked) -> None:
        """Look while it runs: there may be no more of anything than the open requests account for."""
        began = time.monotonic()
        while (left_s := until - time.monotonic()) > 0:
            await asyncio.sleep(min(LOOK_S, left_s))
            before, look, base = self._clients.open, await self._watch.look(), soaked.base
            open_now = max(before, self._clients.open)
            soaked.looks.append((time.monotonic() - began, open_now, look))
            most = A_REQUEST_HAS * open_now + SPARE
            for what, seen, at_rest in (
                ("tasks", look.tasks, base.tasks),
                ("sockets", look.sockets, base.sockets),
                ("places taken", look.in_flight + look.waiting, 0),
            ):
                if seen - at_rest > most:
                    soaked.faults.append(f"{seen} {what} with {open_now} open requests, {at_rest} at rest")

    async def _at_rest(self, base: Look) -> Look:
        """Wait until everything has been given back, or for as long as that may take; what there is then."""
        until = time.monotonic() + REST_S
        while True:
            look = await self._watch.look()
            if not leaks(base, look) or time.monotonic() > until:
                return look
            await asyncio.sleep(0.5)

    def _ledger(self) -> list[Entry]:
        files = sorted((self._folder / "lumbre-state" / "ledger").glob("*.jsonl"))
        return [orjson.loads(line) for path in files for line in path.read_bytes().splitlines()]

    def _judge(self, soaked: Soaked) -> None:
        engines = self._engines
        seen = engines.seen()
        for name in NODES:
            count = sum(times for (_, node), times in seen.items() if node == name)
            soaked.books.append(node_book(name, soaked.entries, count, engines.deaths[name]))
        soaked.faults += faults(soaked.heard, soaked.entries, soaked.books)
        soaked.faults += request_faults(soaked.heard, soaked.entries, seen, engines.deaths)
        assert soaked.rest is not None  # noqa: S101 it has been looked at
        soaked.faults += leaks(soaked.base, soaked.rest)
        if (grown_mb := growth_mb(soaked)) is not None and grown_mb > MOST_GROWTH_MB:
            soaked.faults.append(f"memory grew by {grown_mb:.1f} MB after the first {GROWS_UNTIL_S:g} s")
        if soaked.faults:
            left = ", ".join(f"{count} {name}" for name, count in sorted(self._watch.tasks().items()))
            log = self._log.read_text(encoding="utf-8", errors="replace")[:MOST_LOG_CHARS]
            soaked.log = f"tasks at the end: {left}\n{log}"


def _first(failed: BaseException) -> BaseException:
    """Of errors that came together the first one."""
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    return failed


def soak(minutes: float, rate: float) -> Soaked:
    """One soak from start to end.

    Raises:
        BenchError: it could not be made.
    """
    say(f"soaking for {minutes:g} min at {rate:g} requests/s")
    with tempfile.TemporaryDirectory(prefix="lumbre-soak-") as folder, ExitStack() as stack:
        return asyncio.run(Soak(minutes * 60, rate, Path(folder), stack).run())


def say(text: str) -> None:
    """How far it is, for who waits."""
    sys.stderr.write(f"{text}\n")


def main(argv: Sequence[str]) -> int:
    """Soak and print; the exit status."""
    parser = argparse.ArgumentParser("bench.decision.soak", description="Soak the gateway among engines that fail.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second (200)")
    options = parser.parse_args(argv)
    try:
        with tidy_ending():
            soaked = soak(options.minutes, options.rate)
    except BenchError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        return 130
    print(report(soaked))
    if soaked.faults:
        say(soaked.log)
    return 1 if soaked.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
