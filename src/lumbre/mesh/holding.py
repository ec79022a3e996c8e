"""Who is the cheapest to answer for each layer, and which layers go with a node. Pure; `failover` asks.

Layers are looked at in runs that have the same holders, in one pass, so that nothing grows with the number of layers.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from lumbre.mesh.cost import stage_micros
from lumbre.mesh.edges import Member
from lumbre.mesh.reach import Fragment, leading_on
from lumbre.mesh.snapshot import RouteSnapshot

RedundancyMap = Mapping[int, Sequence[str]]
"""By layer, the nodes that hold it."""


class LostLayers:
    """The layers that go with a node: its telemetry's, or where there is none those for which the map names it."""

    def __init__(self, redundancy_map: RedundancyMap, node_id: str, snapshot: RouteSnapshot) -> None:
        state = snapshot.states.get(node_id)
        if state is None:
            fragments: Iterable[Fragment] = ((each, each) for each, named in redundancy_map.items() if node_id in named)
        else:
            fragments = state.served_layers
        self.runs: list[Fragment] = []
        for first, last in sorted(fragments):
            if self.runs and first <= self.runs[-1][1] + 1:
                self.runs[-1] = self.runs[-1][0], max(last, self.runs[-1][1])
            else:
                self.runs.append((first, last))

    def __contains__(self, layer: int) -> bool:
        place = bisect_right(self.runs, layer, key=lambda run: run[0])
        return place > 0 and layer <= self.runs[place - 1][1]


def cheapest_holders(
    layers: Fragment, lost: LostLayers, redundancy_map: RedundancyMap, snapshot: RouteSnapshot
) -> Iterator[tuple[Fragment, Member | None]]:
    """The layers in runs, each with the cheapest live node that holds it; None where nobody does, or it is not lost.

    A holder is a live node that serves the layer, or that the map names for it. Ties go to the smaller id.
    """
    low, high = layers
    live = [each for each in snapshot.states.values() if each.alive and each.model in (None, snapshot.model)]
    costs = stage_micros(live, snapshot.weights)
    members = {state.node_id: (cost, state.node_id) for state, cost in zip(live, costs, strict=True)}
    changes: dict[int, list[tuple[Member, int]]] = {}
    for state in live:
        for first, last in state.served_layers:
            if first <= high and last >= low:
                changes.setdefault(max(first, low), []).append((members[state.node_id], 1))
                changes.setdefault(last + 1, []).append((members[state.node_id], -1))
    named = {
        layer: min((members[node] for node in nodes if node in members), default=None)
        for layer, nodes in redundancy_map.items()
        if low <= layer <= high
    }
    cuts = {low, *changes, *named, *(layer + 1 for layer in named)}
    cuts.update(layer for first, last in lost.runs for layer in (first, last + 1))
    inside = sorted(layer for layer in cuts if low <= layer <= high)
    counts: dict[Member, int] = {}
    serving: list[Member] = []
    for first, following in zip(inside, [*inside[1:], high + 1], strict=True):
        for member, step in changes.get(first, ()):
            counts[member] = counts.get(member, 0) + step
            if step > 0:
                heappush(serving, member)
        while serving and not counts[serving[0]]:
            heappop(serving)
        holders = [each for each in (*serving[:1], named.get(first)) if each is not None]
        yield (first, following - 1), min(holders) if holders and first in lost else None


def tiling(fragments: Sequence[Fragment], first: int, last: int) -> tuple[Fragment, ...] | None:
    """Whole fragments that are exactly these layers one after the other, the smallest first; None if there are none."""
    leading = leading_on(fragments, (first, last))
    smallest: dict[int, int] = {}
    for begin, end in fragments:
        if end + 1 in leading:
            smallest[begin] = min(end, smallest.get(begin, end))
    tiles = []
    while first in leading and first != last + 1:
        tiles.append((first, smallest[first]))
        first = smallest[first] + 1
    return tuple(tiles) if first == last + 1 else None
