"""Turns each weight up and down over the recorded meshes, and sees what the routes become. Driven by hand:

    .venv/bin/python -m bench.router.sweep --write

That writes docs/mesh-weights.svg and the tables of docs/mesh-weights.md. `--record` writes meshes.json again, from its
seed. Everything comes out the same each time; a test compares.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace

from bench.gateway.report import table
from bench.page import DOCS, put_into
from bench.router.places import FILE, MODEL, record, recorded
from bench.router.plot import Panel, Series, drawing

from lumbre.mesh import PROFILES, NodeState, RouteSnapshot, RouteWeights

MARK = "bench:weights"
PAGE = DOCS / "mesh-weights.md"
PICTURE = DOCS / "mesh-weights.svg"
KNOBS = tuple(each.name for each in fields(RouteWeights))
DEFAULT = RouteWeights()
_STEPS = 20
VALUES = tuple(round(20.0 ** (step / _STEPS), 4) for step in range(-_STEPS, _STEPS + 1))
"""0.05 to 20, evenly on a logarithmic scale, with 1 in the middle."""

Meshes = Sequence[Sequence[NodeState]]


@dataclass(frozen=True)
class Outcome:
    """What the routes over all recorded meshes are like with some weights.

    Attributes:
        hops: changes of node a route.
        latency_ms: the sum of its stages' latencies, as they were told and not weighted.
        load: of a node that runs a stage.
        score: the capacity score of such a node.
        differ: the share of meshes whose route is another one than with all weights at 1.
    """

    hops: float
    latency_ms: float
    load: float
    score: float
    differ: float


METRICS = ("hops", "latency_ms", "load", "score")


def outcome(meshes: Meshes, weights: RouteWeights) -> Outcome:
    """Route over every mesh, and average."""
    hops, latencies, loads, scores, differ = [], [], [], [], []
    for states in meshes:
        route = RouteSnapshot(states, weights, MODEL).route()
        by_id = {state.node_id: state for state in states}
        used = [by_id[node] for node in route.nodes]
        hops.append(route.hops)
        latencies.append(sum(state.latency_ms for state in used))
        loads += [state.current_load for state in used]
        scores += [state.capacity_score for state in used]
        differ.append(route.stages != RouteSnapshot(states, DEFAULT, MODEL).route().stages)
    means = (statistics.fmean(values) for values in (hops, latencies, loads, scores, differ))
    return Outcome(*means)


def sweep(meshes: Meshes) -> dict[str, list[Outcome]]:
    """By knob, what each of `VALUES` gives while the other weights stay at 1."""
    return {knob: [outcome(meshes, replace(DEFAULT, **{knob: value})) for value in VALUES] for knob in KNOBS}


def panels(swept: Mapping[str, Sequence[Outcome]]) -> list[Panel]:
    """What the picture shows of it: each figure against its own with all weights at 1."""
    middle = VALUES.index(1.0)
    made = []
    for knob, outcomes in swept.items():
        at_one = outcomes[middle]
        series = [
            Series(name, tuple(getattr(each, name) / getattr(at_one, name) for each in outcomes)) for name in METRICS
        ]
        note = "" if any(each.differ for each in outcomes) else "never another path"
        made.append(Panel(knob, tuple(series), tuple(each.differ for each in outcomes), note))
    return made


def tables(meshes: Meshes, swept: Mapping[str, Sequence[Outcome]]) -> str:
    """The knobs at their ends, and the profiles, in Markdown."""
    outcomes = ["hops", "latency, ms", "load", "score", "other route"]
    rows = [["all at 1", *_cells(swept[KNOBS[0]][VALUES.index(1.0)])]]
    for knob in KNOBS:
        rows += [[f"`{knob}` {VALUES[end]:g}", *_cells(swept[knob][end])] for end in (0, -1)]
    profiles = [
        [f"`{name}`", *(f"{value:g}" for value in astuple(weights)), *_cells(outcome(meshes, weights))]
        for name, weights in PROFILES.items()
    ]
    return "\n\n".join((table(["weights", *outcomes], rows), table(["profile", *KNOBS, *outcomes], profiles)))


def _cells(seen: Outcome) -> list[str]:
    return [
        f"{seen.hops:.2f}",
        f"{seen.latency_ms:.1f}",
        f"{seen.load:.2f}",
        f"{seen.score:.1f}",
        f"{seen.differ:.0%}",
    ]


def main(argv: Sequence[str]) -> int:
    """Print the tables; write what the options say."""
    parser = argparse.ArgumentParser("bench.router.sweep", description="Sweep the router's weights.")
    parser.add_argument("--record", action="store_true", help="write bench/router/meshes.json again")
    parser.add_argument("--write", action="store_true", help="write docs/mesh-weights.svg and the tables beside it")
    options = parser.parse_args(argv)
    if options.record:
        FILE.write_text(record(), encoding="utf-8")
    meshes = recorded()
    swept = sweep(meshes)
    text = tables(meshes, swept)
    print(text)
    if options.write:
        PICTURE.write_text(drawing(VALUES, panels(swept)), encoding="utf-8")
        PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), MARK, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
