"""What the tests see of other processes: which there are, which are gone, and a wait with a deadline."""

import threading
import time
from collections.abc import Callable

import psutil  # type: ignore[import-untyped, unused-ignore]


def until(condition: Callable[[], bool], within_s: float = 10) -> None:
    """Wait for something that tells nobody when it happens, such as another process's end."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        threading.Event().wait(0.02)


def is_gone(pid: int) -> bool:
    """Whether a process has ended. An orphan may stay a zombie: some containers reap none."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def descendants(pid: int) -> list[int]:
    """The processes below a process, zombies too."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def thread_count(pid: int) -> int:
    """How many threads a process has."""
    return int(psutil.Process(pid).num_threads())
