"""A process that is started, listened to, watched and ended. Driver; what it tells of a process is what Linux tells."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

BOOT_S = 30
_LOOKS = 10
END_S = 10


class BenchError(Exception):
    """The measurement cannot go on; the message says why and the way out."""


class Child:
    """A process that ends with its `with`, whatever happens there."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._log = log
        self._rest = b""
        with log.open("ab") as stderr:
            # In a group of its own: Ctrl-C comes to us, and we end it in our order.
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, process_group=0
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        finally:
            # A second Ctrl-C cuts the wait short, not the ending.
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def told(self, key: str) -> Any:
        """Wait until it prints a JSON line with this key; the value.

        Raises:
            BenchError: it ended instead, or said nothing in time; with the end of what it complained of.
        """
        until = time.monotonic() + BOOT_S
        while (left_s := until - time.monotonic()) > 0:
            line = self._line(left_s)
            if line is None:
                break
            if key in (event := orjson.loads(line)):
                return event[key]
        raise self.failed(f"said nothing of {key!r}")

    def failed(self, how: str) -> BenchError:
        argv = self._process.args
        name = " ".join(map(str, argv[:4])) if isinstance(argv, list) else str(argv)
        return BenchError(f"`{name} …` {how}; it complained:\n{self._log.read_text(errors='replace')[-2000:]}")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def _line(self, within_s: float) -> bytes | None:
        """One line of its output; None at the end of it, or when time is up."""
        assert self._process.stdout is not None  # noqa: S101 (it was asked for)
        descriptor = self._process.stdout.fileno()
        until = time.monotonic() + within_s
        while b"\n" not in self._rest:
            if not select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            data = os.read(descriptor, 65_536)
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


@dataclass(frozen=True)
class Cores:
    """Which processors are for whom, where they are told apart: the gateways on one, the load on the others."""

    pinned: bool

    def gateway(self) -> contextlib.AbstractContextManager[None]:
        """What is started in here runs on the first core."""
        return self._only(slice(0, 1))

    def load(self) -> contextlib.AbstractContextManager[None]:
        """What is started in here runs on every core but the first."""
        return self._only(slice(1, None))

    @contextlib.contextmanager
    def _only(self, which: slice) -> Iterator[None]:
        ours = os.sched_getaffinity(0)
        chosen = sorted(ours)[which] if self.pinned else []
        os.sched_setaffinity(0, chosen or ours)
        try:
            yield
        finally:
            os.sched_setaffinity(0, ours)


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used so far, user and system, all its threads."""
    # The name in parentheses may hold anything; what follows is counted from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Memory of a process at rest that is resident, in MB of 10^6 bytes: the least that is seen within a second.

    What it holds for a moment, such as the lines that it is about to log, comes and goes by some MB.
    """
    seen = []
    for _ in range(_LOOKS):
        time.sleep(1 / _LOOKS)
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        seen.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
    return min(seen)


@contextlib.contextmanager
def tidy_ending() -> Iterator[None]:
    """End on SIGTERM and SIGHUP as on Ctrl-C: every process that was started is ended on the way out."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
