"""What the rogue saw and sent, request by request, and who waits to hear of it. Driven by `rogue.server`.

Times are readings of the monotonic clock in seconds, which every process of one machine shares on Linux.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lumbre.backends.fakes.rogue.wire import Request

KEPT_BYTES = 4_000_000


@dataclass
class Record:
    """One request and what became of it."""

    number: int
    id: str
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    started_s: float
    connection: int
    """Which of the connections it came on, counted from 1."""
    sent_bytes: int = 0
    held: int = 0
    """Times it has come to a hold."""
    gone_s: float | None = None
    """When the client's side was closed while the rogue was still at it."""
    ended_s: float | None = None
    sent: bytearray = field(default_factory=bytearray, repr=False)
    """The reply's body without its framing, up to `KEPT_BYTES`."""

    def as_json(self) -> dict[str, Any]:
        shown = {name: value for name, value in vars(self).items() if name not in {"sent", "body"}}
        return {**shown, "body": self.body.decode("utf-8", "replace")}


class Book:
    """Every record; `until` waits for something in it to become true."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.models_asked = 0
        self.most = 0
        self.released: Counter[str] = Counter()
        self._seen = 0
        self._changed = asyncio.Event()

    @property
    def running(self) -> int:
        return sum(record.ended_s is None for record in self.records)

    @property
    def seen(self) -> int:
        """Generation requests since the last `forget`."""
        return self._seen

    def find(self, exchange_id: str) -> Record | None:
        return next((record for record in self.records if record.id == exchange_id), None)

    def open(self, exchange_id: str, request: Request, connection: int) -> Record:
        self._seen += 1
        name = exchange_id or f"n{self._seen}"
        record = Record(
            self._seen, name, request.method, request.path, request.headers, request.body, time.monotonic(), connection
        )
        self.records.append(record)
        self.most = max(self.most, self.running)
        self.change()
        return record

    def forget(self) -> None:
        """Drop what has ended; what runs stays, and keeps counting."""
        self.records = [record for record in self.records if record.ended_s is None]
        self.most = self.running
        self._seen = len(self.records)
        self.models_asked = 0
        self.released.clear()
        self.change()

    def sent(self, record: Record, data: bytes) -> None:
        record.sent_bytes += len(data)
        if len(record.sent) + len(data) <= KEPT_BYTES:
            record.sent += data
        self.change()

    def change(self) -> None:
        """Wake everybody who waits, so that each looks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, is_true: Callable[[], bool], deadline_s: float) -> bool:
        """Wait until `is_true()`; False when `deadline_s` passed first."""
        try:
            async with asyncio.timeout(deadline_s):
                while not is_true():
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def as_json(self) -> dict[str, Any]:
        return {
            "running": self.running,
            "most": self.most,
            "seen": self.seen,
            "models_asked": self.models_asked,
            "requests": [record.as_json() for record in self.records],
        }
