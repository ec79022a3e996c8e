"""The tiers together, as the decision sees them: who is there, what is closed, what may be spent. Driver; it gathers
facts and hands out what is asked before every sending, and decides nothing.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from lumbre.core.errors import SwitchClosed
from lumbre.gateway.decision import Attempt
from lumbre.gateway.facts import Facts, NodeState
from lumbre.gateway.switches import GLOBAL, covering
from lumbre.runtime.board import Board
from lumbre.runtime.lanes import Lane, state_of
from lumbre.runtime.purse import Purse
from lumbre.runtime.tier import Checks, Tier


@dataclass(frozen=True)
class Rules:
    """What the settings say of the decision.

    Attributes:
        on_closed: what a closed switch does to a request that does not say.
        c_direct: see `Facts`.
        c_has_key: a key for tier C is there.
        only_a: no policy and no switch of another tier concerns this house.
    """

    a_does_strict_json: bool
    on_closed: str
    c_direct: frozenset[str]
    c_has_key: bool
    only_a: bool = False


class House:
    """The tiers.

    Args:
        b, c: None where the settings name none.

    Attributes:
        a, b, c: the tiers.
    """

    def __init__(self, a: Tier, b: Tier | None, c: Tier | None, *, board: Board, purse: Purse, rules: Rules) -> None:
        self.a, self.b, self.c = a, b, c
        self.board = board
        self.purse = purse
        self._rules = rules
        self._facts: Facts | None = None
        self._checks: dict[tuple[str, str | None], _Checks] = {}
        self._tiers = {tier.name: tier for tier in (a, b, c) if tier is not None}
        if not rules.only_a:
            a.is_alone = len(self._tiers) == 1
        self._stopped = self._now_stopped()

    @property
    def tiers(self) -> Sequence[Tier]:
        """Those that there are."""
        return list(self._tiers.values())

    def tier(self, name: str) -> Tier:
        """One of them.

        Raises:
            KeyError: there is none of this name.
        """
        return self._tiers[name]

    def facts(self) -> Facts:
        """What the decision has to know; the same object for as long as nothing changes."""
        if self.purse.over:
            self.purse.look()  # a new day may have begun
        if self._facts is None:
            rules, closed = self._rules, self.board.closed
            self._facts = Facts(
                a=self.a.nodes(),
                b=() if self.b is None else self.b.nodes(),
                c=() if self.c is None else self.c.nodes(),
                a_does_strict_json=rules.a_does_strict_json,
                a_is_complete=all(tier.is_complete for tier in self.tiers),
                policy="local-only" if rules.only_a else self.board.policy.name,
                closed=closed & {"A"} if rules.only_a else closed,
                on_closed=rules.on_closed,
                c_has_key=rules.c_has_key,
                c_direct=rules.c_direct,
                over_budget=self.purse.over,
            )
        return self._facts

    def why_not(self, name: str) -> list[str]:
        """What keeps all work from a tier, whatever its upstreams say."""
        facts = self.facts()
        closed = [self.board.switch(switch) for switch in covering(name) if switch in facts.closed]
        reasons = [f"the switch {each.name} is closed (stopped): {each.reason or 'no reason given'}" for each in closed]
        if not self.has_key(name):
            reasons.append("it has no key")
        if name in facts.over_budget:
            reasons.append(f"today's budget leaves nothing: {self.purse.why_over(name)}")
        return reasons

    def is_closed(self, name: str) -> bool:
        """Whether a switch stops a whole tier."""
        return not self.board.closed.isdisjoint(covering(name))

    def has_key(self, name: str) -> bool:
        """Whether a tier has the key that it needs."""
        return name != "C" or self.c is None or self._rules.c_has_key

    def touch(self) -> None:
        """Something is not as it was."""
        self._facts = None

    def moved(self) -> None:
        """A switch, or the policy, is not as it was."""
        self.touch()
        for tier in self.tiers:
            tier.recheck()
        stopped = self._now_stopped()
        for tier in self.tiers:
            for lane in tier.lanes.values():
                if lane.id in self._stopped - stopped:
                    _reopened(tier, lane)
        self._stopped = stopped

    def is_stopped(self, lane: Lane) -> bool:
        """Whether a switch stops everything to one upstream, its probes too."""
        return lane.id in self._stopped

    def _now_stopped(self) -> frozenset[str]:
        return frozenset(lane.id for tier in self.tiers for lane in tier.lanes.values() if _is_stopped(lane))

    def checks(self, attempt: Attempt) -> Checks:
        """What is asked before anything of an attempt is sent to a lane."""
        key = (attempt.tier, attempt.label)
        checks = self._checks.get(key)
        if checks is None:
            checks = self._checks[key] = _Checks(self.board, *key)
        return checks

    def soonest_s(self, nodes: Collection[str], now: float) -> int | None:
        """Whole seconds until the first of some upstreams may be asked again; None: none of them is left alone.

        Args:
            now: a moment on the loop's clock.
        """
        lanes = [lane for tier in self.tiers for lane in tier.lanes.values() if lane.id in nodes]
        rests = [lane.rests_until - now for lane in lanes if state_of(lane) is NodeState.COOLING]
        trips = [lane.breaker.until - now for lane in lanes if state_of(lane) is NodeState.TRIPPED]
        return max(1, -int(-min(rests + trips) // 1)) if rests + trips else None


class _Checks:
    """What is asked before work for one tier and label is sent, by lane; made once for each."""

    def __init__(self, board: Board, tier: str, label: str | None) -> None:
        self._board = board
        self._place = (tier, label)
        self._known: dict[str, Callable[[], None]] = {}

    def __call__(self, lane: Lane) -> Callable[[], None]:
        check = self._known.get(lane.id)
        if check is None:
            names = covering(*self._place, lane.id, lane.labels)
            check = self._known[lane.id] = partial(self._board.check, names)
        return check


def check_of(board: Board, tier: str) -> Callable[[], None]:
    """What is asked before an upstream of tier A or C is asked about itself."""
    return partial(board.check, covering(tier))


def check_of_node(board: Board, node: str, labels: Sequence[str]) -> Callable[[], None]:
    """The same for a burst node: one with two labels is covered when both are closed."""
    always = (GLOBAL, "B", node)

    def check() -> None:
        board.check(always)
        if board.closed.issuperset(labels):
            board.check(tuple(labels))

    return check


def _is_stopped(lane: Lane) -> bool:
    try:
        lane.check()
    except SwitchClosed:
        return True
    return False


def _reopened(tier: Tier, lane: Lane) -> None:
    """Nobody has looked at an upstream for a while, and whatever it asked for then is over."""
    tier.breakers.wake(lane)
    if lane.address is None:
        lane.settled = False  # so that a request waits for its first word
        tier.changed(lane)
    tier.suspect(lane)
