"""What a stage, a hop and a prompt cost: the seed's section 2. Pure.

Costs are counted in whole millionths of an equivalent millisecond. Each term is a float64, computed left to right as
the seed writes it and rounded once; everything after that is sums of integers, so equal costs are equal.
"""

from collections.abc import Iterable, Sequence
from math import inf

from lumbre.core.quoting import quoted
from lumbre.mesh.telemetry import NodeState
from lumbre.mesh.weights import RouteWeights

MICRO = 1_000_000
_LOAD_MS = 120
_CAPACITY_MS = 100
_LEAST = 0.01
_HOP_MS = 15
_PREFILL_MS = 10
_PREFILL_TOKENS = 1024
_BEYOND = 10**330
"""A term that no float64 holds, which only weights near its end can make."""


def stage_terms(state: NodeState, weights: RouteWeights) -> tuple[float, float, float]:
    """A stage's terms of latency, load and capacity, in equivalent milliseconds."""
    return (
        weights.latency * state.latency_ms,
        weights.load * state.current_load * _LOAD_MS,
        weights.capacity * (_CAPACITY_MS / max(state.capacity_score, _LEAST)),
    )


def stage_micros(states: Sequence[NodeState], weights: RouteWeights) -> list[int]:
    """What a stage on each of these nodes costs, in millionths; in one go, since calls cost as much again."""
    latency, load, capacity = weights.latency, weights.load, weights.capacity
    try:
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
    except OverflowError:
        return [_micro(terms[0] + terms[1] + terms[2]) for terms in (stage_terms(each, weights) for each in states)]


def stage_micro(state: NodeState, weights: RouteWeights) -> int:
    """What a stage on this node costs, in millionths."""
    return stage_micros((state,), weights)[0]


def hop_micro(weights: RouteWeights) -> int:
    """What one change of node costs, in millionths."""
    return _micro(weights.hop * _HOP_MS)


def prefill_micro(weights: RouteWeights, prompt_tokens: int) -> int:
    """What a prompt adds to every route, in millionths."""
    try:
        return round(MICRO * (weights.prompt * _PREFILL_MS * prompt_tokens / _PREFILL_TOKENS))
    except OverflowError:
        return _BEYOND
    except ValueError:  # infinitely much for each of no tokens
        return 0


def _micro(term: float) -> int:
    try:
        return round(MICRO * term)
    except OverflowError:
        return _BEYOND


def in_ms(micro: int) -> float:
    """A cost in equivalent milliseconds; one that no float holds is infinite."""
    try:
        return micro / MICRO
    except OverflowError:
        return inf


def stage_cost(state: NodeState, weights: RouteWeights) -> float:
    """What a stage on this node costs: equivalent milliseconds, to a millionth."""
    return in_ms(stage_micro(state, weights))


def route_cost(
    node_ids: Sequence[str], states: Iterable[NodeState], weights: RouteWeights, prompt_tokens: int = 0
) -> float:
    """What it costs to run one stage on each of these nodes, in this order: equivalent milliseconds, to a millionth.

    Whether they can is not asked. No node at all costs infinity.

    Raises:
        ValueError: a node is not among the states.
    """
    if not node_ids:
        return inf
    known = {state.node_id: state for state in states}
    if unknown := [node_id for node_id in node_ids if node_id not in known]:
        raise ValueError(f"no node {quoted(unknown[0])} is among the states")
    stages = sum(stage_micros([known[node_id] for node_id in node_ids], weights))
    return in_ms(stages + (len(node_ids) - 1) * hop_micro(weights) + prefill_micro(weights, prompt_tokens))
