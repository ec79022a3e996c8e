"""Writes `requirements/*.lock` from `pyproject.toml`. Impure; driven by `make lock`.

Every package is pinned, and hashed for all platforms. The locks name no index, so that each user's own mirror
serves them; the hashes say what is accepted from it.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV_RELEASE = "0.13.9"
OPTIONS = (
    *(
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-config",
        "--no-annotate",
        "--quiet",
    ),
    *("--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command"),
)


def main(arguments: list[str]) -> int:
    """Write both locks. Pins stay as they are where they still fit, unless `--upgrade` is given."""
    uv = find_uv()
    sources = ["pyproject.toml", "requirements/build.in"]
    compile_ = [uv, "pip", "compile", *sources, *OPTIONS, "make lock", *arguments]
    # The second lock is held to the first: what is tested is what is shipped.
    held = ["--group", "dev", "--constraint", "requirements/base.lock"]
    for more in (
        ["--output-file", "requirements/base.lock"],
        [*held, "--output-file", "requirements/dev.lock"],
    ):
        status = subprocess.run([*compile_, *more], check=False, cwd=ROOT).returncode
        if status != 0:
            return status
    return 0


def find_uv() -> str:
    """The uv on PATH, or one of a fixed release put under `build/`: nobody else needs it."""
    if found := shutil.which("uv"):
        return found
    place = ROOT / "build" / "uv"
    program = place / "bin" / "uv"
    if not program.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(place), f"uv=={UV_RELEASE}"], check=True)
    return str(program)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
