"""`tools/foreground.py` between a real make, on a terminal of its own, and a command that is interrupted."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 30
SERVES = """
import signal, sys
def end(number, frame):
    print("ended by", signal.Signals(number).name, flush=True)
    sys.exit(int(sys.argv[1]))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, end)
print("serving", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose `make run` serves until it is stopped; `STATUS=` is what the command ends with."""
    (tmp_path / "serves.py").write_text(SERVES, encoding="utf-8")
    foreground = f"{sys.executable} {ROOT / 'tools/foreground.py'}"
    recipe = f"run:\n\t@{foreground} {sys.executable} serves.py $(STATUS)\n"
    (tmp_path / "Makefile").write_text(recipe, encoding="utf-8")
    return tmp_path


class Terminal:
    """A make on a terminal of its own, as a person has it."""

    def __init__(self, folder: Path, status: int) -> None:
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvp("make", ["make", "run", f"STATUS={status}"])  # noqa: S606 (the point of a fork)
        self.text = ""

    def read_until(self, wanted: str) -> None:
        """Read until the text is on the screen."""
        while wanted not in self.text:
            assert self._read(), f"ended without {wanted!r}: {self.text!r}"

    def press_ctrl_c(self) -> None:
        os.write(self._screen, b"\x03")

    def end(self) -> int:
        """Read to the end; the wait status of make."""
        while self._read():
            pass
        os.close(self._screen)
        return os.waitpid(self.pid, 0)[1]

    def _read(self) -> bool:
        deadline = time.monotonic() + LIMIT_S
        ready, _, _ = select.select([self._screen], [], [], deadline - time.monotonic())
        assert ready, f"nothing more came: {self.text!r}"
        try:
            piece = os.read(self._screen, 4096)
        except OSError:  # Linux says so when the last process on the terminal has ended.
            return False
        self.text += piece.decode()
        return bool(piece)


def test_ctrl_c_under_make_ends_the_command_and_make_says_nothing(folder: Path) -> None:
    terminal = Terminal(folder, 130)
    terminal.read_until("serving\r\n")
    terminal.press_ctrl_c()
    status = terminal.end()
    assert terminal.text.replace("\r\n", "\n") == "serving\n^Cended by SIGINT\n"
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGINT


def test_a_failure_of_the_command_is_a_failure_of_make(folder: Path) -> None:
    terminal = Terminal(folder, 3)
    terminal.read_until("serving\r\n")
    terminal.press_ctrl_c()
    terminal.end()
    assert "Error 3" in terminal.text


def test_a_termination_of_make_reaches_the_command(folder: Path) -> None:
    make = subprocess.Popen(
        ["make", "run", "STATUS=0"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert make.stdout
    assert make.stdout.readline() == "serving\n"
    make.terminate()
    rest, _ = make.communicate(timeout=LIMIT_S)
    assert "ended by SIGTERM\n" in rest


@pytest.mark.parametrize(("status", "seen"), [(0, 0), (7, 7), (130, 0)])
def test_an_exit_status_comes_through_and_ctrl_c_is_a_normal_end(status: int, seen: int) -> None:
    command = [sys.executable, "-c", f"raise SystemExit({status})"]
    answer = subprocess.run([sys.executable, str(ROOT / "tools/foreground.py"), *command], check=False)
    assert answer.returncode == seen


def test_a_command_that_is_not_there_is_127(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools/foreground.py"), str(tmp_path / "absent")]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    assert answer.returncode == 127
    assert "No such file" in answer.stderr
