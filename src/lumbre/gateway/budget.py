"""What may still be spent today: reserved before anything is sent, settled by what it cost. Pure; `runtime.purse` holds
the clock and reads the ledger back after a restart.

Money is whole micro-dollars. A day is UTC's. What was reserved and never settled counts as spent.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

MICRO = 1_000_000
ALL = "all"
"""The key of the limit for the tiers together."""


@dataclass(frozen=True)
class TokenPrice:
    """What an outside API takes, in micro-dollars for a million tokens."""

    prompt: int
    completion: int

    def of(self, prompt_tokens: int, completion_tokens: int) -> int:
        """The price of so many tokens, rounded up."""
        return math.ceil((prompt_tokens * self.prompt + completion_tokens * self.completion) / MICRO)


class Budget:
    """One day's money.

    Args:
        limits: by tier (`B`, `C`) and for `all` of them; a tier that is not named has no limit of its own.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = dict(limits)
        self._day = date.min
        self._spent: dict[str, int] = {}
        self._reserved: dict[str, tuple[str, int]] = {}

    def spent(self, tier: str = ALL) -> int:
        """What has been spent today."""
        return sum(self._spent.values()) if tier == ALL else self._spent.get(tier, 0)

    def reserved(self, tier: str = ALL) -> int:
        """What is reserved and not settled yet."""
        return sum(amount for owner, amount in self._reserved.values() if tier in (ALL, owner))

    def limit(self, tier: str = ALL) -> int | None:
        """What may be spent in a day; None for no limit."""
        return self._limits.get(tier)

    def begin(self, day: date) -> None:
        """A day begins: what was spent before it is forgotten, what is reserved goes on."""
        if day > self._day:
            self._day, self._spent = day, {}

    def left(self, tier: str) -> int | None:
        """What may still be reserved for a tier; None for no limit, below 0 where more was spent than allowed."""
        rests = [
            limit - self.spent(key) - self.reserved(key)
            for key in (ALL, tier)
            if (limit := self._limits.get(key)) is not None
        ]
        return min(rests, default=None)

    def unspent(self, tier: str) -> int | None:
        """What would be left if all that is reserved came back unspent; None for no limit."""
        rests = [limit - self.spent(key) for key in (ALL, tier) if (limit := self._limits.get(key)) is not None]
        return min(rests, default=None)

    def reserve(self, key: str, tier: str, amount: int) -> bool:
        """Reserve for something, in place of what was reserved for it before; False, and nothing changes, if not all
        of it is there.
        """
        before = self._reserved.get(key, (tier, 0))[1]
        left = self.left(tier)
        if left is not None and amount > before and amount - before > left:
            return False
        self._reserved[key] = (tier, amount)
        return True

    def settle(self, key: str, tier: str, cost: int, *, keep: int = 0) -> None:
        """It cost so much; what was reserved for it is free again.

        Args:
            keep: it goes on, and so much of it stays reserved.
        """
        self._reserved.pop(key, None)
        if keep:
            self._reserved[key] = (tier, keep)
        if cost:
            self._spent[tier] = self._spent.get(tier, 0) + cost

    def restore(self, tier: str, cost: int) -> None:
        """Something was spent before a restart."""
        self._spent[tier] = self._spent.get(tier, 0) + cost


class Meter:
    """What a machine by the hour costs while it works: its time counts once, however many requests share it.

    Args:
        microusd_per_hour: the machine's price.
    """

    def __init__(self, microusd_per_hour: int) -> None:
        self._price = microusd_per_hour
        self._running = 0
        self._counted_to = 0.0
        self._began_at = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it works for somebody."""
        return self._running > 0

    def price(self, seconds: float) -> int:
        """What so much of its time costs, rounded up."""
        return math.ceil(self._price * max(seconds, 0.0) / 3600)

    def owed(self, now: float, longest_s: float) -> int:
        """What has run up since a request ended last, and what another may add that takes so long."""
        return self.price((now - self._counted_to if self._running else 0.0) + longest_s)

    def rest(self, now: float, longest_s: float) -> int:
        """What those for whom it works may still add, if the last of them that began takes so long."""
        return self.price(self._began_at + longest_s - now) if self._running else 0

    def begin(self, now: float) -> None:
        """A request begins; `now` in monotonic seconds."""
        if self._running == 0:
            self._counted_to = now
        self._began_at = now
        self._running += 1

    def end(self, now: float) -> int:
        """A request ends; what the machine's time has cost since one ended last."""
        self._running -= 1
        cost = self.price(now - self._counted_to)
        self._counted_to = max(now, self._counted_to)
        return cost
