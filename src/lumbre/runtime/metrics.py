"""The gateway's counts, as plain numbers that are told to Prometheus when it asks. Driver over its client library; what
a request costs here is a few additions.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

Gauges = Callable[[], Iterable[tuple[tuple[str, ...], float]]]

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper bounds of the buckets of every histogram, in seconds."""


class Counter:
    """Numbers that grow, by label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._about = (name, text)
        self._labels = labels
        self.values: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def metric(self) -> Metric:
        """What Prometheus is told."""
        family = CounterMetricFamily(*self._about, labels=self._labels)
        for key, value in self.values.items():
            family.add_metric(key, value)
        return family


class Histogram:
    """Durations by how long they were, by label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._about = (name, text)
        self._labels = labels
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def observe(self, key: tuple[str, ...], seconds: float) -> None:
        """Count one."""
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(SECONDS) + 1)
        counts[bisect_left(SECONDS, seconds)] += 1
        self._sums[key] += seconds

    def metric(self) -> Metric:
        """What Prometheus is told."""
        family = HistogramMetricFamily(*self._about, labels=self._labels)
        for key, counts in self._counts.items():
            so_far, buckets = 0, []
            for bound, count in zip((*map(float, SECONDS), "+Inf"), counts, strict=True):
                so_far += count
                buckets.append((str(bound), so_far))
            family.add_metric(key, buckets, sum_value=self._sums[key])
        return family


class Gauge:
    """Numbers that are looked up when somebody asks."""

    def __init__(self, name: str, text: str, labels: Sequence[str], look: Gauges) -> None:
        self._about = (name, text)
        self._labels = labels
        self._look = look

    def metric(self) -> Metric:
        """What Prometheus is told."""
        family = GaugeMetricFamily(*self._about, labels=self._labels)
        for key, value in self._look():
            family.add_metric(key, value)
        return family


class Exposition(Collector):
    """All metrics in Prometheus' text format."""

    def __init__(self, metrics: Sequence[Counter | Histogram | Gauge]) -> None:
        self._metrics = metrics
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """See `Collector`."""
        return [metric.metric() for metric in self._metrics]

    def text(self) -> bytes:
        """The page."""
        return generate_latest(self._registry)
