"""Decides where words go: results to stdout, all else to stderr, JSON where asked. Commands drive it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import typer

from lumbre.cli.screen import printable
from lumbre.cli.words import Words
from lumbre.core.errors import LumbreError


@dataclass(frozen=True)
class Shell:
    """One run of the program.

    Attributes:
        json: whether `--json` was given; the commands have it too, this one is for errors before they start.
    """

    words: Words
    json: bool

    def say(self, code: str, /, **values: object) -> None:
        """A result for people."""
        self.line(self.words(code, **values))

    def line(self, text: str) -> None:
        """A result as it is."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """What is not the result."""
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def data(self, value: object) -> None:
        """A result for programs, on one line."""
        self.line(json.dumps(value, ensure_ascii=False, default=str))

    def fail(self, code: str, message: str) -> None:
        """An error: words on stderr, and the object on stdout if JSON was asked for."""
        self.note(f"lumbre: {message}")
        if self.json:
            self.data({"error": {"code": code, "message": message}})

    def failed(self, error: LumbreError) -> None:
        """The same for an error of ours."""
        self.fail(error.code, error.message)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Columns as wide as their widest cell; the last may run on. Whatever is in a cell stays on its line."""
        rows = [[printable(cell) for cell in row] for row in rows]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.line("  ".join(cells).rstrip())


def shell_of(context: typer.Context) -> Shell:
    """The shell that `main` gave to the command."""
    shell = context.find_object(Shell)
    if shell is None:
        raise TypeError("commands are run by lumbre.cli.main, which gives them a Shell")
    return shell


def human_bytes(count: float) -> str:
    """`98.4 MB`, in powers of ten as disks are sold."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
