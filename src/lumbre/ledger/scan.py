"""How the ledger's files are read: newest first, in blocks, in a thread that `store` owns. Driver.

A day may have hundreds of megabytes, of which a question concerns a few lines. So bytes are looked for before lines are
parsed, and no file is ever held whole.
"""

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator
from datetime import date
from pathlib import Path

import orjson

from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted
from lumbre.ledger.records import Entry

_CURSOR = re.compile(r"([0-9-]{10})\.([0-9]{1,15})")
_BLOCK_BYTES = 256 * 1024
_LONGEST_LINE_BYTES = 1024 * 1024


class Scan:
    """One look through the files.

    Attributes:
        skipped: lines that it met and that are no records.
        unwanted: set when nobody waits for what it finds.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.skipped = 0
        self.unwanted = threading.Event()

    def find(self, decision: str) -> list[Entry]:
        """See `Ledger.find`."""
        needle = b'"decision":"%s"' % decision.encode()
        found: list[Entry] = []
        next_day: int | None = None
        for day in days(self._folder):
            if next_day not in (None, day.toordinal()):
                break
            there = [entry for _, entry in self._entries(day, needle) if entry.get("decision") == decision]
            if there:
                found += there
                next_day = day.toordinal() - 1
        return found[::-1]

    def page(self, place: tuple[date, int] | None, limit: int, kind: str | None) -> tuple[list[Entry], str | None]:
        """See `Ledger.page`; `place` is a day and where in its file the last page ended."""
        needle = b"" if kind is None else b'"kind":"%s"' % kind.encode()
        found: list[Entry] = []
        last = None
        for day in days(self._folder):
            if place is not None and day > place[0]:
                continue
            before = place[1] if place is not None and day == place[0] else None
            for begin, entry in self._entries(day, needle, before):
                if kind not in (None, entry.get("kind")):
                    continue
                if len(found) == limit:
                    return found, last
                found.append(entry)
                last = f"{day}.{begin}"
        return found, None

    def _entries(self, day: date, needle: bytes, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """A day's records that may hold the needle, newest first, each with where in the file it begins."""
        try:
            file = os.open(day_path(self._folder, day), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # its time was over just now
            return
        try:
            if before and os.pread(file, 1, before - 1) != b"\n":
                raise _no_place(f"{day}.{before}")
            for begin, line in self._lines(file, _whole_bytes(file) if before is None else before, needle):
                if (entry := entry_of(line)) is None:
                    self.skipped += 1
                else:
                    yield begin, entry
        finally:
            os.close(file)

    def _lines(self, file: int, end: int, needle: bytes) -> Iterator[tuple[int, bytes]]:
        """The lines before `end` that hold the needle, last first, each with where it begins."""
        rest = b""  # a line whose beginning is not read yet, with its end
        while end > 0 and not self.unwanted.is_set():
            begin = max(0, end - _BLOCK_BYTES)
            block = os.pread(file, end - begin, begin) + rest
            first = block.find(b"\n") + 1 if begin else 0
            if needle in block:
                place = begin + len(block)
                for line in reversed(block[first:].split(b"\n")):
                    place -= len(line)
                    if line and needle in line:
                        yield place, line
                    place -= 1
            # What is too long is no line of ours; in pieces it is no record either.
            rest = block[:first] if first <= _LONGEST_LINE_BYTES else b""
            end = begin


def _whole_bytes(file: int) -> int:
    """Where the last line that has an end ends: what follows may be a line that is being written."""
    size = os.fstat(file).st_size
    while size > 0:
        begin = max(0, size - _BLOCK_BYTES)
        if (found := os.pread(file, size - begin, begin).rfind(b"\n")) >= 0:
            return begin + found + 1
        size = begin
    return 0


def days(folder: Path) -> list[date]:
    """The days that have a file, newest first."""
    try:
        names = [path.stem for path in folder.iterdir() if path.suffix == ".jsonl"]
    except FileNotFoundError:
        return []
    return sorted((day for name in names if (day := _date(name)) is not None), reverse=True)


def day_path(folder: Path, day: date) -> Path:
    """Where a day's records lie."""
    return folder / f"{day}.jsonl"


def _date(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.isoformat() == text else None  # there are other spellings


def entry_of(line: bytes) -> Entry | None:
    """The record of a line; None if it is none."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None


def wanted_of(kinds: Collection[str], tiers: Collection[str]) -> Callable[[bytes], bool]:
    """Whether a line may be a record of these kinds and tiers: to ask costs a tenth of parsing it.

    Args:
        kinds: some of `KINDS`; none: all.
        tiers: as in a `Place`; none: all.
    """
    begins = tuple(b'{"kind":"%s"' % kind.encode() for kind in kinds) or b""
    needles = [b'"tier":"%s"' % tier.encode() for tier in tiers] or [b""]

    def is_wanted(line: bytes) -> bool:
        return line.startswith(begins) and any(needle in line for needle in needles)

    return is_wanted


def place_of(cursor: str) -> tuple[date, int]:
    """The day and the offset in its file that a cursor names.

    Raises:
        CallerError: 400; it names none.
    """
    said = _CURSOR.fullmatch(cursor)
    day = None if said is None else _date(said[1])
    if said is None or day is None:
        raise _no_place(cursor)
    return day, int(said[2])


def _no_place(cursor: str) -> CallerError:
    message = f"after: no page of this ledger has named {quoted(cursor)} as its `next`"
    return CallerError(message, param="after", code="invalid_value")
