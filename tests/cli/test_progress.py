"""How a fetch shows on a terminal and in a log."""

import io

import pytest

from lumbre.cli.progress import model_progress
from lumbre.runtime.models import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_log_gets_a_line_for_each_tenth_of_the_download_and_for_each_phase() -> None:
    log = io.StringIO()

    with model_progress(stream=log, clock=Clock()) as report:
        for done in range(0, 20_000_001, 100_000):
            report(Progress("tiny", "download", done, 20_000_000))
        for done in range(0, 20_000_001, 100_000):
            report(Progress("tiny", "unpack", done, 20_000_000))

    lines = log.getvalue().splitlines()
    assert lines[:2] == ["fetching tiny: 0 % of 20.0 MB", "fetching tiny: 10 % of 20.0 MB"]
    assert lines[-2:] == ["fetching tiny: 100 % of 20.0 MB", "unpacking tiny: 0 % of 20.0 MB"]
    assert len(lines) == 12


def test_a_log_gets_a_line_when_nothing_moves_for_some_seconds() -> None:
    log, clock = io.StringIO(), Clock()

    with model_progress(stream=log, clock=clock) as report:
        for _ in range(120):
            report(Progress("tiny", "wait"))
            clock.now_s += 0.1

    assert log.getvalue().splitlines() == ["another process fetches tiny; waiting for it"] * 3


def test_a_log_tells_why_a_transfer_starts_again_in_the_users_language() -> None:
    log = io.StringIO()

    with model_progress("es", stream=log) as report:
        report(Progress("tiny", "retry", note="cable out"))

    assert log.getvalue() == "la descarga de tiny se cortó (cable out); se intenta de nuevo\n"


def test_a_terminal_gets_a_bar_that_goes_away_and_reasons_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()

    with model_progress(stream=terminal) as report:
        report(Progress("tiny", "download", 0, 20_000_000))
        report(Progress("tiny", "retry", note="[cable] out"))
        report(Progress("tiny", "download", 20_000_000, 20_000_000))

    shown = terminal.getvalue()
    assert "the transfer of tiny broke ([cable] out); trying again" in shown
    assert "fetching tiny" in shown
    assert "20.0/20.0 MB" in shown


def test_nothing_is_drawn_when_nothing_is_fetched() -> None:
    terminal = Terminal()

    with model_progress(stream=terminal):
        pass

    assert terminal.getvalue() == ""
