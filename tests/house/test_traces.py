"""`tools/traces.py`, run as `make check` runs it: nothing in the project names one machine or one index."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def traces(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/traces.py"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_project_names_no_index_and_no_folder_of_one_machine() -> None:
    answer = traces()
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stdout + answer.stderr


@pytest.mark.parametrize(
    "pieces",
    [
        ("--index-url https://", "pypi", ".org/simple"),
        ("https://files.", "pythonhosted", ".org/packages/x.whl"),
        ("see https://registry.", "npmjs", ".org/left-pad"),
        ("deb http://", "deb.", "debian", ".org/debian stable main"),
        ("cd ", "/wo", "rk/main"),
        ("open('", "/ro", "ot/.netrc')"),
        ("--find-links=", "/opt/", "wheels"),
        ("as ", "..", "/sha", "red/design.md says"),
    ],
)
def test_a_trace_is_shown_with_its_file_and_line(tmp_path: Path, pieces: tuple[str, ...]) -> None:
    (tmp_path / "notes.md").write_text("fine\n" + "".join(pieces) + "\n", encoding="utf-8")
    answer = traces(str(tmp_path))
    assert answer.returncode == 1, answer.stderr
    assert answer.stdout.startswith("notes.md:2: names ")


@pytest.mark.parametrize(
    "line",
    [
        "pip install lumbre",
        "PyPI has it",
        "src/work/a",
        "http://127.0.0.1:8484/v1/work",
        "/workers",
        "a/root",
    ],
)
def test_plain_words_are_no_traces(tmp_path: Path, line: str) -> None:
    (tmp_path / "notes.md").write_text(f"{line}\n", encoding="utf-8")
    answer = traces(str(tmp_path))
    assert (answer.returncode, answer.stdout) == (0, "")


def test_a_binary_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\xff\xfe\x00" + b"/wo" + b"rk/main")
    assert traces(str(tmp_path)).returncode == 0


def test_what_git_ignores_is_not_read(tmp_path: Path) -> None:
    trace = "/wo" + "rk/main\n"
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored.txt\n", encoding="utf-8")
    (tmp_path / "ignored.txt").write_text(trace, encoding="utf-8")
    assert traces(str(tmp_path)).returncode == 0
    (tmp_path / "new.txt").write_text(trace, encoding="utf-8")
    assert traces(str(tmp_path)).stdout.startswith("new.txt:1: ")
