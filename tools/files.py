"""Decides which files are the project's own, for the checks that read them all. Impure: asks git."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = {"__pycache__", "build", "dist", "node_modules"}


def project_files(root: Path) -> list[Path]:
    """What git tracks or would track under `root`; without git, every file outside hidden folders."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=False,
        capture_output=True,
        text=True,
    )
    found = (root / name for name in listed.stdout.split("\0") if name) if listed.returncode == 0 else walk(root)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if path.name not in LEFT_OUT and (not path.name.startswith(".") or path.name == ".ci"):
                yield from walk(path)
        else:
            yield path
