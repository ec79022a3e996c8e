"""Decides how the figures read: the tables, the goals beside them, and where they stand in the page. Pure; `run` drives
it.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.gateway.figures import (
    CASES,
    JSON_1,
    JSON_64,
    MEMORY_REQUESTS,
    STREAM_16,
    STREAM_64,
    TARGETS,
    Case,
    Figures,
    percentile,
)

GATEWAYS = ("nginx", "lumbre")
QUIET_SPREAD = 0.3
"""A round that falls behind by more than this share met a machine that was busy with something else."""


@dataclass(frozen=True)
class Goal:
    """What Lumbre shall reach.

    Attributes:
        wanted: the bound: at most, or at least where `at_least`.
        reading: takes the figure out of a run, in the unit of the bound.
        applies: whether the run was long enough for this goal.
    """

    what: str
    wanted: float
    unit: str
    reading: Callable[[Figures], float]
    at_least: bool = False
    applies: Callable[[Figures], bool] = lambda _: True

    def row(self, figures: Figures) -> list[str]:
        reached = self.reading(figures)
        bound = f"{'≥' if self.at_least else '≤'} {self.wanted:g}{self.unit}"
        is_met = reached >= self.wanted if self.at_least else reached <= self.wanted
        verdict = ("yes" if is_met else "**no**") if self.applies(figures) else "too few requests to say"
        return [self.what, bound, f"{reached:.3g}{self.unit}" if reached < 1 else f"{reached:.2f}{self.unit}", verdict]


def _ratio(case: Case) -> Callable[[Figures], float]:
    return lambda figures: figures.ratio(case, "lumbre", "nginx")


def _enough(figures: Figures) -> bool:
    return figures.memory["lumbre"].requests >= MEMORY_REQUESTS


GOALS = (
    Goal(f"{JSON_64.name}: requests/s, of nginx's", 0.15, "", _ratio(JSON_64), at_least=True),
    Goal("the same: the aim", 0.25, "", _ratio(JSON_64), at_least=True),
    Goal(f"{STREAM_16.name}: streams/s, of nginx's", 0.15, "", _ratio(STREAM_16), at_least=True),
    Goal(f"{STREAM_64.name}: streams/s, of nginx's", 0.15, "", _ratio(STREAM_64), at_least=True),
    Goal(f"{JSON_1.name}: added p50", 0.3, " ms", lambda figures: _added(figures, JSON_1, "lumbre")[0]),
    Goal(
        "first byte of a stream: added p50",
        1.0,
        " ms",
        lambda figures: statistics.median(figures.added_first_bytes("lumbre")) * 1000,
    ),
    Goal(
        f"{JSON_64.name}: processor time a request",
        0.17,
        " ms",
        lambda figures: figures.best(JSON_64, "lumbre").cpu_ms or 0.0,
    ),
    Goal(
        f"memory after {MEMORY_REQUESTS:,} requests",
        90.0,
        " MB",
        lambda figures: figures.memory["lumbre"].after_mb,
        applies=_enough,
    ),
    Goal(
        "its growth with more of them", 1.0, " MB", lambda figures: figures.memory["lumbre"].grown_mb, applies=_enough
    ),
)


def report(figures: Figures, about: Mapping[str, str]) -> str:
    """All tables in Markdown, beginning with what they were measured on and by what."""
    facts = [f"{about['date']}, {about['machine']}, {about['software']}, everything on loopback, by", ""]
    command = ["```console", f"$ {about['command']}", "```", ""]
    what = "added p50 ms", "added p99 ms", "of nginx", "of direct", "CPU ms/request"
    parts = [
        table(["load", "target", "requests/s", "spread", "p50 ms", "p99 ms", *what], _load_rows(figures)),
        table(["first byte of a stream, 1 connection", "p50 ms", "p99 ms", *what[:2], "of"], _first_byte_rows(figures)),
        table(["memory, MB", "at start", "after", "requests", "later", "after so many more"], _memory_rows(figures)),
        table(["goal", "wanted", "measured", "reached"], [goal.row(figures) for goal in GOALS]),
    ]
    worst = max(figures.spread(case, target) for case, target in figures.samples)
    if worst > QUIET_SPREAD:
        parts.append(f"Rounds fell behind by up to {worst:.0%}: the machine was busy, and ratios may be off.")
    return "\n".join([*facts, *command, "\n\n".join(parts)])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _load_rows(figures: Figures) -> list[list[str]]:
    return [_load_row(figures, case, target) for case in CASES for target in TARGETS]


def _load_row(figures: Figures, case: Case, target: str) -> list[str]:
    best = figures.best(case, target)
    is_direct = target == "direct"
    p50, p99 = _added(figures, case, target)
    return [
        case.name,
        target,
        f"{best.per_second:,.0f}",
        f"{figures.spread(case, target):.0%}",
        f"{best.p50_ms:.2f}",
        f"{best.p99_ms:.2f}",
        "" if is_direct else f"{p50:.2f}",
        "" if is_direct else f"{p99:.2f}",
        f"{figures.ratio(case, target, 'nginx'):.2f}" if target == "lumbre" else "",
        "" if is_direct else f"{figures.ratio(case, target, 'direct'):.2f}",
        "" if best.cpu_ms is None else f"{best.cpu_ms:.3f}",
    ]


def _added(figures: Figures, case: Case, target: str) -> tuple[float, float]:
    """What a target's p50 and p99 have over direct, in milliseconds, best round against best round."""
    best, direct = figures.best(case, target), figures.best(case, "direct")
    return best.p50_ms - direct.p50_ms, best.p99_ms - direct.p99_ms


def _first_byte_rows(figures: Figures) -> list[list[str]]:
    rows = []
    for target in TARGETS:
        times = figures.first_bytes[target]
        added = [] if target == "direct" else _percentiles(figures.added_first_bytes(target))
        rows.append([target, *_percentiles(times), *(added or ["", ""]), f"{len(times):,}"])
    return rows


def _percentiles(seconds: Sequence[float]) -> list[str]:
    return [f"{percentile(seconds, share) * 1000:.2f}" for share in (0.5, 0.99)]


def _memory_rows(figures: Figures) -> list[list[str]]:
    rows = []
    for target in GATEWAYS:
        memory = figures.memory[target]
        sizes = [f"{size:.1f}" for size in (memory.at_start_mb, memory.after_mb, memory.later_mb)]
        rows.append([target, sizes[0], sizes[1], f"{memory.requests:,}", sizes[2], f"{memory.further:,}"])
    return rows
