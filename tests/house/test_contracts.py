"""The import contracts in `pyproject.toml`: green as the code stands, red for each kind of wrong import."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WRONG = {
    "a pure room imports a driver": ("core/errors.py", "import lumbre.runtime.tasks", "only rooms below it"),
    "a lower room imports a higher one": ("backends/__init__.py", "import lumbre.api", "only rooms below it"),
    "a new room without a place": ("attic/__init__.py", "", "only rooms below it"),
    "a pure room imports asyncio": ("wire/__init__.py", "import asyncio", "Pure rooms"),
    "a pure room imports a web client": ("gateway/__init__.py", "import aiohttp", "Pure rooms"),
    "a backend imports pydantic": ("backends/__init__.py", "import pydantic", "Backends use frozen words"),
    "a door imports a backend": ("api/__init__.py", "import lumbre.backends", "The doors reach engines"),
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the code and its contracts that a test may spoil."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(copy: Path) -> subprocess.CompletedProcess[str]:
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        check=False,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def test_the_code_as_it_stands_keeps_every_contract(copy: Path) -> None:
    answer = lint(copy)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "0 broken" in answer.stdout


@pytest.mark.parametrize("case", WRONG.values(), ids=list(WRONG))
def test_one_wrong_import_turns_its_contract_red(copy: Path, case: tuple[str, str, str]) -> None:
    name, line, contract = case
    path = copy / "src" / "lumbre" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    answer = lint(copy)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    broken = [line for line in answer.stdout.splitlines() if line.endswith("BROKEN")]
    assert [line for line in broken if contract in line], answer.stdout
