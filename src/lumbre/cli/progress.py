"""Decides how a fetch shows: a bar on a terminal, lines in a log. Impure; the shell commands drive it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from lumbre.runtime.models.progress import Phase, Progress, Report

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

QUIET_S = 5.0
"""In a log, the longest time without a line."""
STEP_PERCENT = 10

TEXTS: dict[Literal["en", "es"], dict[Phase, str]] = {
    "en": {
        "wait": "another process fetches {name}; waiting for it",
        "download": "fetching {name}",
        "unpack": "unpacking {name}",
        "verify": "checking {name}",
        "retry": "the transfer of {name} broke ({note}); trying again",
    },
    "es": {
        "wait": "otro proceso descarga {name}; esperando",
        "download": "descargando {name}",
        "unpack": "desempaquetando {name}",
        "verify": "comprobando {name}",
        "retry": "la descarga de {name} se cortó ({note}); se intenta de nuevo",
    },
}


class _View(Protocol):
    def show(self, now: Progress) -> None: ...


@contextmanager
def model_progress(
    lang: Literal["en", "es"] = "en",
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Report]:
    """Give the report that draws on `stream` (stderr if None); nothing is drawn before something is told."""
    target = stream or sys.stderr
    with ExitStack() as stack:
        view: _View | None = None

        def report(now: Progress) -> None:
            nonlocal view
            if view is None:
                view = _bar(stack, target, lang) if target.isatty() else _Lines(target, lang, clock)
            view.show(now)

        yield report


class _Lines:
    """For pipes and logs: a line for each phase, each tenth of a download, and each few seconds."""

    def __init__(self, stream: TextIO, lang: Literal["en", "es"], clock: Callable[[], float]) -> None:
        self._stream = stream
        self._texts = TEXTS[lang]
        self._clock = clock
        self._shown: tuple[Phase, int] | None = None
        self._shown_s = 0.0

    def show(self, now: Progress) -> None:
        step = 0
        if now.phase == "download" and now.total_bytes:
            step = 100 * now.done_bytes // now.total_bytes // STEP_PERCENT
        silent_s = self._clock() - self._shown_s
        if (now.phase, step) == self._shown and silent_s < QUIET_S:
            return
        self._shown, self._shown_s = (now.phase, step), self._clock()
        text = self._texts[now.phase].format(name=now.name, note=now.note)
        if now.total_bytes:
            text += f": {100 * now.done_bytes // now.total_bytes} % of {now.total_bytes / 1e6:.1f} MB"
        elif now.done_bytes:
            text += f": {now.done_bytes / 1e6:.1f} MB"
        self._stream.write(f"{text}\n")
        self._stream.flush()


class _Bar:
    """For terminals: one bar that each phase starts anew; what went wrong stays above it."""

    def __init__(self, rich: "RichProgress", lang: Literal["en", "es"]) -> None:
        self._rich = rich
        self._texts = TEXTS[lang]
        self._phase: Phase | None = None
        self._task: TaskID | None = None

    def show(self, now: Progress) -> None:
        text = self._texts[now.phase].format(name=now.name, note=now.note)
        total = now.total_bytes or None
        if now.phase == "retry":
            self._rich.console.print(text, markup=False)
        if self._task is None:
            self._task = self._rich.add_task(text, total=total)
        elif now.phase != self._phase:
            # A new start, so that the speed is this phase's own.
            self._rich.reset(self._task, total=total, description=text)
        self._phase = now.phase
        self._rich.update(self._task, completed=now.done_bytes, total=total)


def _bar(stack: ExitStack, stream: TextIO, lang: Literal["en", "es"]) -> _Bar:
    # Slow to import, and needed only when something is fetched in front of a person.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    rich = RichProgress(*columns, console=Console(file=stream), transient=True)
    return _Bar(stack.enter_context(rich), lang)
