"""Which fragments a route may use, and on which node each is cheapest. Pure; `snapshot` keeps it, `shortest` reads it.

A fragment behind which its node has none of its own is run by the cheapest of all nodes that hold it so, or by nobody.
One that leads on to another of its node's is looked at for each node: what comes after is free there.

What is compared is one integer, a *key*: the cost in millionths, and below it the number of stages, so that of two
equal costs the one with fewer stages is less.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lumbre.mesh.cost import stage_micro, stage_micros
from lumbre.mesh.reach import Fragment, Window
from lumbre.mesh.telemetry import NodeState
from lumbre.mesh.weights import RouteWeights

STAGE_BITS = 32
"""Of a key. More stages than layers there cannot be, and layers go up to 1e9."""

Member = tuple[int, str]
"""What a stage on a node costs, in millionths, and the node's id."""

Edge = tuple[int, str, int]
"""A stage's key on a node, the node's id, and the last layer of the fragment."""

Rows = dict[int, list[Edge]]
"""Edges by the first layer of their fragment."""


def stage_key(cost: int) -> int:
    """The key of one stage."""
    return (cost << STAGE_BITS) + 1


class Holders:
    """Who holds each fragment, of the nodes that take part.

    Attributes:
        last: by fragment, the nodes that have none of their own behind it.
        leading: all other fragments.
        following: those of both kinds that begin where another of their node's ends.
    """

    def __init__(self, states: Sequence[NodeState], weights: RouteWeights, model: str) -> None:
        self._weights = weights
        self._model = model
        self.last: dict[Fragment, list[Member]] = {}
        self.leading: Rows = {}
        self.following: Rows = {}
        taking_part = [state for state in states if state.alive and (state.model is None or state.model == model)]
        holders = self.last
        for state, cost in zip(taking_part, stage_micros(taking_part, weights), strict=True):
            member = cost, state.node_id
            last, leading, following = state.links
            for fragment in last:
                if fragment in holders:
                    holders[fragment].append(member)
                else:
                    holders[fragment] = [member]
            if following:
                _append(self.leading, leading, member)
                _append(self.following, following, member)

    def served(self) -> Window | None:
        """The first and the last layer that are held; None where nothing is."""
        if not self.last:  # whatever leads on leads to one of these
            return None
        first = min(self.last)[0]
        return min(first, *self.leading) if self.leading else first, max([last for _, last in self.last])

    def fragments(self) -> list[Fragment]:
        """Every fragment that is held, each once."""
        return sorted({*self.last, *((first, last) for first, row in self.leading.items() for _, _, last in row)})

    def parts(self, state: NodeState | None) -> tuple[Fragment, ...]:
        """The fragments with which a node takes part."""
        if state is None or not state.alive or state.model not in (None, self._model):
            return ()
        return state.served_layers

    def replacing(self, known: NodeState | None, state: NodeState) -> "Holders":
        """The holders when a node says this instead of what was known of it."""
        holders = Holders((), self._weights, self._model)
        holders.last, holders.leading, holders.following = self.last.copy(), self.leading.copy(), self.following.copy()
        rows = holders.leading, holders.following
        if known is not None and self.parts(known):
            for fragment in known.links.last:
                members = holders.last.get(fragment, ())
                _put(holders.last, fragment, [member for member in members if member[1] != known.node_id])
            for table, fragments in zip(rows, known.links[1:], strict=True):
                for first in {first for first, _ in fragments}:
                    _put(table, first, [edge for edge in table.get(first, ()) if edge[1] != known.node_id])
        if self.parts(state):
            cost = stage_micro(state, self._weights)
            key, node = stage_key(cost), state.node_id
            for fragment in state.links.last:
                holders.last[fragment] = [*holders.last.get(fragment, ()), (cost, node)]
            for table, fragments in zip(rows, state.links[1:], strict=True):
                for first, lasts in _by_first(fragments).items():
                    table[first] = [*table.get(first, ()), *((key, node, last) for last in lasts)]
        return holders


@dataclass(slots=True)
class Edges:
    """The fragments inside a window.

    Attributes:
        last: of each fragment that does not lead on to one of its node's, the best node.
        leading: of the others, each node.
        following: the fragments into which a node may go on from one of its own.
    """

    window: Window
    last: Rows = field(default_factory=dict)
    leading: Rows = field(default_factory=dict)
    following: Rows = field(default_factory=dict)
    _before: dict[int, set[int]] | None = None

    def boundaries(self) -> list[int]:
        """Where fragments begin, the last first."""
        return sorted(self.last.keys() | self.leading.keys() if self.leading else self.last, reverse=True)

    def before(self) -> Mapping[int, set[int]]:
        """By boundary, where the fragments begin that end just before it."""
        if self._before is None:
            self._before = {}
            for table in (self.last, self.leading):
                for first, row in table.items():
                    for _, _, last in row:
                        self._before.setdefault(last + 1, set()).add(first)
        return self._before

    def with_holders(self, holders: Holders, touched: Iterable[Fragment]) -> "Edges":
        """The edges when the holders of some fragments inside the window are these."""
        before = dict(self.before())
        edges = Edges(self.window, self.last.copy(), self.leading.copy(), self.following.copy(), before)
        ends: dict[int, set[int]] = {}
        for first, lasts in _by_first(touched).items():
            others = [edge for edge in edges.last.get(first, ()) if edge[2] not in lasts]
            members = ((last, holders.last.get((first, last))) for last in lasts)
            best = ((*min(each), last) for last, each in members if each)
            _put(edges.last, first, [*others, *((stage_key(cost), node, last) for cost, node, last in best)])
            for table, held in ((edges.leading, holders.leading), (edges.following, holders.following)):
                _put(table, first, [edge for edge in held.get(first, ()) if edge[2] <= self.window[1]])
            there = {edge[2] for table in (edges.last, edges.leading) for edge in table.get(first, ())}
            for last in lasts:
                if (first in before.get(last + 1, ())) != (last in there):
                    ends.setdefault(last + 1, set()).add(first)
        for boundary, firsts in ends.items():
            _put(before, boundary, before.get(boundary, set()) ^ firsts)
        return edges


def edges_of(holders: Holders, window: Window) -> Edges:
    """The edges inside a window; a fragment that reaches past it is none."""
    low, high = window
    edges = Edges(window)
    rows = edges.last
    for (first, last), members in holders.last.items():
        if low <= first and last <= high:
            cost, node = members[0] if len(members) == 1 else min(members)
            edge = (cost << STAGE_BITS) + 1, node, last  # `stage_key`, without its call
            if first in rows:
                rows[first].append(edge)
            else:
                rows[first] = [edge]
    if holders.leading:
        edges.leading, edges.following = _inside(holders.leading, window), _inside(holders.following, window)
    return edges


def _inside(rows: Rows, window: Window) -> Rows:
    low, high = window
    inside = {first: [edge for edge in row if edge[2] <= high] for first, row in rows.items() if first >= low}
    return {first: row for first, row in inside.items() if row}


def _by_first(fragments: Iterable[Fragment]) -> dict[int, set[int]]:
    """The last layers of fragments by their first."""
    lasts: dict[int, set[int]] = {}
    for first, last in fragments:
        lasts.setdefault(first, set()).add(last)
    return lasts


def _append(rows: Rows, fragments: Iterable[Fragment], member: Member) -> None:
    cost, node = member
    key = stage_key(cost)
    for first, last in fragments:
        if first in rows:
            rows[first].append((key, node, last))
        else:
            rows[first] = [(key, node, last)]


def _put(table: dict[Any, Any], place: object, row: list[Any] | set[Any]) -> None:
    """Set a row, and keep none that is empty."""
    if row:
        table[place] = row
    else:
        table.pop(place, None)
