"""Decides what is measured and how a figure is kept: the cases, their samples, the best of them. Pure; `rounds` fills
them in, `report` reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TARGETS = ("direct", "nginx", "lumbre")
STREAM_CHUNKS = 20
MEMORY_REQUESTS = 100_000
"""How many requests a gateway has answered when its memory is looked at."""


@dataclass(frozen=True)
class Case:
    """One kind of load: plain JSON replies or streams, on so many connections."""

    stream: bool
    connections: int

    @property
    def name(self) -> str:
        what = f"streams of {STREAM_CHUNKS}" if self.stream else "JSON"
        return f"{what}, {self.connections} connection{'s' if self.connections > 1 else ''}"


JSON_1, JSON_16, JSON_64 = Case(False, 1), Case(False, 16), Case(False, 64)
STREAM_1, STREAM_16, STREAM_64 = Case(True, 1), Case(True, 16), Case(True, 64)
CASES = (JSON_1, JSON_16, JSON_64, STREAM_1, STREAM_16, STREAM_64)


@dataclass(frozen=True)
class Sample:
    """One run of wrk.

    Attributes:
        cpu_ms: processor time of the gateway for each request, user and system; None where there is no gateway.
    """

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float | None

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True)
class Memory:
    """Resident memory of a gateway: when it was up, after `requests` of them, and after `further` more."""

    at_start_mb: float
    requests: int
    after_mb: float
    further: int
    later_mb: float

    @property
    def grown_mb(self) -> float:
        return self.later_mb - self.after_mb


@dataclass
class Figures:
    """All that one run has measured.

    Attributes:
        samples: of each case and target, one a round.
        first_bytes: seconds to a stream's first event; those at the same place were asked one after the other.
        memory: of each gateway.
    """

    samples: dict[tuple[Case, str], list[Sample]] = field(default_factory=dict)
    first_bytes: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)

    def best(self, case: Case, target: str) -> Sample:
        """The round with the most requests per second, whole: its percentiles and its processor time too."""
        return max(self.samples[case, target], key=lambda sample: sample.per_second)

    def spread(self, case: Case, target: str) -> float:
        """How far the slowest round fell behind the best, as a share of the best: 0 to 1."""
        rates = [sample.per_second for sample in self.samples[case, target]]
        return 1 - min(rates) / max(rates)

    def ratio(self, case: Case, target: str, to: str) -> float:
        """Requests per second of one target by those of another, best by best."""
        return self.best(case, target).per_second / self.best(case, to).per_second

    def added_first_bytes(self, target: str) -> list[float]:
        """Seconds that a gateway adds to a stream's first event, each against its own neighbour."""
        pairs = zip(self.first_bytes["direct"], self.first_bytes[target], strict=True)
        return [through - direct for direct, through in pairs]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share (0 to 1) of them lies; nearest rank, so it is one of them."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def raw(figures: Figures, about: Mapping[str, str]) -> dict[str, object]:
    """Everything as plain JSON values; `about` says on what and by what it was measured."""
    return {
        "about": dict(about),
        "loads": [
            {
                "case": case.name,
                "stream": case.stream,
                "connections": case.connections,
                "target": target,
                "rounds": [vars(sample) | {"per_second": sample.per_second} for sample in samples],
            }
            for (case, target), samples in figures.samples.items()
        ],
        "first_byte_s": dict(figures.first_bytes),
        "memory": {target: vars(memory) | {"grown_mb": memory.grown_mb} for target, memory in figures.memory.items()},
    }
