"""What is kept of every request: metrics for Prometheus and one log line. Driver; sizes and counts only, never text."""

import logging
from dataclasses import dataclass, field
from functools import partial

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lumbre.core.errors import LumbreError
from lumbre.runtime.lanes import Lane
from lumbre.runtime.tier import Tier
from lumbre.wire.openai.story import Usage

log = logging.getLogger("lumbre.requests")

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


@dataclass
class Record:
    """One request, filled in as it goes.

    Attributes:
        reason: the decision's; never anybody's text.
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
    node: str = ""
    status: int = 0
    outcome: str = ""
    reason: str = ""
    param: str | None = None
    finished: bool = False
    usage: Usage = field(default_factory=lambda: Usage(0, 0, estimated=True))
    times: dict[str, float] = field(default_factory=dict)

    def mark(self, what: str, now: float) -> None:
        """Note when something happened, the first time it does."""
        self.times.setdefault(what, now - self.began_at)


class Records:
    """The gateway's counters and its request log."""

    def __init__(self, tier: Tier) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "lumbre_requests",
            "Requests by how they ended.",
            ["endpoint", "node", "status", "outcome"],
            registry=self._registry,
        )
        self._tokens = Counter(
            "lumbre_tokens",
            "Tokens; estimated when the engine never said.",
            ["node", "kind", "estimated"],
            registry=self._registry,
        )
        self._first_token = Histogram(
            "lumbre_first_token_seconds",
            "Arrival to first token.",
            ["node"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._duration = Histogram(
            "lumbre_request_seconds", "Arrival to end.", ["node"], buckets=_SECONDS, registry=self._registry
        )
        self._in_flight = Gauge("lumbre_in_flight", "Requests that run now.", ["node"], registry=self._registry)
        for lane in tier.lanes.values():
            self._in_flight.labels(lane.id).set_function(partial(_running, tier, lane))
        waiting = Gauge("lumbre_waiting", "Requests in line.", registry=self._registry)
        waiting.set_function(lambda: float(tier.waiting))

    def write(self, record: Record) -> None:
        """The request has ended; one that nobody gave an outcome met a fault of ours."""
        if not record.outcome:
            record.outcome, record.status = "internal", record.status or 500
        self._requests.labels(record.endpoint, record.node, str(record.status), record.outcome).inc()
        if record.node:
            estimated = str(record.usage.estimated).lower()
            self._tokens.labels(record.node, "prompt", estimated).inc(record.usage.prompt)
            self._tokens.labels(record.node, "completion", estimated).inc(record.usage.completion)
            self._duration.labels(record.node).observe(record.times.get("end", 0.0))
            if "token" in record.times:
                self._first_token.labels(record.node).observe(record.times["token"])
        if log.isEnabledFor(logging.INFO):
            log.info("%s", _line(record))

    def turned_away(self, decision: str, endpoint: str, error: LumbreError) -> None:
        """A request that the door did not let through."""
        record = Record(decision, endpoint, stream=False, began_at=0.0)
        record.status, record.outcome, record.param = error.status, error.code, error.param
        self.write(record)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def _running(tier: Tier, lane: Lane) -> float:
    return float(tier.in_flight(lane))


def _line(record: Record) -> str:
    story = {
        "decision": record.decision,
        "endpoint": record.endpoint,
        "stream": record.stream,
        "model": record.model,
        "node": record.node,
        "status": record.status,
        "outcome": record.outcome,
        "reason": record.reason,
        "param": record.param,
        "prompt_tokens": record.usage.prompt,
        "completion_tokens": record.usage.completion,
        "tokens_estimated": record.usage.estimated,
        "seconds": {name: round(value, 4) for name, value in record.times.items()},
    }
    return orjson.dumps(story).decode()
