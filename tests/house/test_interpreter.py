"""`tools/python.sh`, run with a PATH of stand-ins: which interpreter it takes, what it says if there is none."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHELL = shutil.which("sh") or "/bin/sh"


def choose(folder: Path, python: str = "") -> subprocess.CompletedProcess[str]:
    environ = {"PATH": str(folder), "PYTHON": python}
    command = [SHELL, str(ROOT / "tools/python.sh")]
    cat = shutil.which("cat")
    assert cat
    if not (folder / "cat").exists():
        (folder / "cat").symlink_to(cat)
    return subprocess.run(command, check=False, env=environ, capture_output=True, text=True)


def stand_in(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!{SHELL}\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def real(folder: Path, name: str) -> None:
    stand_in(folder, name, f'exec "{sys.executable}" "$@"')


def test_python3_comes_first(tmp_path: Path) -> None:
    real(tmp_path, "python3")
    stand_in(tmp_path, "python3.13", "echo /never/asked")
    answer = choose(tmp_path)
    assert (answer.returncode, answer.stdout.strip()) == (0, sys.executable)


@pytest.mark.parametrize(
    "broken",
    [
        "echo 'shim: python3: command not found' >&2; exit 127",
        "echo 'is Python 3.9.2; Lumbre needs 3.11 or newer'; exit 3",
        "kill -SEGV $$",
    ],
    ids=["a shim for nothing", "too old", "crashes"],
)
def test_one_that_does_not_do_is_passed_over(tmp_path: Path, broken: str) -> None:
    stand_in(tmp_path, "python3", broken)
    real(tmp_path, "python3.12")
    answer = choose(tmp_path)
    assert (answer.returncode, answer.stdout.strip(), answer.stderr) == (0, sys.executable, "")


def test_a_named_interpreter_is_the_only_one_tried(tmp_path: Path) -> None:
    real(tmp_path, "python3")
    named = stand_in(tmp_path, "mine", "exit 1")
    answer = choose(tmp_path, str(named))
    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"{named} does not run" in answer.stderr


def test_without_any_the_message_names_each_try_and_the_way_out(tmp_path: Path) -> None:
    stand_in(tmp_path, "python3", "echo 'has no ensurepip (apt install python3.11-venv)'; exit 3")
    answer = choose(tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "python3 has no ensurepip (apt install python3.11-venv)" in answer.stderr
    assert "python3.13: not found" in answer.stderr
    assert "make setup PYTHON=" in answer.stderr
