"""What a stage, a hop and a prompt cost: the seed's section 2. Pure.

Costs are counted in whole millionths of an equivalent millisecond. Each term is a float64, computed left to right as
the seed writes it and rounded once; everything after that is sums of integers, so equal costs are equal.
"""

from collections.abc import Iterable

from lumbre.mesh.telemetry import NodeState
from lumbre.mesh.weights import RouteWeights

MICRO = 1_000_000
_LOAD_MS = 120
_CAPACITY_MS = 100
_LEAST = 0.01
_HOP_MS = 15
_PREFILL_MS = 10
_PREFILL_TOKENS = 1024


def stage_terms(state: NodeState, weights: RouteWeights) -> tuple[float, float, float]:
    """A stage's terms of latency, load and capacity, in equivalent milliseconds."""
    return (
        weights.latency * state.latency_ms,
        weights.load * state.current_load * _LOAD_MS,
        weights.capacity * (_CAPACITY_MS / max(state.capacity_score, _LEAST)),
    )


def stage_costs(states: Iterable[NodeState], weights: RouteWeights) -> list[int]:
    """What a stage on each of these nodes costs, in millionths; in one go, since calls cost as much again."""
    latency, load, capacity = weights.latency, weights.load, weights.capacity
    return [
        round(
            MICRO
            * (
                latency * state.latency_ms
                + load * state.current_load * _LOAD_MS
                + capacity * (_CAPACITY_MS / (score if (score := state.capacity_score) > _LEAST else _LEAST))
            )
        )
        for state in states
    ]


def stage_cost(state: NodeState, weights: RouteWeights) -> int:
    """What a stage on this node costs, in millionths."""
    return stage_costs((state,), weights)[0]


def hop_cost(weights: RouteWeights) -> int:
    """What one change of node costs, in millionths."""
    return round(MICRO * (weights.hop * _HOP_MS))


def prefill_cost(weights: RouteWeights, prompt_tokens: int) -> int:
    """What a prompt adds to every route, in millionths."""
    return round(MICRO * (weights.prompt * _PREFILL_MS * prompt_tokens / _PREFILL_TOKENS))
