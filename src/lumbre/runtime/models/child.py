"""Decides when a program that fetches is stuck, and ends it. Drives a process; `wheels` and `hub` call it.

A program of its own because a stalled transfer cannot be interrupted from within, and so that the libraries
that fetch never enter the gateway's memory.
"""

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICK_S = 0.2
KEPT_LINES = 60
READ_BYTES = 65_536


class TransferError(Exception):
    """A transfer did not come through; trying again may help. Never leaves this package."""


@dataclass(frozen=True)
class Ended:
    """How the program ended: its exit status and the last lines it wrote."""

    code: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Watch:
    """What is looked at while the program runs.

    Attributes:
        folder: where it writes; the largest file in it is the one that grows.
        silence_s: without a new byte or line for this long, it is ended and `TransferError` raised.
        on_bytes: hears the size of the largest file, at every tick.
        on_line: hears every line.
    """

    folder: Path
    silence_s: float
    on_bytes: Callable[[int], None]
    on_line: Callable[[str], None] = lambda _: None


def run(words: Sequence[str], watch: Watch) -> Ended:
    """Run a program to its end. Whatever is raised here, the program and its children are gone by then."""
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    heard_s = time.monotonic()
    largest_bytes = -1
    with _process(words) as process:
        for lines in _lines(process):
            for line in lines:
                kept.append(line)
                watch.on_line(line)
            now_bytes = _largest_bytes(watch.folder)
            if lines or now_bytes != largest_bytes:
                largest_bytes, heard_s = now_bytes, time.monotonic()
            watch.on_bytes(now_bytes)
            if time.monotonic() - heard_s > watch.silence_s:
                raise TransferError(f"not a byte came for {watch.silence_s:g} s")
        return Ended(_status(process, watch.silence_s), tuple(kept))


@contextmanager
def _process(words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    # A session of its own: Ctrl-C in a terminal reaches us alone, and we end the whole group.
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _status(process: subprocess.Popen[bytes], limit_s: float) -> int:
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired as late:
        raise TransferError(f"the program closed its output and did not end within {limit_s:g} s") from late


def _lines(process: subprocess.Popen[bytes]) -> Iterator[list[str]]:
    """The lines that came, one list a tick, until the program closes its output."""
    assert process.stdout is not None  # noqa: S101 - opened as a pipe above
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(TICK_S):
                yield []
                continue
            data = os.read(process.stdout.fileno(), READ_BYTES)
            *whole, rest = (rest + data + (b"" if data else b"\n")).split(b"\n")
            yield [text for line in whole if (text := line.decode(errors="replace").rstrip())]
            if not data:
                return


def _largest_bytes(folder: Path) -> int:
    largest = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, Path(root, name).stat().st_size)
            except FileNotFoundError:
                continue
    return largest
