"""Killed with -9 in whatever step it closes or opens, a gateway never comes back open where it was closed."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("board_steps.py")
KEPT = {"A", "C", "gpu-1"}


@dataclass(frozen=True)
class Death:
    """One that was killed, and what the next start made of it.

    Attributes:
        notes: what it had told: `moved`, `acknowledged`, and at last in which step it died.
    """

    notes: list[str]
    killed: bool
    closed: set[str]
    problem: str | None
    policy: str

    @property
    def acknowledged(self) -> bool:
        return "acknowledged" in self.notes

    @property
    def moved(self) -> bool:
        return "moved" in self.notes


def deaths(folder: Path, act: str) -> list[Death]:
    """One for each step of an act; the last one lived."""
    argv = [sys.executable, str(SCRIPT), str(folder), act]
    lines = subprocess.run(argv, capture_output=True, check=True, text=True, timeout=100).stdout.splitlines()
    told = [Death(**{**line, "closed": set(line["closed"])}) for line in map(json.loads, lines)]
    *died, lived = told
    assert all(each.killed and each.notes[-1].startswith("died") for each in died)
    assert lived.notes[-1] == "lived"
    return told


def steps_of(told: list[Death]) -> set[str]:
    return {each.notes[-1].removeprefix("died ") for each in told if each.killed}


WRITING = {
    *("before open", "after open", "before fchmod", "after fchmod", "before fsync", "after fsync"),
    *("before replace", "after replace", "before close", "after close"),
}


def test_one_that_was_closed_and_acknowledged_comes_back_closed(tmp_path: Path) -> None:
    told = deaths(tmp_path, "close")
    assert steps_of(told) == {"before the act", "moved in memory", *WRITING, "after the act"}
    for death in told:
        assert death.closed - {"B"} == KEPT, death
        assert (death.problem, death.policy) == (None, "drain-batch"), death
        if death.acknowledged:
            assert "B" in death.closed, death
    assert {"B" in death.closed for death in told} == {False, True}


def test_one_that_is_opened_flows_only_when_it_would_after_a_start_too(tmp_path: Path) -> None:
    told = deaths(tmp_path, "open")
    assert steps_of(told) == {"before the act", "moved in memory", *WRITING, "after the act"}
    for death in told:
        assert death.closed | {"C"} == KEPT, death
        assert (death.problem, death.policy) == (None, "drain-batch"), death
        if death.moved:
            assert "C" not in death.closed, death
    assert {"C" in death.closed for death in told} == {False, True}


def test_one_that_is_closed_while_it_is_being_opened_comes_back_closed_once_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    told = deaths(tmp_path, "close_while_opening")
    for death in told:
        assert death.closed | {"C"} == KEPT, death
        if death.acknowledged:
            assert "C" in death.closed, death
    assert told[-1].closed == KEPT


def test_a_policy_that_was_acknowledged_holds_and_switches_stay_as_they_were(tmp_path: Path) -> None:
    told = deaths(tmp_path, "choose")
    for death in told:
        assert (death.closed, death.problem) == (KEPT, None), death
        if death.moved or death.acknowledged:
            assert death.policy == "local-only", death
    assert {death.policy for death in told} == {"drain-batch", "local-only"}


def test_a_first_start_that_was_cut_short_is_a_first_start_again(tmp_path: Path) -> None:
    for death in deaths(tmp_path, "first_start"):
        assert (death.closed, death.problem, death.policy) == (set(), None, "balanced"), death


def test_a_start_that_was_cut_short_changes_nothing(tmp_path: Path) -> None:
    for death in deaths(tmp_path, "start"):
        assert (death.closed, death.problem, death.policy) == (KEPT, None, "drain-batch"), death


@pytest.mark.parametrize(
    "act",
    [
        "start_on_garbage",
        "start_on_nothing",
        "start_on_garbage_of_a_first_start",
    ],
)
def test_lost_state_stays_lost_though_its_healing_is_cut_short(tmp_path: Path, act: str) -> None:
    for death in deaths(tmp_path, act):
        assert {"B", "C"} <= death.closed, death
