"""Times the decision over a mix of questions and houses, and what the ledger costs a request. Driven by `run`.

The decision is timed alone, as `POST /v1/flow/explain` and every unusual request make it; the gateway keeps the
decisions about the usual ones for as long as nothing changes. The collector of garbage runs as it comes.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns

from bench.gateway.figures import percentile

from lumbre.gateway.decision import decide
from lumbre.gateway.facts import Facts, Node, NodeState, Question
from lumbre.gateway.hints import Hints
from lumbre.ledger.records import Place, Tried, attempt
from lumbre.ledger.store import Ledger
from lumbre.runtime.records import Record, Records
from lumbre.wire.openai.story import Usage

NODE_COUNTS = (2, 8, 64)
LEDGER_RATE = 200
"""Requests a second for which records are written together."""

QUESTIONS: Mapping[str, Question] = {
    "policy: medium": Question("auto", Hints()),
    "policy: high": Question("auto", Hints(complexity="high")),
    "policy: high, background": Question("auto", Hints(complexity="high", klass="background")),
    "explicit tier": Question("tier-b", Hints()),
    "explicit label": Question("auto", Hints(label="express")),
    "explicit model": Question("model-of-c", Hints(), key="sha256:0"),
    "strict JSON": Question("auto", Hints(), strict_json=True),
    "affinity": Question("auto", Hints(affinity="A")),
    "refused: no such model": Question("no-such-model", Hints()),
    "refused: strict JSON on A": Question("tier-a", Hints(), strict_json=True),
}
OUTCOMES: Mapping[str, tuple[str, str | None]] = {
    "policy: medium": ("dispatch", "A"),
    "policy: high": ("dispatch", "B"),
    "policy: high, background": ("dispatch", "B"),
    "explicit tier": ("dispatch", "B"),
    "explicit label": ("dispatch", "B"),
    "explicit model": ("dispatch", "C"),
    "strict JSON": ("dispatch", "B"),
    "affinity": ("dispatch", "A"),
    "refused: no such model": ("reject", None),
    "refused: strict JSON on A": ("reject", None),
    "falls: a label's switch": ("dispatch", "A"),
    "falls: A is down": ("dispatch", "B"),
    "refused: all are down": ("reject", None),
    "refused: a closed switch": ("reject", None),
}
"""What is decided, and the tier that is asked first; whatever was timed must have decided so."""


class WrongDecision(Exception):
    """What was timed is not the decision that the mix is made for."""


@dataclass
class Times:
    """Nanoseconds a call, round by round."""

    rounds: list[list[int]] = field(default_factory=list)

    @property
    def p50_us(self) -> float:
        """Of the quietest round, which counts whole: whatever else the machine does only ever adds."""
        return statistics.median(self.quietest) / 1000

    @property
    def p99_us(self) -> float:
        """Of the same round."""
        return percentile(self.quietest, 0.99) / 1000

    @property
    def quietest(self) -> list[int]:
        return min(self.rounds, key=statistics.median)

    @property
    def spread(self) -> float:
        """How far the slowest round's median lies above the quietest's, as a share of that."""
        medians = [statistics.median(times) for times in self.rounds]
        return max(medians) / min(medians) - 1


Decided = dict[tuple[str, int], Times]
"""By the question's name and the number of nodes."""


def of_all(decided: Decided, count: int) -> list[float]:
    """Microseconds of every call for so many nodes, each question's quietest round."""
    return [ns / 1000 for (_, nodes), times in decided.items() if nodes == count for ns in times.quietest]


def house(count: int, *, a: NodeState = NodeState.READY, rest: NodeState = NodeState.READY) -> Facts:
    """A house of so many upstreams in A and as many in B, whose labels take turns; and C.

    Args:
        a: how A's are.
        rest: how the others are.
    """
    reason = "no answer to GET /models"
    labels = (("express",), ("batch",))
    return Facts(
        a=tuple(Node(f"a-{i}", a, reason, (), ("model-of-a",)) for i in range(count)),
        b=tuple(Node(f"b-{i}", rest, reason, labels[i % 2], ("model-of-b",)) for i in range(count)),
        c=(Node("tier-c", rest, reason, (), ("model-of-c",)),),
        c_has_key=True,
        c_direct=frozenset({"*"}),
    )


def mix(count: int) -> dict[str, tuple[Question, Facts]]:
    """Every question, with the house that it is asked of."""
    well = house(count)
    found = {name: (question, well) for name, question in QUESTIONS.items()}
    plain, high = Question("auto", Hints()), Question("auto", Hints(complexity="high"))
    closed = Facts(**{**vars(house(count)), "closed": frozenset({"express"})})
    found["falls: a label's switch"] = high, closed
    found["falls: A is down"] = plain, house(count, a=NodeState.DOWN)
    found["refused: all are down"] = plain, house(count, a=NodeState.DOWN, rest=NodeState.TRIPPED)
    found["refused: a closed switch"] = Question("auto", Hints(label="express")), closed
    return found


def decided(calls: int, rounds: int) -> Decided:
    """Time every decision so often in each round.

    Raises:
        WrongDecision: one is not what it is meant to be.
    """
    times: Decided = {}
    for _ in range(rounds):
        for count in NODE_COUNTS:
            for name, (question, facts) in mix(count).items():
                _check(name, question, facts)
                times.setdefault((name, count), Times()).rounds.append(_each(calls, question, facts))
    return times


def _check(name: str, question: Question, facts: Facts) -> None:
    decision = decide(question, facts)
    found = decision.outcome, decision.attempts[0].tier if decision.attempts else None
    if found != OUTCOMES[name]:
        raise WrongDecision(f"{name}: {found} and not {OUTCOMES[name]}")


def _each(calls: int, question: Question, facts: Facts) -> list[int]:
    times = []
    for _ in range(calls):
        began = perf_counter_ns()
        decide(question, facts)
        times.append(perf_counter_ns() - began)
    return times


@dataclass
class LedgerTimes:
    """What one request costs: its two records made and taken, and its share of a write.

    Attributes:
        write_us: of one write of what comes in a tenth of a second, by the requests in it.
    """

    taken: Times = field(default_factory=Times)
    write_us: list[float] = field(default_factory=list)

    @property
    def whole_us(self) -> float:
        """p50 of the one and the quietest of the other."""
        return self.taken.p50_us + min(self.write_us)


def recorded(requests: int, rounds: int) -> LedgerTimes:
    """Write so many requests into a ledger in each round, as they come at `LEDGER_RATE`."""
    times = LedgerTimes()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="lumbre-bench-") as folder:
            asyncio.run(_recorded(requests, Path(folder), times))
    return times


async def _recorded(requests: int, folder: Path, times: LedgerTimes) -> None:
    ledger = Ledger(folder / "ledger", flush_s=3600)  # written by hand, so that each part is timed alone
    records = Records([], ledger)
    together = LEDGER_RATE // 10
    reasons = decide(*mix(2)["policy: medium"]).reasons
    taken, writing_ns = [], 0
    for number in range(requests):
        decision = f"d-{number:024x}"
        began = perf_counter_ns()
        place = Place("A", None, "a-0", "model-of-a")
        ledger.add(attempt(decision, datetime.now(UTC), place, Tried(1, "ok", 200, 0.012345, 0)))
        records.write(_record(decision, reasons))
        taken.append(perf_counter_ns() - began)
        if number % together == together - 1:
            began = perf_counter_ns()
            ledger.flush()
            writing_ns += perf_counter_ns() - began
    ledger.close()
    times.taken.rounds.append(taken)
    times.write_us.append(writing_ns / requests / 1000)


def _record(decision: str, reasons: tuple[str, ...]) -> Record:
    record = Record(decision, "chat/completions", stream=False, began_at=0.0)
    record.tier, record.node, record.model, record.named = "A", "a-0", "model-of-a", "auto"
    record.status, record.outcome, record.attempts, record.reasons = 200, "ok", 1, reasons
    record.usage = Usage(24, 64, estimated=False)
    record.times = {"admitted": 0.000123, "header": 0.010123, "end": 0.012345}
    return record
