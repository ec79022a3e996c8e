"""A board on a folder of its own, with a clock that a test sets. Used by the tests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from lumbre.gateway.policy import Policy, PolicyName
from lumbre.runtime.board import Board

NODES = ("gpu-1", "gpu-2")
NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


@dataclass
class Watch:
    """A clock, and what a board told. A drain is over when the clock says so, and the loop's has come as far."""

    at: datetime = NOON
    moves: int = 0
    drained: list[Policy] = field(default_factory=list)
    moved: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._ended = asyncio.Event()

    def now(self) -> datetime:
        return self.at

    def note(self) -> None:
        self.moves += 1
        self.moved()

    def note_policy(self, policy: Policy, by: str, _reason: str | None) -> None:
        if by == "lumbre":
            self.drained.append(policy)
            self._ended.set()

    async def end_drain(self) -> None:
        """Let a day go by, and wait until the board has noticed; a drain for less than a second is soon over."""
        self.at += timedelta(days=1)
        async with asyncio.timeout(10):
            await self._ended.wait()


def a_board(
    folder: Path, watch: Watch | None = None, *, nodes: tuple[str, ...] = NODES, default: PolicyName = "balanced"
) -> Board:
    """One that begins in this folder, as after a start of the gateway."""
    seen = watch or Watch()
    board = Board(folder / "flow.json", nodes, default, seen.note, seen.now)
    board.on_policy = seen.note_policy
    return board


def kept(folder: Path) -> dict[str, Any]:
    """What is written down."""
    told: dict[str, Any] = orjson.loads((folder / "flow.json").read_bytes())
    return told


def kept_closed(folder: Path) -> frozenset[str]:
    """The switches that are closed by what is written down."""
    return frozenset(name for name, told in kept(folder)["switches"].items() if told["state"] == "closed")
