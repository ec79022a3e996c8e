"""Decides who may change one model's files: one process at a time. Touches disk; `store` drives it."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lumbre.core.errors import OperatorError

LOOK_AGAIN_S = 0.2


@contextmanager
def held(path: Path, *, limit_s: float, pause: Callable[[float], None], on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file; the kernel lets go of it when this process dies, however it dies.

    The file is never removed: whoever waits on a removed file would hold a lock that nobody else can see.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        deadline = time.monotonic() + limit_s
        while not _taken(file):
            if time.monotonic() > deadline:
                raise OperatorError(
                    f"another process has held {path} for {limit_s:g} s: end it and try again",
                    code="model_busy",
                )
            on_wait()
            pause(LOOK_AGAIN_S)
        yield


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
