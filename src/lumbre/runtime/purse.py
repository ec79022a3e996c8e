"""The day's money at run time: reserved before a request is sent to a tier that costs, settled when its cost is known.
Driver; the sums are `gateway.budget`'s, and what was spent before a restart is the ledger's to say.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any

from lumbre.core.errors import CapacityError
from lumbre.gateway.budget import ALL, MICRO, Budget, Meter, TokenPrice
from lumbre.ledger import records as entries
from lumbre.ledger.records import Entry
from lumbre.wire.openai.story import Usage

COUNTED = ("crossing", "hold", "attempt")
"""The kinds of record that say what was spent."""

_RETRY_SPENT_S = 3600
_RETRY_RESERVED_S = 5
_DAY_S = 86_400

_MOST_TOKENS = 10**9
"""Whoever claims that a request took more has not counted."""

_BUDGETS = {"B": "[tier_b] daily_budget_usd", ALL: "[flow] daily_budget_usd"}
"""Where the limits are set that a machine's time may meet."""


class Hold:
    """Money that is set aside for one attempt, until `settle`.

    Attributes:
        reserved: micro-dollars.
        idle: nobody is left for whom the machine works, now that this is settled; None before, and where no machine's
            time is paid.
    """

    def __init__(self, reserved: int, settle: Callable[[Usage | None, bool], int]) -> None:
        self.reserved = reserved
        self.idle: bool | None = None
        self._settle: Callable[[Usage | None, bool], int] | None = settle

    def settle(self, usage: Usage | None, *, free: bool = False) -> int:
        """The attempt is over; what it cost, in micro-dollars. Asked again it says 0.

        Args:
            usage: what the engine counted; if it never did, or counted what cannot be, all that was reserved counts
                as spent.
            free: it never came to be answered, so that no tokens are charged. A machine's time is, all the same.
        """
        settle, self._settle = self._settle, None
        return 0 if settle is None else settle(usage, free)


class Purse:
    """What may be spent, and on what.

    Args:
        limits: micro-dollars a day, by tier and for `all`.
        hourly: by node, micro-dollars an hour.
        price: of tier C.
        longest_s: how long a request may take.
        now: an aware moment in UTC.
        news: called when a tier comes to its end, or has money again.
        write: puts a record into the ledger at once, or raises OSError.

    Attributes:
        warnings: which nodes can never run, and the way out. A budget of 0 is meant so, and no reason for one.
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
        write: Callable[[Entry], None],
    ) -> None:
        self._budget = Budget(limits)
        self._meters = {node: Meter(rate) for node, rate in hourly.items() if rate}
        self._has_free_nodes = len(self._meters) < len(hourly)
        self._price = price
        self._longest_s = longest_s
        self._now = now
        self._news = news
        self._write = write
        self._over: frozenset[str] = frozenset()
        self._by_node: dict[str, int] = {}
        self._day = self._today()
        self._problem: str | None = None
        self.warnings = [warning for node in self._meters if (warning := self._warning(node)) is not None]

    @property
    def over(self) -> frozenset[str]:
        """The tiers, of B and C, that what is not spent yet is too little for. Money that is only reserved may come
        back: it stops one request, and no tier.
        """
        return self._over

    def why_over(self, tier: str) -> str:
        """Why a tier of those is over."""
        if self._problem is not None:
            return self._problem
        unspent = self._budget.unspent(tier) or 0
        if tier == "C" or unspent <= 0:
            return "it is spent"
        least = min(map(self._longest_price, self._meters))
        return f"{_usd(unspent)} is not spent, and a request may cost {_usd(least)} on the cheapest node"

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

    def restore(self, records: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]] = ()) -> None:
        """Take up what the ledger says was spent today. A crossing that nobody settled counts whole, and so does the
        hold of a machine that nobody saw idle again: others may have joined in, of whom there is no record yet.

        Args:
            records: today's of the `COUNTED` kinds, oldest first; others are passed over.
            before: those of the end of yesterday, as far back as a request may take: what they leave open counts.
        """
        self._budget.begin(self._today())
        is_open = _Open({node: self._longest_price(node) for node in self._meters})
        for record in before:
            is_open.see(record)
        is_open.lost.clear()  # that was yesterday's
        for record in records:
            is_open.see(record)
            if record.get("kind") == "attempt" and record.get("tier") in ("B", "C"):
                self._take_up(record["tier"], str(record.get("node")), _amount(record.get("cost_microusd")))
        for tier, node, amount in is_open.rest():
            self._take_up(tier, node, amount)
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

        def settle(usage: Usage | None, free: bool) -> int:
            cost = amount
            if free:
                cost = 0
            elif usage is not None and _is_bill(usage):
                cost = self._price.of(usage.prompt, usage.completion)
            self._settled(key, "C", cost)
            return cost

        return Hold(amount, settle)

    def for_time(self, node: str, decision: str) -> Hold:
        """Set aside what a machine's time may cost until a request that begins now has to be over. That a machine
        begins to work is written down before.

        Raises:
            CapacityError: 429 `over_budget`; or it cannot be written down.
        """
        meter = self._meters.get(node)
        if meter is None:
            return Hold(0, lambda _usage, _free: 0)
        key = f"node:{node}"
        now = time.monotonic()
        amount = meter.owed(now, self._longest_s)
        self._reserve(key, "B", amount)
        if not meter.is_running:
            self._begin(node, key, decision, amount)
        meter.begin(now)

        def settle(_usage: Usage | None, _free: bool) -> int:
            now = time.monotonic()
            cost = meter.end(now)
            hold.idle = not meter.is_running
            self._by_node[node] = self._by_node.get(node, 0) + cost
            self._settled(key, "B", cost, keep=meter.rest(now, self._longest_s))
            return cost

        hold = Hold(amount, settle)
        return hold

    def spent_on(self, node: str) -> int:
        """What a burst node's time has cost today, in micro-dollars."""
        return self._by_node.get(node, 0)

    def look(self) -> None:
        """See whether a tier has come to its end, or a new day has begun."""
        self._budget.begin(self._today())
        if self._day != self._today():
            self._day, self._by_node = self._today(), {}
        over = frozenset(tier for tier in ("B", "C") if self._is_over(tier))
        if over != self._over:
            self._over = over
            self._news()

    def _is_over(self, tier: str) -> bool:
        if not self._costs(tier):
            return False
        unspent = self._budget.unspent(tier)
        least = 1 if tier == "C" else min(map(self._longest_price, self._meters))
        return self._problem is not None or (unspent is not None and unspent < least)

    def _costs(self, tier: str) -> bool:
        """Whether nothing of it is to be had without money."""
        if tier == "B":
            return bool(self._meters) and not self._has_free_nodes
        return self._price != TokenPrice(0, 0)

    def _longest_price(self, node: str) -> int:
        return self._meters[node].price(self._longest_s)

    def _warning(self, node: str) -> str | None:
        price = self._longest_price(node)
        for key, name in _BUDGETS.items():
            limit = self._budget.limit(key)
            if limit and price > limit:
                return (
                    f"{node} never runs: a request may take {self._longest_s:g} s ([deadlines] total_s), which costs "
                    f"{_usd(price)} there, and {name} is {_usd(limit)}. Raise it, or lower total_s or the node's "
                    "usd_per_hour"
                )
        return None

    def _begin(self, node: str, key: str, decision: str, amount: int) -> None:
        try:
            self._write(entries.hold(decision, self._now(), node, amount))
        except OSError as error:
            self._settled(key, "B", 0)
            why = error.strerror or "unknown error"
            message = f"no machine works for money that cannot be written down: the ledger: {why}"
            raise CapacityError(message) from error

    def _take_up(self, tier: str, node: str, amount: int) -> None:
        self._budget.restore(tier, amount)
        self._by_node[node] = self._by_node.get(node, 0) + amount

    def _reserve(self, key: str, tier: str, amount: int) -> None:
        self.look()
        if self._problem is not None and amount:
            raise _over_budget(f"it is not known what was spent today: {self._problem}", _RETRY_SPENT_S)
        if not self._budget.reserve(key, tier, amount):
            raise self._too_little(tier, amount)
        self.look()

    def _too_little(self, tier: str, amount: int) -> CapacityError:
        left, unspent = (max(rest or 0, 0) for rest in (self._budget.left(tier), self._budget.unspent(tier)))
        message = f"tier {tier} may cost up to {_usd(amount)} for this, and today's budget has {_usd(left)} left"
        retry_s = min(_RETRY_SPENT_S, self._rest_of_day_s())
        if unspent >= amount:
            message += f" beside {_usd(unspent - left)} that is reserved by requests on their way"
            retry_s = _RETRY_RESERVED_S
        return _over_budget(f"{message}; see [flow] daily_budget_usd", retry_s)

    def _settled(self, key: str, tier: str, cost: int, *, keep: int = 0) -> None:
        self._budget.settle(key, tier, cost, keep=keep)
        self.look()

    def _today(self) -> date:
        return self._now().date()

    def _rest_of_day_s(self) -> int:
        now = self._now()
        return _DAY_S - (now.hour * 60 + now.minute) * 60 - now.second


class _Open:
    """What was set aside and is not settled, as the ledger tells it.

    Args:
        longest: by node, what is set aside for it when it begins to work, in micro-dollars.

    Attributes:
        lost: tier, node and micro-dollars of what nobody will settle any more.
    """

    def __init__(self, longest: Mapping[str, int]) -> None:
        self._longest = longest
        self._crossings: dict[str, int] = {}
        self._holds: dict[str, int] = {}
        self.lost: list[tuple[str, str, int]] = []

    def see(self, record: Mapping[str, Any]) -> None:
        """Take the next record; what is none of the `COUNTED` is passed over."""
        decision, node = str(record.get("decision")), str(record.get("node"))
        match record.get("kind"), record.get("tier"):
            case "crossing", "C":
                self.lost.append(("C", node, self._crossings.pop(decision, 0)))
                self._crossings[decision] = _amount(record.get("reserved_microusd"))
            case "attempt", "C":
                self._crossings.pop(decision, None)
            case "hold", "B":
                # Only an idle machine gets a new one: where one is open, whoever was to end it was killed.
                self.lost.append(("B", node, self._holds.pop(node, 0)))
                self._holds[node] = _amount(record.get("reserved_microusd"))
            case "attempt", "B" if record.get("idle") is True:
                self._holds.pop(node, None)
            case "attempt", "B" if record.get("idle") is False and node in self._longest:
                self._holds.setdefault(node, self._longest[node])  # it works since before the first record

    def rest(self) -> list[tuple[str, str, int]]:
        """Tier, node and micro-dollars of all that is lost or open."""
        crossings = [("C", "", amount) for amount in self._crossings.values()]
        return [*self.lost, *crossings, *(("B", node, amount) for node, amount in self._holds.items())]


def _is_bill(usage: Usage) -> bool:
    """Whether an engine has counted; pieces that were counted by the way are a lower bound, and no bill."""
    counted = 0 < usage.prompt <= _MOST_TOKENS and 0 < usage.completion <= _MOST_TOKENS
    return counted and not usage.estimated


def _over_budget(message: str, retry_after_s: int) -> CapacityError:
    return CapacityError(message, status=429, code="over_budget", retry_after_s=retry_after_s)


def _usd(microusd: int) -> str:
    return f"{microusd / MICRO:.4f} USD"


def _amount(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
