"""The day's money at run time: reserved before a request is sent to a tier that costs, settled when its cost is known.
Driver; the sums are `gateway.budget`'s, and what was spent before a restart is the ledger's to say.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any

from lumbre.core.errors import CapacityError
from lumbre.gateway.budget import ALL, Budget, Meter, TokenPrice
from lumbre.wire.openai.story import Usage

_RETRY_S = 3600


class Hold:
    """Money that is set aside for one attempt, until `settle`."""

    def __init__(self, reserved: int, settle: Callable[[Usage | None], int]) -> None:
        self.reserved = reserved
        self._settle: Callable[[Usage | None], int] | None = settle

    def settle(self, usage: Usage | None) -> int:
        """The attempt is over; what it cost, in micro-dollars. Asked again it says 0.

        Args:
            usage: what the engine counted; None if it never said, and then all that was reserved counts as spent.
        """
        settle, self._settle = self._settle, None
        return 0 if settle is None else settle(usage)


class Purse:
    """What may be spent, and on what.

    Args:
        limits: micro-dollars a day, by tier and for `all`.
        hourly: by node, micro-dollars an hour.
        price: of tier C.
        longest_s: how long a request may take.
        now: an aware moment in UTC.
        news: called when a tier comes to its end, or has money again.
    """

    def __init__(
        self,
        limits: Mapping[str, int],
        hourly: Mapping[str, int],
        price: TokenPrice,
        *,
        longest_s: float,
        now: Callable[[], datetime],
        news: Callable[[], None],
    ) -> None:
        self._budget = Budget(limits)
        self._meters = {node: Meter(rate) for node, rate in hourly.items() if rate}
        self._price = price
        self._longest_s = longest_s
        self._now = now
        self._news = news
        self._over: frozenset[str] = frozenset()
        self._by_node: dict[str, int] = {}
        self._day = self._today()
        self._problem: str | None = None

    @property
    def over(self) -> frozenset[str]:
        """The tiers, of B and C, that have nothing left."""
        return self._over

    @property
    def problem(self) -> str | None:
        """Why it is not known what was spent today, so that nothing is."""
        return self._problem

    def figures(self) -> dict[str, int | None]:
        """Limit, spent and reserved of the day, in micro-dollars."""
        self.look()
        budget = self._budget
        return {
            "limit_microusd": budget.limit(ALL),
            "spent_microusd": budget.spent(),
            "reserved_microusd": budget.reserved(),
        }

    def restore(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Take up what the ledger says was spent today; a crossing that nobody settled counts whole."""
        self._budget.begin(self._today())
        open_crossings: dict[str, tuple[str, int]] = {}
        for record in records:
            decision, tier = str(record.get("decision")), record.get("tier")
            if tier not in ("B", "C"):
                continue
            if record.get("kind") == "crossing":
                open_crossings[decision] = (tier, _amount(record.get("reserved_microusd")))
            elif record.get("kind") == "attempt":
                open_crossings.pop(decision, None)
                cost, node = _amount(record.get("cost_microusd")), str(record.get("node"))
                self._budget.restore(tier, cost)
                self._by_node[node] = self._by_node.get(node, 0) + cost
        for tier, amount in open_crossings.values():
            self._budget.restore(tier, amount)
        self.look()

    def fail_closed(self, problem: str) -> None:
        """What was spent cannot be known: nothing more is, until the next start."""
        self._problem = problem
        self.look()

    def for_tokens(self, key: str, prompt_tokens: int, completion_tokens: int) -> Hold:
        """Set aside what a request to tier C may cost.

        Args:
            key: of the attempt, not seen before.
            prompt_tokens: at most.
            completion_tokens: at most.

        Raises:
            CapacityError: 429 `over_budget`.
        """
        amount = self._price.of(prompt_tokens, completion_tokens)
        self._reserve(key, "C", amount)

        def settle(usage: Usage | None) -> int:
            # Pieces that were counted by the way are a lower bound, and no bill.
            sure = usage is not None and not usage.estimated
            cost = self._price.of(usage.prompt, usage.completion) if usage is not None and sure else amount
            self._settled(key, "C", cost)
            return cost

        return Hold(amount, settle)

    def for_time(self, node: str) -> Hold:
        """Set aside what a machine's time may cost until a request that begins now has to be over.

        Raises:
            CapacityError: 429 `over_budget`.
        """
        meter = self._meters.get(node)
        if meter is None:
            return Hold(0, lambda _usage: 0)
        key = f"node:{node}"
        now = time.monotonic()
        amount = meter.owed(now, self._longest_s)
        self._reserve(key, "B", amount)
        meter.begin(now)

        def settle(_usage: Usage | None) -> int:
            cost = meter.end(time.monotonic())
            self._by_node[node] = self._by_node.get(node, 0) + cost
            self._settled(key, "B", cost, keep=meter.is_running)
            return cost

        return Hold(amount, settle)

    def spent_on(self, node: str) -> int:
        """What a burst node's time has cost today, in micro-dollars."""
        return self._by_node.get(node, 0)

    def look(self) -> None:
        """See whether a tier has come to its end, or a new day has begun."""
        self._budget.begin(self._today())
        if self._day != self._today():
            self._day, self._by_node = self._today(), {}
        over = frozenset(tier for tier in ("B", "C") if self._has_nothing(tier))
        if over != self._over:
            self._over = over
            self._news()

    def _has_nothing(self, tier: str) -> bool:
        left = self._budget.left(tier)
        return self._costs(tier) and (self._problem is not None or (left is not None and left <= 0))

    def _costs(self, tier: str) -> bool:
        return bool(self._meters) if tier == "B" else self._price != TokenPrice(0, 0)

    def _reserve(self, key: str, tier: str, amount: int) -> None:
        self.look()
        if self._problem is not None and amount:
            raise _over_budget(f"it is not known what was spent today: {self._problem}")
        if not self._budget.reserve(key, tier, amount):
            left = max(self._budget.left(tier) or 0, 0)
            message = f"tier {tier} may cost up to {_usd(amount)} for this, and today's budget has {_usd(left)} left"
            raise _over_budget(f"{message}; see [flow] daily_budget_usd")
        self.look()

    def _settled(self, key: str, tier: str, cost: int, *, keep: bool = False) -> None:
        self._budget.settle(key, tier, cost, keep=keep)
        self.look()

    def _today(self) -> date:
        return self._now().date()


def _over_budget(message: str) -> CapacityError:
    return CapacityError(message, status=429, code="over_budget", retry_after_s=_RETRY_S)


def _usd(microusd: int) -> str:
    return f"{microusd / 1_000_000:.4f} USD"


def _amount(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
