"""A purse whose clocks a test moves, and how it tells what was refused. Used by the tests."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from lumbre.core.errors import CapacityError
from lumbre.gateway.budget import TokenPrice
from lumbre.ledger.records import Entry
from lumbre.runtime import purse as module
from lumbre.runtime.purse import Purse

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
PRICE = TokenPrice(prompt=1_000_000, completion=2_000_000)
"""A micro-dollar for a token of prompt, two for one of an answer."""
HOUR_S = 3600.0


class Day:
    """A purse, its clocks, and how often it had news."""

    def __init__(
        self,
        limits: Mapping[str, int],
        *,
        hourly: Mapping[str, int] | None = None,
        price: TokenPrice = PRICE,
        longest_s: float = HOUR_S,
    ) -> None:
        self.at = NOON
        self.seconds = 0.0
        self.news = 0
        rates = {"gpu-1": 3600} if hourly is None else hourly
        self.written: list[Entry] = []
        self.fault: OSError | None = None
        self.purse = Purse(
            limits, rates, price, longest_s=longest_s, now=lambda: self.at, news=self.note, write=self.write
        )

    def write(self, entry: Entry) -> None:
        if self.fault is not None:
            raise self.fault
        self.written.append(entry)

    def note(self) -> None:
        self.news += 1

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds
        self.at += timedelta(seconds=seconds)

    def figures(self) -> tuple[int | None, ...]:
        """Limit, spent, reserved."""
        return tuple(self.purse.figures().values())


def refused(take: Callable[[], object]) -> CapacityError:
    with pytest.raises(CapacityError) as caught:
        take()
    error = caught.value
    assert (error.status, error.code) == (429, "over_budget")
    assert (error.retry_after_s or 0) >= 1
    return error


def with_clock(day: Day, live: Callable[[Day], None]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "time", SimpleNamespace(monotonic=lambda: day.seconds))
        live(day)
