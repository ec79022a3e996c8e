"""Where the ledger's records lie: a file of JSON lines for each UTC day, written only at its end. Driver; `records`
makes them.

What need not wait is written many at a time, so a gateway that is killed loses the last tenth of a second of it. A file
that cannot be written costs those records and one warning, and no request. What has to be on record before it happens
is written at once, and not being able to is the caller's to know.

Whoever is killed in the middle of a write leaves half a line. The next write begins on a line of its own, and readers
(`scan`) pass over what is no record.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import orjson

from lumbre.core.errors import OperatorError
from lumbre.ledger.records import Entry
from lumbre.ledger.scan import Scan, day_path, days, entry_of, place_of, wanted_of

ANSWER_S = 30.0
"""How long a question may take; a day of a million records takes a second."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")

T = TypeVar("T")

log = logging.getLogger(__name__)


class LedgerUnreadable(OperatorError):
    """The files cannot be read, or not in time."""

    code = "ledger_unreadable"

    def __init__(self, folder: Path, why: object) -> None:
        super().__init__(f"the ledger in {folder} cannot be read: {why}")


def utc_now() -> datetime:
    """This machine's clock."""
    return datetime.now(UTC)


class Ledger:
    """The files of one state folder. Its methods belong to the loop; the slow ones are coroutines.

    Args:
        folder: made with the first record, for its owner only.
        flush_s: how long a record may wait for others to be written with.
        keep_days: older days are removed, now and when a day begins; at least 1.
        now: an aware moment.

    Attributes:
        skipped: lines that a reader met and that are no records; one that is met again counts again.
    """

    def __init__(
        self, folder: Path, *, flush_s: float = 0.1, keep_days: int = 90, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._folder = folder
        self._flush_s = flush_s
        self._keep_days = keep_days
        self._now = now
        self._held: dict[date, list[bytes]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_broken = False
        self._lost = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self.skipped = 0
        self._forget_old()

    def add(self, entry: Entry) -> None:
        """Take a record; it is written soon."""
        self._held.setdefault(_day_of(entry), []).append(_line(entry))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._flush_s, self.flush)

    def add_now(self, entry: Entry) -> None:
        """Write a record, behind all that was taken before.

        Raises:
            OSError: it is not written, and will not be.
        """
        day, line = _day_of(entry), _line(entry)
        # Its day goes last: if another fails, the caller does not hear that this is unwritten when it is not.
        self._held[day] = [*self._held.pop(day, ()), line]
        try:
            self._write()
        except OSError:
            self._lost -= 1  # what its caller then does not do is not missing
            raise

    def flush(self) -> None:
        """Write what has been taken."""
        with suppress(OSError):  # it has been told
            self._write()

    def close(self) -> None:
        """Write what is not written yet, and answer no more."""
        self.flush()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def find(self, decision: str) -> list[Entry]:
        """All records of a decision, oldest first: of the newest day that has any, and of the days just before it for
        as long as they have some too.

        Raises:
            LedgerUnreadable: the files cannot be read.
        """
        if not _ID.fullmatch(decision):
            return []
        return await self._ask(lambda scan: scan.find(decision))

    async def page(
        self, *, after: str | None = None, limit: int = 100, kind: str | None = None
    ) -> tuple[list[Entry], str | None]:
        """Some records, newest first.

        Args:
            after: go on behind the page that named this.
            limit: how many at most; at least 1.
            kind: one of `KINDS`; None: all.

        Returns:
            The records, and what to say as `after` for the next of them; None: there are no more.

        Raises:
            CallerError: 400; no page of this ledger has named that `after`.
            LedgerUnreadable: the files cannot be read.
        """
        place = None if after is None else place_of(after)
        return await self._ask(lambda scan: scan.page(place, limit, kind))

    def today(self, day: date, *, kinds: Collection[str] = (), tiers: Collection[str] = ()) -> Iterator[Entry]:
        """What is written of one UTC day, oldest first; nothing if there is no file. It blocks: a
        second for a million records of which few are asked for, some seconds if all are.

        Args:
            kinds: only these of `KINDS`; none: all.
            tiers: only of these; none: all.

        Raises:
            OSError: the file cannot be read; with the first record asked for, or a later one.
        """
        path, skipped, is_wanted = day_path(self._folder, day), 0, wanted_of(kinds, tiers)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in filter(is_wanted, file):
                if (entry := entry_of(line)) is None:
                    skipped += 1
                else:
                    yield entry
        self.skipped += skipped
        if skipped:
            log.warning("%s: lines that are no records, and were passed over: %d", path, skipped)

    def _write(self) -> None:
        """Write all that is held. What cannot be written is lost, and told of once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, {}
        if not held:
            return
        unwritten = sum(map(len, held.values()))
        try:
            for day, lines in held.items():
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                if _append(day_path(self._folder, day), b"".join(lines)):
                    self._forget_old()
                unwritten -= len(lines)
        except OSError as error:
            self._lost += unwritten
            if not self._is_broken:
                log.warning("the ledger in %s cannot be written (%s)", self._folder, error.strerror)
            self._is_broken = True
            raise
        if self._is_broken:
            log.warning("the ledger in %s is written again; records that it lacks: %d", self._folder, self._lost)
            self._is_broken, self._lost = False, 0

    def _forget_old(self) -> None:
        oldest = self._now().astimezone(UTC).date() - timedelta(days=self._keep_days)
        try:
            for day in days(self._folder):
                if day < oldest:
                    day_path(self._folder, day).unlink(missing_ok=True)
        except OSError as error:
            log.warning("old days of the ledger in %s cannot be removed (%s)", self._folder, error.strerror)

    async def _ask(self, look: Callable[[Scan], T]) -> T:
        self.flush()
        scan = Scan(self._folder)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, look, scan)
        except TimeoutError:
            raise LedgerUnreadable(self._folder, f"it took longer than {ANSWER_S:g} s") from None
        except OSError as error:
            raise LedgerUnreadable(self._folder, error.strerror) from error
        finally:
            scan.unwanted.set()
            self.skipped += scan.skipped


def _append(path: Path, data: bytes) -> bool:
    """Write lines at a file's end, all or none, and say whether the file is new.

    Raises:
        OSError: they are not written.
    """
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            data = b"\n" + data
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            with suppress(OSError):  # then half a line stays, which is no record
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
    return size == 0


def _day_of(entry: Entry) -> date:
    at: datetime = entry["at"]
    return at.astimezone(UTC).date()


def _line(entry: Entry) -> bytes:
    """A record as it is written, whatever a caller or an upstream got into it."""
    try:
        return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return orjson.dumps(_plain(entry), option=orjson.OPT_APPEND_NEWLINE)


def _plain(value: object) -> Any:
    """What JSON in UTF-8 can say of a value: half a surrogate pair and a number of any length are no part of it."""
    match value:
        case None | bool() | float() | datetime():
            return value
        case int():
            return max(-(2**63), min(value, 2**63 - 1))
        case Mapping():
            return {_plain(str(name)): _plain(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(each) for each in value]
        case _:
            return str(value).encode("utf-8", "replace").decode()
