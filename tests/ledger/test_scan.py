"""Reading the ledger: a decision's records, and pages that show each record once, however the files are damaged."""

import os
import tempfile
import tracemalloc
from itertools import chain
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.ledgers import DAY, FILE, NOON, entry, in_loop, numbers, put, walk
from lumbre.core.errors import CallerError
from lumbre.ledger import scan
from lumbre.ledger.store import Ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def test_a_decision_is_found_with_what_is_not_written_yet(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        ledger.add(entry(1, "d-1"))
        ledger.add(entry(2, "d-2", reasons=('"decision":"d-1"', '{"decision":"d-1"}')))
        ledger.add(entry(3, "d-1"))
        assert numbers(await ledger.find("d-1")) == [1, 3]
        assert [await ledger.find(name) for name in ("d-", "d-11", "", "d-1\n", '"', "x" * 1000)] == [[]] * 6

    in_loop(work, folder, flush_s=60)


def test_a_decision_is_followed_over_midnight_and_no_further(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        for number, (decision, day) in enumerate([("d-1", -4), ("d-1", -2), ("d-2", -1), ("d-1", -1), ("d-1", 0)]):
            put(ledger, entry(number, decision, NOON + day * DAY))
        put(ledger, entry(9, "d-3", NOON + DAY))
        assert numbers(await ledger.find("d-1")) == [1, 3, 4]
        assert numbers(await ledger.find("d-2")) == [2]

    in_loop(work, folder)


def test_nothing_is_found_where_nothing_was_written(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        assert await ledger.find("d-1") == []
        assert await ledger.page() == ([], None)
        assert list(ledger.today(NOON.date())) == []

    in_loop(work, folder)


@pytest.mark.parametrize("limit", [1000, 7, 3000])
def test_pages_over_thousands_of_lines_show_each_record_once_and_the_newest_first(folder: Path, limit: int) -> None:
    async def work(ledger: Ledger) -> None:
        for number in range(3000):
            ledger.add(entry(number, at=NOON + number // 1000 * DAY))
        ledger.flush()
        (folder / "20261201.jsonl").touch()  # the same day in another spelling is no file of ours
        pages = await walk(ledger, limit)
        assert numbers(list(chain.from_iterable(pages))) == list(range(2999, -1, -1))
        assert all(len(page) == limit for page in pages[:-1])
        assert pages[-1]

    in_loop(work, folder)


def test_what_is_added_between_two_pages_shifts_nothing(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        put(ledger, *map(entry, range(4)))
        first, after = await ledger.page(limit=2)
        put(ledger, entry(9), entry(10, at=NOON + DAY))
        second, end = await ledger.page(after=after, limit=2)
        assert (numbers(first), numbers(second), end) == ([3, 2], [1, 0], None)

    in_loop(work, folder)


def test_a_page_of_one_kind_holds_no_other_and_knows_whether_there_are_more(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        for number in range(20):
            put(
                ledger,
                {**entry(number, at=NOON + number // 8 * DAY), "kind": "switch" if number % 5 == 0 else "attempt"},
            )
        pages = await walk(ledger, 2, "switch")
        assert [numbers(page) for page in pages] == [[15, 10], [5, 0]]
        assert await walk(ledger, 2, "policy") == [[]]

    in_loop(work, folder)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "2026-12-01", "2026-12-01.5", "2026-12-01.99999", "2026-13-01.0", "2026-W49-2.0", "2026-12-01.-1"],
)
def test_a_cursor_that_no_page_has_named_is_refused(folder: Path, cursor: str) -> None:
    async def work(ledger: Ledger) -> None:
        put(ledger, entry(1), entry(2))
        with pytest.raises(CallerError, match="after") as told:
            await ledger.page(after=cursor)
        assert (told.value.status, told.value.param) == (400, "after")

    in_loop(work, folder)


def test_a_cursor_into_a_day_that_is_forgotten_goes_on_with_what_is_left(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        put(ledger, entry(1, at=NOON - DAY), entry(2), entry(3))
        _, after = await ledger.page(limit=1)
        (folder / FILE).unlink()
        assert numbers((await ledger.page(after=after))[0]) == [1]

    in_loop(work, folder)


def test_a_stretch_of_damage_hides_no_record_around_it_and_is_never_held_whole(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        put(ledger, entry(1))
        os.truncate(folder / FILE, 16_000_000)
        put(ledger, entry(2))
        tracemalloc.start()
        assert numbers(await ledger.find("d-1")) == [1, 2]
        assert [numbers(page) for page in await walk(ledger, 1)] == [[2], [1]]
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
        tracemalloc.stop()
        assert ledger.skipped > 0

    in_loop(work, folder)


_LINES = st.lists(
    st.one_of(
        st.integers(0, 300),
        st.sampled_from([b"{", b"[]", b"7", b"", b'{"kind":"attempt"', b"\xff\xfe", bytes(200)]),
    ),
    max_size=20,
)


@given(_LINES, st.integers(1, 6), st.sampled_from([16, 64, 1000]), st.booleans())
def test_pages_show_what_a_plain_reading_shows(
    wanted: list[int | bytes], limit: int, block_bytes: int, cut_off: bool
) -> None:
    texts = [orjson.dumps({"n": n, "pad": "x" * n}) if isinstance(n, int) else n for n in wanted]
    oracle = [n for n in reversed(wanted) if isinstance(n, int)]

    async def work(ledger: Ledger) -> None:
        pages = await walk(ledger, limit)
        assert [each["n"] for page in pages for each in page] == oracle
        assert all(len(page) == limit for page in pages[:-1])

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_BLOCK_BYTES", block_bytes)
        content = b"".join(text + b"\n" for text in texts) + (b'{"n":1,"pad"' if cut_off else b"")
        (Path(name) / FILE).write_bytes(content)
        in_loop(work, Path(name))
