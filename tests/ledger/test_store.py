"""The ledger's files: written together or at once, whole after a kill and a full disk, private, forgotten in time."""

import asyncio
import logging
import os
import signal
import stat
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from ledger.ledgers import DAY, FILE, NOON, entry, in_loop, lines, names, numbers, opened, put
from lumbre.ledger import store
from lumbre.ledger.records import Place, Tried, attempt, hold
from lumbre.ledger.store import Ledger, LedgerUnreadable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def test_what_is_added_is_written_together_a_little_later(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        for number in range(5):
            ledger.add(entry(number))
        assert names(folder) == []
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, later.set)  # timers fire in the order of their times
        await later.wait()
        assert numbers(lines(folder / FILE)) == [0, 1, 2, 3, 4]

    in_loop(work, folder, flush_s=0.01)


def test_what_cannot_wait_is_written_at_once_behind_what_could(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        ledger.add(entry(1))
        ledger.add(entry(2))
        ledger.add_now(entry(3))
        assert numbers(lines(folder / FILE)) == [1, 2, 3]

    in_loop(work, folder, flush_s=60)


ODD: tuple[tuple[object, object], ...] = (
    ("half a pair \ud800", "half a pair ?"),
    ({"\udfff": ["\ud800"]}, {"?": ["?"]}),
    (10**400, 2**63 - 1),
    (-(10**400), -(2**63)),
    ((1, {2}, {3: None}), [1, [2], {"3": None}]),
    (1.5 + 2j, "(1.5+2j)"),
)


@pytest.mark.parametrize(("given", "told"), ODD)
def test_whatever_is_in_a_record_it_is_written_and_costs_no_other(folder: Path, given: object, told: object) -> None:
    async def work(ledger: Ledger) -> None:
        ledger.add(entry(1))
        ledger.add({**entry(2), "model": given, "until": NOON})
        ledger.add_now({**entry(3), "model": given})
        there = lines(folder / FILE)
        assert numbers(there) == [1, 2, 3]
        assert [each["model"] for each in there] == [None, told, told]
        assert there[1]["until"] == "2026-12-01T12:00:00+00:00"

    in_loop(work, folder, flush_s=60)


def test_closing_writes_the_rest(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        ledger.add(entry(1))
        ledger.close()
        assert numbers(lines(folder / FILE)) == [1]

    in_loop(work, folder, flush_s=60)


def test_the_files_are_for_their_owner_only(folder: Path) -> None:
    with opened(folder) as ledger:
        put(ledger, entry(1))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


def test_a_record_goes_into_the_file_of_its_own_day(folder: Path) -> None:
    async def work(ledger: Ledger) -> None:
        ledger.add(entry(1, at=NOON))
        ledger.add(entry(2, at=NOON + DAY))
        ledger.add_now(entry(3, at=NOON))
        assert numbers(lines(folder / FILE)) == [1, 3]
        assert numbers(lines(folder / "2026-12-02.jsonl")) == [2]

    in_loop(work, folder)


_KILLED = """
import resource, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from lumbre.ledger.records import Place, Tried, attempt
from lumbre.ledger.store import Ledger
at = datetime(2026, 12, 1, 12, tzinfo=UTC)
ledger = Ledger(Path(sys.argv[1]), now=lambda: at)
# The kernel writes up to the limit, and kills with the next byte.
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
for n in range(1000):
    ledger.add_now(attempt("d-1", at, Place(), Tried(n, "ok", 200, 0.5)))
    print(n, flush=True)
"""


def test_half_a_line_of_a_gateway_that_was_killed_swallows_no_record(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(folder)], check=False, timeout=60, capture_output=True)
    assert done.returncode == -signal.SIGXFSZ
    written = [int(line) for line in done.stdout.split()]
    assert written
    path = folder / FILE
    assert path.stat().st_size == 10_000
    assert not path.read_bytes().endswith(b"\n")

    async def work(ledger: Ledger) -> None:
        assert numbers(await ledger.find("d-1")) == written
        ledger.add_now(entry(5000))
        assert numbers(await ledger.find("d-1")) == [*written, 5000]
        assert numbers((await ledger.page(limit=1000))[0]) == [5000, *reversed(written)]
        before = ledger.skipped
        assert before > 0
        assert numbers(list(ledger.today(NOON.date()))) == [*written, 5000]
        assert ledger.skipped == before + 1

    in_loop(work, folder)


_NARROW = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
from lumbre.ledger.records import Place, Tried, attempt
from lumbre.ledger.store import Ledger
at = datetime(2026, 12, 1, 12, tzinfo=UTC)
ledger = Ledger(Path(sys.argv[1]), now=lambda: at)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
n = 0
try:
    while True:
        ledger.add_now(attempt("d-1", at, Place(), Tried(n, "ok", 200, 0.5)))
        n += 1
except OSError as error:
    print(n, error.errno)
"""


def test_a_record_that_found_no_room_is_not_there_in_part(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _NARROW, str(folder)], check=True, timeout=60, capture_output=True)
    written = int(done.stdout.split()[0])
    path = folder / FILE
    assert path.read_bytes().endswith(b"\n")
    assert numbers(lines(path)) == list(range(written))


def test_a_full_disk_is_told_to_who_has_to_know_and_else_costs_one_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    path = folder / FILE
    path.symlink_to("/dev/full")

    async def work(ledger: Ledger) -> None:
        with caplog.at_level(logging.WARNING):
            for number in range(3):
                ledger.add(entry(number))
                ledger.flush()
            with pytest.raises(OSError, match="No space left"):
                ledger.add_now(entry(3))
            assert len(caplog.records) == 1
            path.unlink()
            ledger.add_now(entry(4))
        assert numbers(lines(path)) == [4]
        assert caplog.messages[1].endswith("is written again; records that it lacks: 3")

    in_loop(work, folder)


def test_a_folder_that_cannot_be_made_or_read_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.write_text("no folder")

    async def work(ledger: Ledger) -> None:
        with pytest.raises(OSError, match="exists"):
            ledger.add_now(entry(1))
        with pytest.raises(LedgerUnreadable, match="Not a directory"):
            await ledger.page()
        with pytest.raises(LedgerUnreadable, match="Not a directory"):
            await ledger.find("d-1")

    in_loop(work, folder)
    assert all(str(folder) in message for message in caplog.messages)


def test_a_question_that_takes_too_long_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder.parent / "pipe")
    monkeypatch.setattr(store, "ANSWER_S", 0.02)

    async def work(ledger: Ledger) -> None:
        put(ledger, entry(1))
        (folder / "2026-12-02.jsonl").symlink_to(folder.parent / "pipe")
        with pytest.raises(LedgerUnreadable, match="longer than"):
            await ledger.page()  # opening a pipe waits for who writes into it
        os.close(os.open(folder.parent / "pipe", os.O_WRONLY))

    in_loop(work, folder)


def test_a_day_is_told_in_its_order_and_its_damage_is_counted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(folder) as ledger:
        put(ledger, entry(1), entry(2))
        with (folder / FILE).open("ab") as file:
            file.write(b'{"kind":"cross')
        put(ledger, entry(3), entry(4, at=NOON + DAY))
        assert numbers(list(ledger.today(NOON.date()))) == [1, 2, 3]
        assert ledger.skipped == 1
        assert "were passed over: 1" in caplog.text


def test_of_a_day_only_some_kinds_and_tiers_are_told_and_their_damage_is_counted(folder: Path) -> None:
    places = [Place("B", None, "gpu-1"), Place("A", None, "one"), Place("C"), Place("A", None, '"tier":"B"'), Place()]
    with opened(folder) as ledger:
        put(ledger, *(attempt("d-1", NOON, place, Tried(n, "ok", 200, 0.5)) for n, place in enumerate(places)))
        put(ledger, hold("d-1", NOON, "gpu-1", 9), {**entry(5), "kind": "request", "tier": "B"})
        with (folder / FILE).open("ab") as file:
            file.write(b'{"kind":"attempt","tier":"B"\n{"kind":"request","tier":"B"\n{"kind":"attempt","tier":"A"\n')

        def told(**wanted: tuple[str, ...]) -> list[object]:
            return [each.get("attempt", each["kind"]) for each in ledger.today(NOON.date(), **wanted)]

        assert told(kinds=("attempt", "hold"), tiers=("B", "C")) == [0, 2, "hold"]
        assert ledger.skipped == 1
        assert told(kinds=("hold",)) == ["hold"]
        assert told(tiers=("B",)) == [0, "hold", 5]
        assert told() == [0, 1, 2, 3, 4, "hold", 5]


def test_a_day_that_cannot_be_read_is_an_error_and_not_a_day_without_records(folder: Path) -> None:
    (folder / FILE).mkdir(parents=True)
    with opened(folder) as ledger, pytest.raises(IsADirectoryError):
        list(ledger.today(NOON.date()))


def test_days_are_forgotten_at_the_start_and_when_a_day_begins(folder: Path) -> None:
    folder.mkdir()
    kept_days = 3
    for name in ("2026-11-27.jsonl", "2026-11-28.jsonl", "2026-11-29.jsonl", "notes.jsonl", "2026-11-01.txt"):
        (folder / name).touch()
    now = NOON

    def there() -> list[date]:
        assert (folder / "notes.jsonl").exists()
        assert (folder / "2026-11-01.txt").exists()
        return sorted(date.fromisoformat(path.stem) for path in folder.glob("2026*.jsonl"))

    with opened(folder, keep_days=kept_days, now=lambda: now) as ledger:
        assert there() == [date(2026, 11, 28), date(2026, 11, 29)]
        now += DAY
        put(ledger, entry(1, at=now))
        assert there() == [date(2026, 11, 29), date(2026, 12, 2)]
