"""Measures how soon a closed switch holds: from the first byte of the order to its answer, and to the last request that
still reaches what it stops. Driver; `run` drives it.

Work goes to tier B all the while, and to A while B's switch `express` is closed. B's engine notes when a request has
come, by the clock that all processes of a machine share.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.decision import tiers
from bench.decision.watch import Watch
from bench.gateway.processes import BenchError, Child

SWITCH = "/v1/flow/switches/express"
RATE = 200.0
SETTLE_S = 0.08
"""How long it stays closed, and then open: some requests each."""


@dataclass
class Moves:
    """Milliseconds, a value a move.

    Attributes:
        replied_ms: from the order to its answer.
        held_ms: from the order to the last request that reached B; 0 if none did any more.
        late_ms: from the answer to that request; 0 if it came before.
        before: requests that reached B between the opening before and the order.
    """

    replied_ms: list[float] = field(default_factory=list)
    held_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    before: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Move:
    opened_ns: int
    ordered_ns: int
    replied_ns: int
    reopened_ns: int


def moves(folder: Path, count: int, say: Callable[[str], None]) -> Moves:
    """Close and open the switch so often, under load.

    Raises:
        BenchError: something of it does not run, or too little of the load reached tier B to say anything.
    """
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(tiers.chaos(folder, name, calm=True)).told("url") for name in ("a", "b")}
        text = tiers.config({"a-1": urls["a"]}, {"b-1": ("express", urls["b"])}, slots=256)
        gateway = stack.enter_context(tiers.gateway(folder, text, "moved"))
        url = gateway.told("url")
        gateway.told("models")
        watch = Watch(gateway.pid, url, folder / "moved-tasks.json")
        argv = [sys.executable, "-m", "bench.decision.steady", url, f"{RATE:g}"]
        load = stack.enter_context(Child(argv, folder / "steady.log"))
        load.told("loading")
        say(f"closing a switch {count} times at {RATE:g} requests/s")
        done = [_move(watch) for _ in range(count)]
        if not load.is_running():
            raise load.failed("ended too soon")
    arrivals = [int(line.split()[0]) for line in tiers.seen_file(folder, "b").read_bytes().splitlines()]
    return measured(done, arrivals)


def _move(watch: Watch) -> _Move:
    opened_ns = time.monotonic_ns()
    time.sleep(SETTLE_S)
    ordered_ns = time.monotonic_ns()
    watch.post(SWITCH, {"state": "closed", "reason": "bench"})
    replied_ns = time.monotonic_ns()
    time.sleep(SETTLE_S)
    reopened_ns = time.monotonic_ns()
    watch.post(SWITCH, {"state": "open"})
    return _Move(opened_ns, ordered_ns, replied_ns, reopened_ns)


def measured(done: list[_Move], arrivals: list[int]) -> Moves:
    """What the moves and B's count say together.

    Raises:
        BenchError: in half of the moves nothing reached B before; what is stopped then?
    """
    found = Moves()
    for move in done:
        last_ns = max((at for at in arrivals if move.ordered_ns <= at < move.reopened_ns), default=move.ordered_ns)
        found.replied_ms.append((move.replied_ns - move.ordered_ns) / 1e6)
        found.held_ms.append((last_ns - move.ordered_ns) / 1e6)
        found.late_ms.append(max(0, last_ns - move.replied_ns) / 1e6)
        found.before.append(sum(move.opened_ns <= at < move.ordered_ns for at in arrivals))
    if sorted(found.before)[len(found.before) // 2] == 0:
        raise BenchError("the load does not reach tier B")
    return found
