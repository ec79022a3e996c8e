"""Runs the commands that fill `.venv`: shows that they are alive and tells what went wrong. Impure; driven by
`environment`, standard library only.
"""

import os
import shutil
import signal
import subprocess
import sys

LAST_LINES = 30


class SetupError(Exception):
    """The environment could not be made; the message says why and the way out."""


class Progress:
    """Turns pip's lines into one line that moves on a terminal, and into a few plain ones in a log."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._seen = 0
        self._item = ""
        self._live = sys.stdout.isatty()
        self.options = ["--progress-bar", "raw"] if self._live else []

    def take(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        if word in {"Collecting", "Processing", "Ignoring", "Requirement"}:
            self._seen += 1
            self._item = rest.removeprefix("already satisfied: ").split(" ")[0].rstrip(":").rpartition("/")[2]
            self._show(self._item)
        elif word == "Progress" and self._live:
            done, _, whole = rest.partition(" of ")
            if whole.isdigit() and int(whole) > 0:
                self._show(f"{self._item}  {100 * int(done) // int(whole)} % of {int(whole) / 1e6:.1f} MB")
        elif word == "Installing":
            self._show("unpacking", always=True)

    def end(self) -> None:
        if self._live:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    def _show(self, text: str, *, always: bool = False) -> None:
        line = f"  packages {self._seen}/{self._total}: {text}"
        if self._live:
            sys.stdout.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        elif always or self._seen % 10 == 1:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def run_logged(command: list[str], progress: Progress | None = None) -> None:
    """Run a command in silence or under a progress line; if it fails, show its last lines."""
    kept: list[str] = []
    # In a group of its own, so that an interruption ends what the command has started as well.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=clean_environ(),
        process_group=0,
    ) as child:
        try:
            for line in child.stdout or ():
                if progress is not None:
                    progress.take(line)
                if not line.startswith("Progress "):
                    kept.append(line)
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGTERM)
            raise
    if progress is not None:
        progress.end()
    if child.returncode != 0:
        tail = "".join(kept[-LAST_LINES:]).rstrip()
        shown = " ".join(command[:3])
        raise SetupError(
            f"{tail}\n\nThe environment could not be made: `{shown} …` ended with {child.returncode}.\n"
            "Its last lines are above. Mend that and run make again; it starts the environment over."
        )


def clean_environ() -> dict[str, str]:
    """The user's environment less what would make pip or Python work on another place than `.venv`."""
    unwanted = {"PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "VIRTUAL_ENV"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, "PIP_USER": "0", "PYTHONUNBUFFERED": "1"}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
