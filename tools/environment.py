"""Decides whether `.venv` is whole and current, and makes it so. Impure; driven by the Makefile.

Standard library only: it runs before anything is installed. An environment is trusted for what its stamp says
and for nothing else. The stamp is taken away before the first change and written after the last, so an
environment without one was never finished and is made anew.
"""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType

from commands import Progress, SetupError, run_logged, say

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"base": "base.lock", "dev": "dev.lock"}


@dataclass(frozen=True)
class Stamp:
    """What an environment was made from; `base` and `dev` digest the locks, `dev` empty if not installed."""

    place: str
    python: str
    base: str
    dev: str
    project: str


def main(arguments: list[str]) -> int:
    """Bring `.venv` to the kind asked for, `base` or `dev`; `named`: the user chose the interpreter."""
    kind = arguments[0] if arguments else "base"
    named = "named" in arguments[1:]
    if kind not in KINDS:
        sys.stderr.write(f"unknown kind {kind!r}; there are: {', '.join(KINDS)}\n")
        return 2
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with alone(ROOT / "requirements"):
            bring_to(kind, ROOT / ".venv", named=named)
    except SetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. The next make starts the environment over.\n")
        return 130
    return 0


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """End on SIGTERM as on Ctrl-C: the command at work is ended too, not left behind."""
    raise KeyboardInterrupt


def bring_to(kind: str, venv: Path, *, named: bool) -> None:
    """Do only what is missing between the environment as it stands and the one asked for."""
    wanted = wanted_stamp(kind)
    found = read_stamp(venv)
    if found is None or not still_good(found, wanted, venv, named=named):
        make_anew(kind, venv, replace(wanted, python=sys.version))
        return
    wanted = replace(wanted, python=found.python)
    if kind == "base":
        wanted = replace(wanted, dev=found.dev)
    if found == wanted:
        return
    with unstamped(venv, wanted):
        if found.dev != wanted.dev:
            install_lock(venv, KINDS["dev"])
        install_project(venv)


def wanted_stamp(kind: str) -> Stamp:
    """The stamp of an environment of this kind made now by this interpreter."""
    locks = ROOT / "requirements"
    return Stamp(
        place=str(ROOT),
        python=sys.version,
        base=digest((locks / KINDS["base"]).read_bytes()),
        dev=digest((locks / KINDS["dev"]).read_bytes()) if kind == "dev" else "",
        project=digest(packaging_facts()),
    )


def packaging_facts() -> bytes:
    """The part of `pyproject.toml` that an installed project depends on; a linter's setting is none of it."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    facts = (whole.get("build-system"), whole.get("project"), whole.get("tool", {}).get("hatch"))
    return json.dumps(facts, sort_keys=True).encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_stamp(venv: Path) -> Stamp | None:
    try:
        fields = json.loads((venv / "stamp.json").read_text(encoding="utf-8"))
        return Stamp(**fields)
    except (OSError, ValueError, TypeError):
        return None


def still_good(found: Stamp, wanted: Stamp, venv: Path, *, named: bool) -> bool:
    """Whether what is there can be built upon. A changed lock is not: packages that it dropped would stay."""
    if found.place != wanted.place or found.base != wanted.base:
        return False
    if found.dev and wanted.dev and found.dev != wanted.dev:
        return False
    if named and found.python != wanted.python:
        return False
    return runs(python_of(venv), found.python)


def runs(python: Path, version: str) -> bool:
    """Whether the environment's interpreter is still there and still the one it was made with."""
    try:
        asked = [str(python), "-I", "-c", "import sys, pip; sys.stdout.write(sys.version)"]
        answer = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout == version


def make_anew(kind: str, venv: Path, stamp: Stamp) -> None:
    say(f"Making .venv with Python {sys.version.split()[0]} ({sys.executable})")
    started_at = time.monotonic()
    remove(venv)
    run_logged([sys.executable, "-m", "venv", str(venv)])
    with unstamped(venv, stamp):
        lock = KINDS[kind]
        install_pip(venv, lock)
        install_lock(venv, lock)
        install_project(venv)
    say(f"The environment is ready ({time.monotonic() - started_at:.0f} s)")


def remove(venv: Path) -> None:
    if venv.is_symlink() or venv.is_file():
        venv.unlink()
    elif venv.exists():
        shutil.rmtree(venv)


@contextmanager
def unstamped(venv: Path, stamp: Stamp) -> Iterator[None]:
    """Take the stamp away while the body changes the environment; a body that is cut short leaves it so."""
    path = venv / "stamp.json"
    path.unlink(missing_ok=True)
    yield
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(stamp), indent=1), encoding="utf-8")
    fresh.replace(path)


def install_pip(venv: Path, lock: str) -> None:
    """Bring pip to the locked release: an older Python's own cannot take up a download that was cut."""
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith("pip==")), None)
    if start is None:
        raise SetupError(f"requirements/{lock} does not pin pip; run `make lock`")
    end = next(number for number in range(start, len(lines)) if not lines[number].endswith("\\"))
    pin = venv / "pip.lock"
    pin.write_text("\n".join(lines[start : end + 1]) + "\n", encoding="utf-8")
    run_logged([*pip_of(venv), "install", "--require-hashes", "--requirement", str(pin)])


def install_lock(venv: Path, lock: str) -> None:
    """Install every pin of a lock, each checked by its hash; wheels only, so nothing is compiled here."""
    path = ROOT / "requirements" / lock
    pins = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1].isalnum()]
    progress = Progress(len(pins))
    command = [*pip_of(venv), "install", "--require-hashes", "--only-binary", ":all:", *progress.options]
    run_logged([*command, "--requirement", str(path)], progress)


def install_project(venv: Path) -> None:
    """Install Lumbre itself, editable; its build backend is already there, from the lock."""
    command = [*pip_of(venv), "install", "--no-deps", "--no-build-isolation", "--no-index"]
    run_logged([*command, "--editable", str(ROOT)])


def python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


def pip_of(venv: Path) -> list[str]:
    return [str(python_of(venv)), "-m", "pip", "--disable-pip-version-check", "--no-input"]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that two makes at once do not build in each other's environment."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another make is at work on .venv; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
