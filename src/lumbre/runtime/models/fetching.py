"""How patient a fetch is, and what every way of fetching is given. Drives the retries; `store` builds it."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lumbre.core.errors import OperatorError
from lumbre.runtime.models.child import TransferError
from lumbre.runtime.models.progress import Phase, Progress, Report

T = TypeVar("T")

SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class Patience:
    """How long a fetch goes on trying.

    Attributes:
        attempts: in all, at least 1.
        first_pause_s: between the first two attempts; each next pause is twice as long.
        silence_s: without a byte for this long, a transfer is broken.
        lock_s: the longest wait for another process that fetches the same model.
    """

    attempts: int = 3
    first_pause_s: float = 2
    silence_s: float = 120
    lock_s: float = 7200


def pause(seconds: float) -> None:
    """Wait in a thread or process that has nothing else to do."""
    threading.Event().wait(seconds)


def free_bytes(folder: Path) -> int:
    """Room left on the disk of a folder."""
    return shutil.disk_usage(folder).free


@dataclass(frozen=True)
class Outside:
    """What a store takes from the world beyond its folder, so that a test can put something else there."""

    pause: Callable[[float], None] = pause
    free_bytes: Callable[[Path], int] = free_bytes


@dataclass(frozen=True)
class Fetched:
    """A whole file that is checked and waits to be put in its place."""

    file: Path
    sha256: str
    source: str
    papers: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Fetching:
    """One fetch: of which model, into which folder, told to whom."""

    name: str
    folder: Path
    report: Report
    patience: Patience
    outside: Outside = field(default_factory=Outside)

    def tell(self, phase: Phase, done_bytes: int = 0, total_bytes: int = 0) -> None:
        self.report(Progress(self.name, phase, min(done_bytes, total_bytes), total_bytes))

    def need_room(self, needed_bytes: int) -> None:
        """Stop before the disk is full rather than in the middle."""
        free = self.outside.free_bytes(self.folder)
        if free < needed_bytes + SPARE_BYTES:
            raise OperatorError(
                f"not enough room for {self.name}: it needs {(needed_bytes + SPARE_BYTES) / 1e6:,.0f} MB, and"
                f" {free / 1e6:,.0f} MB are free on the disk of {self.folder.parent};"
                " make room, or set [models] cache_dir to a folder on another disk",
                code="no_space",
            )

    def persist(self, attempt: Callable[[], T]) -> T:
        """Do it again while the transfer breaks and attempts are left; the last break is raised."""
        pause_s = self.patience.first_pause_s
        for _ in range(self.patience.attempts - 1):
            try:
                return attempt()
            except TransferError as broke:
                self.report(Progress(self.name, "retry", note=str(broke)))
                self.outside.pause(pause_s)
                pause_s *= 2
        return attempt()
