"""`make setup` on a toy project that needs no network: its lock holds pip alone."""

import ensurepip
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 60

PYPROJECT = """
[build-system]
requires = []
build-backend = "toy_backend"
backend-path = ["."]

[project]
name = "toy"
version = "1"
"""
BACKEND = """
import zipfile

def get_requires_for_build_editable(settings=None):
    return []

def build_editable(folder, settings=None, metadata=None):
    with open("builds.log", "a") as log:
        log.write("built\\n")
    name = "toy-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("toy.py", "")
        wheel.writestr("toy-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: toy\\nVersion: 1\\n")
        facts = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr("toy-1.dist-info/WHEEL", facts)
        wheel.writestr("toy-1.dist-info/RECORD", "")
    return name
"""
# The pip that every new environment brings along: satisfied without a look at any index.
LOCK = f"pip=={ensurepip.version()} \\\n    --hash=sha256:{'0' * 64}\n"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A project folder with the real Makefile and tools."""
    folder = tmp_path / "toy"
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (folder / "toy_backend.py").write_text(BACKEND, encoding="utf-8")
    (folder / "requirements").mkdir()
    for name in ("base.lock", "dev.lock"):
        (folder / "requirements" / name).write_text(LOCK, encoding="utf-8")
    return folder


def make(folder: Path, target: str = "setup") -> subprocess.CompletedProcess[str]:
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        ["make", target, f"PYTHON={sys.executable}"],
        check=False,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def builds(folder: Path) -> int:
    return len((folder / "builds.log").read_text(encoding="utf-8").splitlines())


def test_a_second_setup_finds_nothing_to_do_and_a_change_redoes_only_its_part(toy: Path) -> None:
    first = make(toy)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Making .venv with Python" in first.stdout

    second = make(toy)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")

    with (toy / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("[tool.linter]\nwidth = 100\n")
    assert make(toy).stdout == ""
    assert builds(toy) == 1

    pyproject = toy / "pyproject.toml"
    pyproject.write_text(pyproject.read_text(encoding="utf-8").replace('"1"', '"1.0"'), encoding="utf-8")
    assert make(toy).returncode == 0
    assert builds(toy) == 2

    assert make(toy, "setup-dev").returncode == 0
    stamp = json.loads((toy / ".venv/stamp.json").read_text(encoding="utf-8"))
    assert stamp["dev"]
    for target in ("setup", "setup-dev"):
        assert make(toy, target).stdout == ""


def _lose_the_stamp(folder: Path) -> Path:
    (folder / ".venv/stamp.json").unlink()
    return folder


def _lose_the_interpreter(folder: Path) -> Path:
    (folder / ".venv/bin/python").unlink()
    (folder / ".venv/bin/python").symlink_to("/nowhere/python3")
    return folder


def _change_the_lock(folder: Path) -> Path:
    with (folder / "requirements/base.lock").open("a", encoding="utf-8") as file:
        file.write("# A newer lock.\n")
    return folder


def _move(folder: Path) -> Path:
    return folder.rename(folder.with_name("moved"))


@pytest.mark.slow
@pytest.mark.parametrize("harm", [_lose_the_stamp, _lose_the_interpreter, _change_the_lock, _move])
def test_an_environment_that_cannot_be_trusted_is_made_anew(toy: Path, harm: Callable[[Path], Path]) -> None:
    assert make(toy).returncode == 0
    folder = harm(toy)
    (folder / ".venv/left-over").touch()
    answer = make(folder)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Making .venv" in answer.stdout
    assert not (folder / ".venv/left-over").exists()


@pytest.mark.slow
def test_a_lock_that_cannot_be_met_is_told_and_the_next_run_recovers(toy: Path) -> None:
    lock = toy / "requirements/base.lock"
    lock.write_text(f"{LOCK}nowhere-to-be-had==1 \\\n    --hash=sha256:{'1' * 64}\n", encoding="utf-8")
    broken = make(toy)
    assert broken.returncode != 0
    assert "nowhere-to-be-had" in broken.stderr
    assert "Mend that and run make again" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert not (toy / ".venv/stamp.json").exists()

    lock.write_text(LOCK, encoding="utf-8")
    assert make(toy).returncode == 0


def test_a_setup_that_is_stopped_leaves_no_stamp_and_no_process(toy: Path) -> None:
    # The build holds the pipe open for as long as it lives, and would never end by itself.
    waits = "import signal\npipe = open('lives', 'w')\npipe.write('building')\npipe.flush()\nsignal.pause()\n"
    (toy / "toy_backend.py").write_text(waits, encoding="utf-8")
    os.mkfifo(toy / "lives")
    setup = subprocess.Popen(
        [sys.executable, "-E", "tools/environment.py", "base"],
        cwd=toy,
        env={"PATH": os.environ["PATH"], "HOME": str(toy), "PIP_NO_INDEX": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lives = os.open(toy / "lives", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert read(lives) == b"building"
        setup.terminate()
        assert read(lives) == b""
        _, errors = setup.communicate(timeout=LIMIT_S)
    finally:
        os.close(lives)
        setup.kill()
        setup.wait()
    assert setup.returncode == 130
    assert errors == "\nStopped. The next make starts the environment over.\n"
    assert not (toy / ".venv/stamp.json").exists()


def read(descriptor: int) -> bytes:
    """What comes next on a pipe; nothing once its last writer has ended."""
    ready, _, _ = select.select([descriptor], [], [], LIMIT_S)
    assert ready, "nothing came"
    return os.read(descriptor, 100)
