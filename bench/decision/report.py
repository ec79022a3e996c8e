"""Decides how the figures read: the tables and the goals beside them. Pure; `run` drives it."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.decision.deciding import NODE_COUNTS, Decided, LedgerTimes, of_all
from bench.decision.moves import RATE, Moves
from bench.decision.overhead import ALONE, CASES, GATEWAYS, THREE, Overhead
from bench.decision.soaked import Soaked
from bench.decision.soaked import report as soak_report
from bench.gateway.figures import percentile
from bench.gateway.report import QUIET_SPREAD, table


@dataclass
class Figures:
    """All that one run has measured; None is what was left out."""

    decided: Decided
    ledger: LedgerTimes
    moves: Moves
    overhead: Overhead | None = None
    soaked: Soaked | None = None


@dataclass(frozen=True)
class Goal:
    """A bound that is not to be passed.

    Attributes:
        reading: takes the figure out of a run, in the unit of the bound; None where it was not measured.
    """

    what: str
    wanted: float
    unit: str
    reading: Callable[[Figures], float | None]

    def row(self, figures: Figures) -> list[str]:
        measured = self.reading(figures)
        bound = f"≤ {self.wanted:g}{self.unit}"
        if measured is None:
            return [self.what, bound, "", "not measured"]
        return [self.what, bound, f"{measured:.3g}{self.unit}", "yes" if measured <= self.wanted else "**no**"]


def _decision(count: int) -> Goal:
    return Goal(
        f"the decision, p50 over the mix, {count} nodes",
        20,
        " µs",
        lambda figures: statistics.median(of_all(figures.decided, count)),
    )


def _added(figures: Figures) -> float | None:
    measured = figures.overhead
    return None if measured is None else max(measured.added_ms(case, THREE) for case in CASES)


def _faults(figures: Figures) -> float | None:
    return None if figures.soaked is None else len(figures.soaked.faults)


GOALS = (
    *(_decision(count) for count in NODE_COUNTS),
    Goal("processor time a request over a plain relay, A, B, C, the dearest load", 0.04, " ms", _added),
    Goal("a closed switch holds, p99", 5, " ms", lambda figures: percentile(figures.moves.held_ms, 0.99)),
    Goal("its order is answered, p50", 5, " ms", lambda figures: statistics.median(figures.moves.replied_ms)),
    Goal("the ledger, of a request's time", 0.1, " ms", lambda figures: figures.ledger.whole_us / 1000),
    Goal("faults that the soak found", 0, "", _faults),
)


def report(figures: Figures, about: Mapping[str, str]) -> str:
    """All tables in Markdown, beginning with what they were measured on and by what."""
    parts = [
        f"{about['date']}, {about['machine']}, {about['software']}, everything on loopback, by",
        f"```console\n$ {about['command']}\n```",
        table(_decided_head(), _decided_rows(figures.decided)),
        table(["milliseconds", "p50", "p99", "most", "of"], _time_rows(figures)),
    ]
    if figures.overhead is not None:
        head = ["load", *(f"{name}, CPU ms/request" for name in GATEWAYS), *(f"{name} adds" for name in (ALONE, THREE))]
        parts.append(table([*head, "spread"], _overhead_rows(figures.overhead)))
    if figures.soaked is not None:
        parts.append(soak_report(figures.soaked))
    parts.append(table(["goal", "wanted", "measured", "reached"], [goal.row(figures) for goal in GOALS]))
    worst = max(times.spread for times in figures.decided.values())
    if worst > QUIET_SPREAD:
        parts.append(f"Rounds lay up to {worst:.0%} apart: the machine was busy, and times may be too long.")
    return "\n\n".join(parts)


def _decided_head() -> list[str]:
    return ["the decision, µs", *(f"{count} nodes {what}" for count in NODE_COUNTS for what in ("p50", "p99"))]


def _decided_rows(decided: Decided) -> list[list[str]]:
    rows = []
    for name in dict.fromkeys(name for name, _ in decided):
        times = [decided[name, count] for count in NODE_COUNTS]
        rows.append([name, *(f"{value:.1f}" for each in times for value in (each.p50_us, each.p99_us))])
    pooled = [of_all(decided, count) for count in NODE_COUNTS]
    shares = [f"{percentile(values, share):.1f}" for values in pooled for share in (0.5, 0.99)]
    return [*rows, ["all of them", *shares]]


def _time_rows(figures: Figures) -> list[list[str]]:
    moved, ledger = figures.moves, figures.ledger
    taken = [time / 1e6 for time in ledger.taken.quietest]
    rows = [
        _row(f"a switch closes at {RATE:g} requests/s: until the order is answered", moved.replied_ms),
        _row("until the last request that it stops has reached its engine", moved.held_ms),
        _row("how long after the answer that was", moved.late_ms),
        _row("the ledger: a request's two records made and taken", taken),
    ]
    writes = sorted(figure / 1000 for figure in ledger.write_us)
    return [*rows, ["the ledger: a request's share of a write", f"{writes[0]:.3f}", "", f"{writes[-1]:.3f}", ""]]


def _row(name: str, values: list[float]) -> list[str]:
    figures = statistics.median(values), percentile(values, 0.99), max(values)
    return [name, *(f"{figure:.3f}" for figure in figures), f"{len(values):,}"]


def _overhead_rows(measured: Overhead) -> list[list[str]]:
    rows = []
    for case in CASES:
        cpu = [f"{measured.cpu_ms(case, name):.4f}" for name in GATEWAYS]
        added = [f"{measured.added_ms(case, name):+.4f}" for name in (ALONE, THREE)]
        rows.append([case.name, *cpu, *added, f"{max(measured.spread(case, name) for name in GATEWAYS):.0%}"])
    return rows
