"""Which fragments a route may use, and on which node each is cheapest. Pure; `snapshot` keeps it, `shortest` reads it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lumbre.mesh.cost import stage_cost, stage_costs
from lumbre.mesh.telemetry import Fragment, NodeState
from lumbre.mesh.weights import RouteWeights

Member = tuple[int, str]
"""What a stage on a node costs, in millionths, and the node's id."""

Edge = tuple[int, str, int]
"""The same, and the last layer of the fragment."""

Window = tuple[int, int]


class Holders:
    """Who holds each fragment, of the nodes that take part.

    Attributes:
        single: nodes of which no fragment begins where another ends. Of those only the cheapest ever runs a fragment.
        chained: the other nodes. What one costs depends on what it has just run.
    """

    def __init__(self, states: Sequence[NodeState], weights: RouteWeights, model: str) -> None:
        self._weights = weights
        self._model = model
        self.single: dict[Fragment, list[Member]] = {}
        self.chained: dict[Fragment, list[Member]] = {}
        taking_part = [state for state in states if state.alive and (state.model is None or state.model == model)]
        single, chained = self.single, self.chained
        for state, cost in zip(taking_part, stage_costs(taking_part, weights), strict=True):
            member = cost, state.node_id
            holders = chained if state.chains else single
            for fragment in state.served_layers:
                if fragment in holders:
                    holders[fragment].append(member)
                else:
                    holders[fragment] = [member]

    def served(self) -> Window | None:
        """The first and the last layer that are held; None where nothing is."""
        held = [holders for holders in (self.single, self.chained) if holders]
        if not held:
            return None
        return min(map(min, held))[0], max(last for holders in held for _, last in holders)

    def fragments(self) -> list[Fragment]:
        """Every fragment that is held, each once."""
        return sorted(self.single.keys() | self.chained.keys())

    def parts(self, state: NodeState | None) -> tuple[Fragment, ...]:
        """The fragments with which a node takes part."""
        if state is None or not state.alive or state.model not in (None, self._model):
            return ()
        return state.served_layers

    def replacing(self, known: NodeState | None, state: NodeState) -> "Holders":
        """The holders when a node says this instead of what was known of it."""
        holders = Holders((), self._weights, self._model)
        holders.single, holders.chained = self.single.copy(), self.chained.copy()
        out_of = holders.chained if known is not None and known.chains else holders.single
        for fragment in self.parts(known):
            _take_out(out_of, fragment, state.node_id)
        member = stage_cost(state, self._weights), state.node_id
        into = holders.chained if state.chains else holders.single
        for fragment in self.parts(state):
            into[fragment] = [*into.get(fragment, ()), member]
        return holders


def _take_out(holders: dict[Fragment, list[Member]], fragment: Fragment, node_id: str) -> None:
    left = [member for member in holders.get(fragment, ()) if member[1] != node_id]
    if left:
        holders[fragment] = left
    else:
        holders.pop(fragment, None)


@dataclass(slots=True)
class Edges:
    """The fragments inside a window, by their first layer.

    Attributes:
        rows: of single nodes, the best for each last layer.
        chains: of chained nodes, all.
    """

    rows: dict[int, list[Edge]] = field(default_factory=dict)
    chains: dict[int, list[Edge]] = field(default_factory=dict)
    _before: dict[int, set[int]] | None = None

    def boundaries(self) -> list[int]:
        """Where fragments begin, the last first."""
        return sorted(self.rows.keys() | self.chains.keys() if self.chains else self.rows, reverse=True)

    def before(self) -> Mapping[int, set[int]]:
        """By boundary, where the fragments begin that end just before it."""
        if self._before is None:
            self._before = {}
            for rows in (self.rows, self.chains):
                for first, row in rows.items():
                    for _, _, last in row:
                        self._before.setdefault(last + 1, set()).add(first)
        return self._before

    def with_holders(self, holders: Holders, touched: Iterable[Fragment]) -> "Edges":
        """The edges when the holders of some fragments inside the window are these."""
        edges = Edges(self.rows.copy(), self.chains.copy(), self._before)
        for fragment in touched:
            first, last = fragment
            single, chained = holders.single.get(fragment, ()), holders.chained.get(fragment, ())
            best = [(*min(single), last)] if single else []
            _put(edges.rows, first, [edge for edge in edges.rows.get(first, ()) if edge[2] != last] + best)
            others = [edge for edge in edges.chains.get(first, ()) if edge[2] != last]
            _put(edges.chains, first, [*others, *((cost, node, last) for cost, node in chained)])
            if edges._before is not None and (single or chained) and first not in edges._before.get(last + 1, ()):
                edges._before = {**edges._before, last + 1: {first, *edges._before.get(last + 1, ())}}
        return edges


def _put(rows: dict[int, list[Edge]], first: int, row: list[Edge]) -> None:
    if row:
        rows[first] = row
    else:
        rows.pop(first, None)


def edges_of(holders: Holders, window: Window) -> Edges:
    """The edges inside a window; a fragment that reaches past it is none."""
    low, high = window
    edges = Edges()
    rows = edges.rows
    for (first, last), members in holders.single.items():
        if low <= first and last <= high:
            cost, node = members[0] if len(members) == 1 else min(members)
            if first in rows:
                rows[first].append((cost, node, last))
            else:
                rows[first] = [(cost, node, last)]
    for (first, last), members in holders.chained.items():
        if low <= first and last <= high:
            edges.chains.setdefault(first, []).extend((cost, node, last) for cost, node in members)
    return edges
