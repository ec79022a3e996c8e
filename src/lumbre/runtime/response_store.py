"""Keeps responses on disk for `previous_response_id`, for retrieval and for references: bounded by number, bytes and
age. Driver; its methods block, and the caller runs them in a thread.

A conversation is a chain: each response is kept once, with its own input, and names the one before it. Going on with a
conversation makes every link of it young again, so that the least recent conversation goes first and a long one does
not lose its beginning while it is talked about. Deleting one link ends the conversations that go on from it: what was
deleted is said to no engine again.

SQLite's log is written ahead, so a gateway that is killed has what it had kept, and half of nothing.
"""

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from lumbre.core.errors import CallerError, OperatorError
from lumbre.wire.responses.items import owner_of

_VERSION = 1
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_BUSY_S = 1.0
_LOG_BYTES = 4 * 1024 * 1024

_TABLES = """
CREATE TABLE IF NOT EXISTS responses (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    previous TEXT,
    used_s REAL NOT NULL,
    size INTEGER NOT NULL,
    response BLOB NOT NULL,
    items BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS responses_by_use ON responses (used_s, seq, size);
"""


class StoreBroken(OperatorError):
    """The file cannot be used: the disk is full, or it is no database of ours, or it may not be read."""

    code = "response_store_broken"

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(
            f"the kept responses in {path} cannot be used ({why}); make room or move the file away, or turn the store "
            "off with `[responses] store = false`"
        )


class ResponseStore:
    """The responses of one state folder.

    Args:
        path: the database; made with its first use, for its owner only.
        keep: how many responses at most.
        keep_bytes: how many bytes of JSON at most; a response larger than that is not kept at all.
        keep_s: seconds after which a conversation that nobody has gone on with is forgotten.
        now_s: Unix seconds.
    """

    def __init__(self, path: Path, *, keep: int, keep_bytes: int, keep_s: float, now_s: Callable[[], float]) -> None:
        self._path = self.path = path
        self._keep = keep
        self._keep_bytes = keep_bytes
        self._keep_s = keep_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._drop()

    def check(self) -> None:
        """Find out whether responses can be kept.

        Raises:
            StoreBroken: they cannot.
        """
        with self._writing() as database:
            self._forget(database, spare=0)

    def put(self, response_id: str, response: Mapping[str, Any], input_items: Sequence[Mapping[str, Any]]) -> bool:
        """Keep a response; what is over the bounds goes, the least recent first.

        Args:
            response: the Response object; its `previous_response_id` says what it goes on from.
            input_items: its own input, each item with an id.

        Returns:
            Whether it was kept: one that is larger than everything together may be is not.

        Raises:
            StoreBroken: the file cannot be written.
        """
        told, items = orjson.dumps(response), orjson.dumps(input_items)
        size = len(told) + len(items)
        if size > self._keep_bytes:
            return False
        previous, now = response.get("previous_response_id"), self._now_s()
        with self._writing() as database:
            row = (response_id, previous, now, size, told, items)
            said = "INSERT OR REPLACE INTO responses (id, previous, used_s, size, response, items) VALUES (?,?,?,?,?,?)"
            newest = database.execute(said, row).lastrowid
            links = [(now, link) for link in self._chain(database, previous)]
            database.executemany("UPDATE responses SET used_s = ? WHERE id = ?", links)
            self._forget(database, spare=newest or 0)
        return True

    def get(self, response_id: str) -> dict[str, Any] | None:
        """A response as it was told; None if it is not kept.

        Raises:
            StoreBroken: the file cannot be read.
        """
        found = self._row(response_id)
        return None if found is None else self._object(found[0])

    def input_items(self, response_id: str) -> list[dict[str, Any]] | None:
        """A response's own input, in its order; None if the response is not kept.

        Raises:
            StoreBroken: the file cannot be read.
        """
        found = self._row(response_id)
        return None if found is None else self._list(found[1])

    def items(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The kept items, of input and output, that have these ids.

        Raises:
            StoreBroken: the file cannot be read.
        """
        wanted = set(ids)
        found: dict[str, dict[str, Any]] = {}
        for owner in {owner_of(each) for each in wanted}:
            if (row := self._row(owner)) is not None:
                both = [*self._list(row[1]), *self._object(row[0])["output"]]
                found |= {item["id"]: item for item in both if item.get("id") in wanted}
        return found

    def delete(self, response_id: str) -> bool:
        """Forget a response; say whether there was one. Its bytes are overwritten.

        Raises:
            StoreBroken: the file cannot be written.
        """
        if not _ID.fullmatch(response_id):
            return False
        with self._writing() as database:
            said = "DELETE FROM responses WHERE id = ? AND used_s > ?"
            gone = database.execute(said, (response_id, self._now_s() - self._keep_s)).rowcount > 0
        if gone:
            with self._using() as database:
                # What was deleted still stands in the log until that is emptied.
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return gone

    def history(self, response_id: str) -> list[dict[str, Any]]:
        """Input and output items of a response and all those before it, oldest first.

        Raises:
            CallerError: 400 `previous_response_not_found`; it is not kept, or something before it is not.
            StoreBroken: the file cannot be read.
        """
        turns: list[list[dict[str, Any]]] = []
        link: str | None = response_id
        while link is not None:
            row = self._row(link)
            if row is None or len(turns) == self._keep:
                raise _not_found(response_id, link)
            told = self._object(row[0])
            turns.append([*self._list(row[1]), *told["output"]])
            link = told.get("previous_response_id")
        return [item for turn in reversed(turns) for item in turn]

    def _chain(self, database: sqlite3.Connection, response_id: str | None) -> Iterator[str]:
        """A response and those before it, as far as they are kept; only a damaged file has more than all."""
        for _ in range(self._keep):
            if response_id is None:
                return
            yield response_id
            row = database.execute("SELECT previous FROM responses WHERE id = ?", (response_id,)).fetchone()
            response_id = None if row is None else row[0]

    def _row(self, response_id: str) -> tuple[bytes, bytes] | None:
        if not _ID.fullmatch(response_id):
            return None
        said = "SELECT response, items FROM responses WHERE id = ? AND used_s > ?"
        with self._using() as database:
            row: tuple[bytes, bytes] | None = database.execute(
                said, (response_id, self._now_s() - self._keep_s)
            ).fetchone()
        return row

    def _object(self, data: bytes) -> dict[str, Any]:
        value = self._parsed(data)
        if not isinstance(value, dict):
            raise StoreBroken(self._path, "it holds a response that is none")
        return value

    def _list(self, data: bytes) -> list[dict[str, Any]]:
        value = self._parsed(data)
        if not isinstance(value, list):
            raise StoreBroken(self._path, "it holds items that are none")
        return value

    def _parsed(self, data: bytes) -> Any:
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise StoreBroken(self._path, error) from error

    def _forget(self, database: sqlite3.Connection, *, spare: int) -> None:
        """Delete what is too old, and of the rest the least recent until it is within the bounds."""
        database.execute("DELETE FROM responses WHERE used_s <= ?", (self._now_s() - self._keep_s,))
        count, size = database.execute("SELECT COUNT(*), TOTAL(size) FROM responses").fetchone()
        oldest = database.execute("SELECT seq, size FROM responses WHERE seq <> ? ORDER BY used_s, seq", (spare,))
        doomed = []
        for seq, its_size in oldest:
            if count <= self._keep and size <= self._keep_bytes:
                break
            doomed.append((seq,))
            count, size = count - 1, size - its_size
        database.executemany("DELETE FROM responses WHERE seq = ?", doomed)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it happens, or nothing."""
        with self._using() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._opened()
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                # Opened anew with the next use, so that mending the file needs no restart.
                self._drop()
                raise StoreBroken(self._path, error) from error

    def _opened(self) -> sqlite3.Connection:
        # Made beforehand, for SQLite would make it readable to others; its log takes the file's mode.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._path.chmod(0o600)
        database = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise sqlite3.DatabaseError(f"it was made by another version of Lumbre: {version}")
            database.execute("PRAGMA journal_mode = WAL").fetchone()
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA secure_delete = ON").fetchone()
            database.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchone()
            database.executescript(_TABLES)
            database.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            database.close()
            raise
        return database

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _not_found(asked: str, missing: str) -> CallerError:
    shown = asked[:128]
    if missing == asked:
        message = f"previous_response_id: no response {shown!r} is kept here; send the conversation so far as `input`"
    else:
        message = (
            f"previous_response_id: what was said before {shown!r} is not kept any more; "
            "send the conversation so far as `input`"
        )
    return CallerError(message, param="previous_response_id", code="previous_response_not_found")
