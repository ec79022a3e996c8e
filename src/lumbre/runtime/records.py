"""What is kept of every request: metrics for Prometheus and a record in the ledger. Driver; sizes and counts only,
never text.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import orjson

from lumbre.core.errors import LumbreError
from lumbre.ledger.records import Asked, Ended, Entry, Place, request
from lumbre.ledger.store import Ledger
from lumbre.runtime.metrics import Counter, Exposition, Gauge, Histogram
from lumbre.runtime.tier import Tier
from lumbre.wire.openai.story import Usage

log = logging.getLogger("lumbre.requests")

_MICRO = 1_000_000
NOTHING = Usage(0, 0, estimated=True)
"""Before an engine has said something."""


@dataclass(slots=True)
class Record:
    """One request, filled in as it goes.

    Attributes:
        model: as the one who answered calls it.
        reasons: the decision's steps; never anybody's text.
        attempts: how often it was dispatched.
        cost_microusd: of all attempts.
        told_node: the node that the reply's head has named.
        refused: the upstream has answered, and with a refusal.
        spoken: the client has had something of the answer, so nobody else can be asked any more.
        named: what was asked for: a tier's word, a model that is served, or the alias; never the caller's own words.
        param: the field that was at fault.
        outcome: `ok`, `client_gone`, `cut_off` (the drain limit), or the code of the error that ended it.
        finished: the engine said that it finished; a client that goes away after that has missed nothing.
        times: seconds since arrival: `admitted`, `header`, `token`, `end`.
    """

    decision: str
    endpoint: str
    stream: bool
    began_at: float
    model: str = ""
    tier: str = ""
    label: str | None = None
    node: str = ""
    status: int = 0
    outcome: str = ""
    reasons: Sequence[str] = ()
    attempts: int = 0
    cost_microusd: int = 0
    told_node: str = ""
    named: str = ""
    spoken: bool = False
    refused: bool = False
    param: str | None = None
    finished: bool = False
    usage: Usage = NOTHING
    times: dict[str, float] = field(default_factory=dict)

    def mark(self, what: str, now: float) -> None:
        """Note when something happened, the first time it does."""
        if what not in self.times:
            self.times[what] = int((now - self.began_at) * _MICRO) / _MICRO  # `round` costs three times as much


class Records:
    """The gateway's counters, and the ledger of its requests.

    Args:
        tiers: whose lanes are counted; each once.
        ledger: where the records go.
    """

    def __init__(self, tiers: Sequence[Tier], ledger: Ledger) -> None:
        self._ledger = ledger
        self._requests = Counter(
            "lumbre_requests", "Requests by how they ended.", ["endpoint", "node", "status", "outcome"]
        )
        self._tokens = Counter(
            "lumbre_tokens", "Tokens; estimated when the engine never said.", ["node", "kind", "estimated"]
        )
        self._first_token = Histogram("lumbre_first_token_seconds", "Arrival to first token.", ["node"])
        self._duration = Histogram("lumbre_request_seconds", "Arrival to end.", ["node"])
        in_flight = Gauge("lumbre_in_flight", "Requests that run now.", ["node"], partial(_in_flight, tiers))
        waiting = Gauge("lumbre_waiting", "Requests in line.", [], partial(_waiting, tiers))
        self._exposition = Exposition(
            [self._requests, self._tokens, self._first_token, self._duration, in_flight, waiting]
        )

    def write(self, record: Record) -> None:
        """The request has ended; one that nobody gave an outcome met a fault of ours."""
        if not record.outcome:
            record.outcome, record.status = "internal", record.status or 500
        node = record.node
        self._requests.values[record.endpoint, node, str(record.status), record.outcome] += 1
        if node:
            usage = record.usage
            estimated = "true" if usage.estimated else "false"
            self._tokens.values[node, "prompt", estimated] += usage.prompt
            self._tokens.values[node, "completion", estimated] += usage.completion
            self._duration.observe((node,), record.times.get("end", 0.0))
            if "token" in record.times:
                self._first_token.observe((node,), record.times["token"])
        entry = _entry(record)
        self._ledger.add(entry)
        if log.isEnabledFor(logging.INFO):
            log.info("%s", orjson.dumps(entry).decode())

    def turned_away(self, decision: str, endpoint: str, error: LumbreError) -> None:
        """A request that the door did not let through."""
        record = Record(decision, endpoint, stream=False, began_at=0.0)
        record.status, record.outcome, record.param = error.status, error.code, error.param
        self.write(record)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return self._exposition.text()


def _in_flight(tiers: Sequence[Tier]) -> list[tuple[tuple[str, ...], float]]:
    """By node: the embedded engine's two processes are one node."""
    nodes = dict.fromkeys(name for tier in tiers for name in tier.lanes)
    return [((node,), sum(tier.in_flight(tier.lanes[node]) for tier in tiers if node in tier.lanes)) for node in nodes]


def _waiting(tiers: Sequence[Tier]) -> list[tuple[tuple[str, ...], float]]:
    return [((), sum(tier.waiting for tier in tiers))]


def _entry(record: Record) -> Entry:
    place = Place(record.tier or None, record.label, record.node or None, record.model or None)
    ended = Ended(
        record.status,
        record.outcome,
        record.attempts,
        record.usage,
        record.param,
        record.cost_microusd,
        record.times,
    )
    asked = Asked(record.endpoint, record.stream, record.named or None)
    return request(record.decision, datetime.now(UTC), place, asked, ended, record.reasons)
