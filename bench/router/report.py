"""Decides how the times read: the table, the ratios, the goals beside them. Pure; `run` drives it."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.gateway.report import table
from bench.router.meshes import ALIGNED, KINDS, MULTI, RANDOM, Size
from bench.router.timing import AGAIN, COLD, DIJKSTRA, SERVED, Figures

QUIET_SPREAD = 0.3
"""Rounds that lie further apart met a machine that was busy with something else."""

_COLD_US = {(16, 32): 25.0, (100, 80): 130.0, (1000, 128): 1300.0, (10_000, 128): 20_000.0}
_MULTI_FACTOR = 2.5
_SERVED_US = 1.0
_AGAIN_US = 300.0
_AGAIN_SIZE = (1000, 128)


@dataclass(frozen=True)
class Goal:
    """A bound on a median: of one mesh, or of the worst one where there is none."""

    what: str
    asked: str
    case: Size | None
    wanted_us: float

    def row(self, figures: Figures) -> list[str]:
        cases = list(figures) if self.case is None else [case for case in figures if case == self.case]
        wanted = f"≤ {self.wanted_us:,.5g} µs"
        if not cases:
            return [self.what, wanted, "", "not timed"]
        measured = max(figures[case][self.asked].p50_us for case in cases)
        return [self.what, wanted, f"{micros(measured)} µs", "yes" if measured <= self.wanted_us else "**no**"]


def _goals() -> tuple[Goal, ...]:
    goals = []
    for (nodes, layers), wanted in _COLD_US.items():
        for kind in (RANDOM, ALIGNED, MULTI):
            case = Size(kind, nodes, layers)
            factor = _MULTI_FACTOR if kind == MULTI else 1
            goals.append(Goal(f"cold, {kind}, {case.name}", COLD, case, factor * wanted))
    goals.append(Goal("from a snapshot, the slowest", SERVED, None, _SERVED_US))
    for kind in KINDS:
        case = Size(kind, *_AGAIN_SIZE)
        goals.append(Goal(f"one node changed, {kind}, {case.name}", AGAIN, case, _AGAIN_US))
    return tuple(goals)


GOALS = _goals()


def report(figures: Figures, about: Mapping[str, str]) -> str:
    """All tables in Markdown, beginning with what they were measured on and by what."""
    facts = f"{about['date']}, {about['machine']}, {about['software']}, by"
    head = ["mesh", "nodes × layers", "cold p50", "p99", "one changed p50", "p99", "served p50", "p99"]
    head += ["Dijkstra p50", "p99", "Dijkstra / cold", "cold / one changed"]
    parts = [
        facts,
        f"```console\n$ {about['command']}\n```",
        table(head, [_row(case, figures) for case in figures]),
        table(["goal, p50", "wanted", "measured", "reached"], [goal.row(figures) for goal in GOALS]),
        _spread(figures),
    ]
    return "\n\n".join(parts)


def micros(value: float) -> str:
    """Microseconds with three figures, or as whole ones."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _row(case: Size, figures: Figures) -> list[str]:
    times = figures[case]
    cells = [case.kind, case.name]
    for asked in (COLD, AGAIN, SERVED, DIJKSTRA):
        cells += [micros(times[asked].p50_us), micros(times[asked].p99_us)]
    cold = times[COLD].p50_us
    return [*cells, f"{times[DIJKSTRA].p50_us / cold:.1f}", f"{cold / times[AGAIN].p50_us:.1f}"]


def _spread(figures: Figures) -> str:
    worst = max(times.spread for asked in figures.values() for times in asked.values())
    said = f"Times are in µs. A slower round's p50 lay up to {worst:.0%} above the quietest's"
    return f"{said}: the machine was busy, and times may be too long." if worst > QUIET_SPREAD else f"{said}."
