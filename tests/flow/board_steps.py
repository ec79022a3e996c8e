"""Kills a process at every step in which it closes, opens, starts or heals, and says what holds after the next start.

`python board_steps.py FOLDER ACT`: for the first step, the second, and so on, a child of this process begins with the
same state, does the act and is killed with -9 in that step. Then a board is made of what the child left. One line of
JSON for each: which step it was, what the child had told by then, and what holds now.

A step is a call that touches the disk, or a move in memory: a child may die before it and after it.
"""

import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lumbre.gateway.policy import Policy
from lumbre.runtime.board import Board

NODES = ("gpu-1",)


def board_of(folder: Path, moved: Callable[[], None] = lambda: None) -> Board:
    return Board(folder / "flow.json", NODES, "balanced", moved, lambda: datetime.now(UTC))


class Steps:
    """Counts the steps, and dies in the one that it was told."""

    def __init__(self, fatal: int, notes: int) -> None:
        self._fatal = fatal
        self._count = 0
        self._notes = notes

    def note(self, what: str) -> None:
        """Leave word of something, in a pipe that survives us."""
        os.write(self._notes, f"{what}\n".encode())

    def step(self, name: str) -> None:
        self._count += 1
        if self._count == self._fatal:
            self.note(f"died {name}")
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Make a step of each call to the disk."""
        for owner, name in (
            *((os, name) for name in ("open", "fsync", "fchmod", "close")),
            *((Path, name) for name in ("open", "replace", "touch", "read_bytes", "exists")),
        ):
            setattr(owner, name, self._stepped(name, getattr(owner, name)))

    def _stepped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **more: Any) -> Any:
            self.step(f"before {name}")
            result = call(*args, **more)
            self.step(f"after {name}")
            return result

        return stepped


async def close(board: Board, steps: Steps) -> None:
    """`B` is open: close it."""
    await board.close("B", None, "ana")
    steps.note("acknowledged")


async def open_(board: Board, steps: Steps) -> None:
    """`C` is closed: open it."""
    await board.open("C", None, "ana")
    steps.note("acknowledged")


async def close_while_opening(board: Board, steps: Steps) -> None:
    """`C` is closed: while somebody opens it, somebody else closes it."""

    async def close_again() -> None:
        await board.close("C", None, "bea")
        steps.note("acknowledged")

    await asyncio.gather(board.open("C", None, "ana"), close_again())


async def choose(board: Board, steps: Steps) -> None:
    await board.choose(Policy("local-only"))
    steps.note("acknowledged")


async def only_start(_board: Board, steps: Steps) -> None:
    steps.note("acknowledged")


def none_yet(_folder: Path) -> None:
    """Nobody ever started here."""


def some(folder: Path) -> None:
    """`A`, `C` and a node were closed, and a policy chosen."""

    async def prepare() -> None:
        board = board_of(folder)
        for name in ("A", "C", "gpu-1"):
            await board.close(name, "kept", "ana")
        await board.choose(Policy("drain-batch"))

    asyncio.run(prepare())


def garbage(folder: Path) -> None:
    some(folder)
    (folder / "flow.json").write_bytes(b"{")


def garbage_of_a_first_start(folder: Path) -> None:
    """A first start was cut short before it had noted that it began; then the file was spoilt."""
    garbage(folder)
    (folder / "flow.began").unlink()


def gone(folder: Path) -> None:
    some(folder)
    (folder / "flow.json").unlink()


ACTS: dict[str, tuple[Callable[[Path], None], Callable[[Board, Steps], Any]]] = {
    "close": (some, close),
    "open": (some, open_),
    "close_while_opening": (some, close_while_opening),
    "choose": (some, choose),
    "first_start": (none_yet, only_start),
    "start": (some, only_start),
    "start_on_garbage": (garbage, only_start),
    "start_on_garbage_of_a_first_start": (garbage_of_a_first_start, only_start),
    "start_on_nothing": (gone, only_start),
}


def child(folder: Path, act: str, fatal: int, notes: int) -> None:
    steps = Steps(fatal, notes)
    do = ACTS[act][1]

    async def live() -> None:
        if do is only_start:
            steps.watch()
        board = board_of(folder, lambda: told_and_moved(steps))
        if do is not only_start:
            steps.watch()
        steps.step("before the act")
        await do(board, steps)
        steps.step("after the act")

    asyncio.run(live())
    steps.note("lived")


def told_and_moved(steps: Steps) -> None:
    steps.note("moved")
    steps.step("moved in memory")


def rounds(root: Path, act: str) -> None:
    """One child for each step, until one lives."""
    for fatal in itertools.count(1):
        folder = root / str(fatal)
        folder.mkdir()
        ACTS[act][0](folder)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(folder, act, fatal, writing)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            notes = pipe.read().decode().split("\n")[:-1]
        _, status = os.waitpid(pid, 0)
        board = board_of(folder)
        told = {
            "notes": notes,
            "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            "closed": sorted(board.closed),
            "problem": board.problem,
            "policy": board.policy.name,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        shutil.rmtree(folder)
        if not told["killed"]:
            return


if __name__ == "__main__":
    rounds(Path(sys.argv[1]), sys.argv[2])
