"""A route's cost term by term, for people and for programs. Pure; `RouteSnapshot.explain` gathers what it needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any

from lumbre.mesh.cost import hop_micro, in_ms, prefill_micro, stage_cost, stage_terms
from lumbre.mesh.route import Route, Stage
from lumbre.mesh.telemetry import NodeState


@dataclass(frozen=True, slots=True)
class StageTerms:
    """What a stage costs, in equivalent milliseconds."""

    stage: Stage
    latency: float
    load: float
    capacity: float
    cost: float


@dataclass(frozen=True, slots=True)
class Detour:
    """A route instead of another: the ids of its nodes, one a stage, and what it costs."""

    nodes: tuple[str, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a route costs what it costs, in equivalent milliseconds.

    Attributes:
        hop_cost: of all hops.
        without: for each of its nodes the best route that avoids it; None where there is none, so that its failure is
            the route's.
        digest: names the telemetry that all of this rests on.
    """

    route: Route
    stages: tuple[StageTerms, ...]
    hop_cost: float
    prefill_cost: float
    without: Mapping[str, Detour | None]
    digest: str

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values; an infinite cost is null."""
        route = self.route
        return {
            "model": route.model,
            "window": list(route.window),
            "nodes": list(route.nodes),
            "stages": [
                {
                    "node_id": each.stage.node_id,
                    "first": each.stage.first,
                    "last": each.stage.last,
                    "fragments": [list(fragment) for fragment in each.stage.fragments],
                    "latency": _number(each.latency),
                    "load": _number(each.load),
                    "capacity": _number(each.capacity),
                    "cost": _number(each.cost),
                }
                for each in self.stages
            ],
            "hops": route.hops,
            "hop_cost": _number(self.hop_cost),
            "prefill_cost": _number(self.prefill_cost),
            "cost": _number(route.cost),
            "degraded": route.degraded,
            "snapshot": self.digest,
            "without": {
                node: None if other is None else {"nodes": list(other.nodes), "cost": _number(other.cost)}
                for node, other in self.without.items()
            },
        }

    def __str__(self) -> str:
        route = self.route
        width = max([len("stage"), *(len(each.stage.node_id) for each in self.stages)])
        lines = [
            f"{route.model}, layers {route.window[0]}-{route.window[1]}: {' → '.join(route.nodes) or 'no stage'}",
            "",
            f"{'stage':{width}}  layers   latency       load   capacity       cost",
        ]
        for each in self.stages:
            layers = f"{each.stage.first}-{each.stage.last}"
            terms = (each.latency, each.load, each.capacity, each.cost)
            lines.append(f"{each.stage.node_id:{width}}  {layers:6}" + "".join(f" {term:10.1f}" for term in terms))
        indent = width + 2 + 6 + 3 * 11
        hops = "1 hop" if route.hops == 1 else f"{route.hops} hops"
        lines.append(f"{hops:{indent}} {self.hop_cost:10.1f}")
        lines.append(f"{f'prompt of {route.prompt_tokens} tokens':{indent}} {self.prefill_cost:10.1f}")
        lines.append(f"{'sum':{indent}} {route.cost:10.1f}")
        if self.without:
            lines.append("")
        for node, other in self.without.items():
            instead = "no route" if other is None else f"{' → '.join(other.nodes)}, {other.cost:.1f}"
            lines.append(f"without {node}: {instead}")
        return "\n".join([*lines, "", f"telemetry {self.digest}"])


def _number(value: float) -> float | None:
    return None if isinf(value) else value


def explanation(
    route: Route, states: Mapping[str, NodeState], without: Mapping[str, Detour | None], digest: str
) -> Explanation:
    """Put the terms of a route together."""
    weights = route.course.weights
    stages = []
    for stage in route.stages:
        state = states[stage.node_id]
        stages.append(StageTerms(stage, *stage_terms(state, weights), stage_cost(state, weights)))
    hops, prefill = route.hops * hop_micro(weights), prefill_micro(weights, route.prompt_tokens)
    return Explanation(route, tuple(stages), in_ms(hops), in_ms(prefill), without, digest)
