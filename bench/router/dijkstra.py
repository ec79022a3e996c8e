"""The yardstick: Dijkstra's search as the textbooks have it, over (boundary, node). Pure; `timing` drives it.

It prices as the router does and shares nothing else with it: no order among equals, no path, only what is cheapest.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from lumbre.mesh import NodeState, RouteWeights
from lumbre.mesh.cost import hop_micro, stage_micros

Vertex = tuple[int, str]
"""A boundary, and the node that has just run the fragment before it; no node yet at the start."""


def cheapest(states: Sequence[NodeState], weights: RouteWeights, window: tuple[int, int]) -> int | None:
    """What the cheapest chain of whole fragments over a window costs, in millionths; None if there is none."""
    first, last = window
    price = dict(zip([state.node_id for state in states], stage_micros(states, weights), strict=True))
    leading_on = _leading_on(states, window)
    hop = hop_micro(weights)
    start: Vertex = (first, "")
    known = {start: 0}
    due = [(0, start)]
    done: set[Vertex] = set()
    while due:
        cost, vertex = heappop(due)
        boundary, node = vertex
        if boundary == last + 1:
            return cost
        if vertex in done:
            continue
        done.add(vertex)
        for other, end in leading_on.get(boundary, ()):
            step = 0 if other == node else price[other] + (hop if node else 0)
            there = (end + 1, other)
            if there not in known or cost + step < known[there]:
                known[there] = cost + step
                heappush(due, (cost + step, there))
    return None


def _leading_on(states: Sequence[NodeState], window: tuple[int, int]) -> dict[int, list[tuple[str, int]]]:
    """By boundary, the live nodes with a fragment that begins there, and its last layer."""
    edges: dict[int, list[tuple[str, int]]] = {}
    for state in states:
        if state.alive:
            for first, last in state.served_layers:
                if window[0] <= first and last <= window[1]:
                    edges.setdefault(first, []).append((state.node_id, last))
    return edges
