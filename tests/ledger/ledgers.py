"""A ledger in a folder of a test's own, records to put into it, and what its files hold. Used by the tests."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from lumbre.ledger.records import Entry, Place, Tried, attempt
from lumbre.ledger.store import Ledger

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FILE = "2026-12-01.jsonl"
"""Where the records of `NOON` are."""


@contextmanager
def opened(folder: Path, **given: Any) -> Iterator[Ledger]:
    ledger = Ledger(folder, **{"now": lambda: NOON, **given})
    try:
        yield ledger
    finally:
        ledger.close()


def entry(number: int, decision: str = "d-1", at: datetime = NOON, reasons: tuple[str, ...] = ()) -> Entry:
    return attempt(decision, at, Place("A", None, "embedded"), Tried(number, "ok", 200, 0.5), reasons)


def lines(path: Path) -> list[Any]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def numbers(entries: list[Entry]) -> list[int]:
    return [each["attempt"] for each in entries]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def put(ledger: Ledger, *entries: Entry) -> None:
    for each in entries:
        ledger.add_now(each)


async def walk(ledger: Ledger, limit: int, kind: str | None = None) -> list[list[Entry]]:
    """All pages."""
    pages, after = [], None
    while True:
        found, after = await ledger.page(after=after, limit=limit, kind=kind)
        pages.append(found)
        if after is None:
            return pages


def in_loop(work: Callable[[Ledger], Coroutine[Any, Any, None]], folder: Path, **given: Any) -> None:
    with opened(folder, **given) as ledger:
        asyncio.run(work(ledger))
