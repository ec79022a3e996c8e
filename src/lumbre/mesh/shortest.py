"""The cheapest chain of whole fragments from every boundary to the window's end: the seed's section 3. Pure.

A dynamic programme over the boundaries, from the last to the first, so that a tie is nearly always broken by the first
id alone. What is cheapest from a boundary is the same whoever comes there, but for a node that goes on into its own
next fragment: it pays no hop and no stage again, and is followed for itself.

The order is the design's: cost, then fewer stages, then the sequence of node ids, then that of the fragments.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lumbre.mesh.edges import Edge, Edges
from lumbre.mesh.telemetry import Fragment


@dataclass(slots=True)
class Solution:
    """What is best from each boundary.

    Attributes:
        end: the boundary behind the last layer.
        hop: what a change of node costs, in millionths.
        tail: by boundary, what is to be paid from there on by whoever arrives from another node, the hop included; 0 at
            the end. A boundary from which nothing leads to the end has none.
        stages: by boundary, how many stages follow.
        choice: by boundary, the node that goes on and the last layer of its fragment.
        stay: by node and boundary, the same for a node that has just run the fragment before: what it pays from there
            on, how many stages follow its own, and the last layer of its next fragment, None where it is left.
    """

    end: int
    hop: int
    tail: dict[int, int]
    stages: dict[int, int]
    choice: dict[int, tuple[str, int]]
    stay: dict[tuple[str, int], tuple[int, int, int | None]]

    def path(self, boundary: int) -> Iterator[tuple[str, Fragment]]:
        """The fragments from a boundary on, each with its node, in order."""
        while boundary != self.end:
            node, last = self.choice[boundary]
            own = [(boundary, last), *self._own(node, last + 1)]
            yield from ((node, fragment) for fragment in own)
            boundary = own[-1][1] + 1

    def rest(self, node: str, boundary: int) -> Iterator[tuple[str, Fragment]]:
        """The same from a boundary at which a node has just run a fragment of its own."""
        own = self._own(node, boundary)
        yield from ((node, fragment) for fragment in own)
        yield from self.path(own[-1][1] + 1 if own else boundary)

    def _own(self, node: str, boundary: int) -> list[Fragment]:
        """The fragments that a node goes on into at a boundary."""
        own: list[Fragment] = []
        while (stay := self.stay.get((node, boundary))) is not None and (last := stay[2]) is not None:
            own.append((boundary, last))
            boundary = last + 1
        return own


def solve(edges: Edges, end: int, hop: int) -> Solution:
    """Solve for every boundary.

    Args:
        end: the boundary behind the last layer.
        hop: what a change of node costs, in millionths.
    """
    solution = Solution(end, hop, {end: 0}, {end: 0}, {}, {})
    for boundary in edges.boundaries():
        settle(solution, edges, boundary)
    return solution


def solve_again(known: Solution, old: Edges, new: Edges, touched: Iterable[int]) -> Solution:
    """Solve what begins at some boundaries, and what changes with it; the rest stays as it is known.

    Args:
        old: the edges of what is known.
        new: the edges now, of the same window; they differ in what begins at the touched boundaries alone.
    """
    solution = Solution(
        known.end, known.hop, known.tail.copy(), known.stages.copy(), known.choice.copy(), known.stay.copy()
    )
    before = new.before()
    due, changed = set(touched), set[int]()
    for boundary in sorted(due | set(new.boundaries()), reverse=True):
        if boundary not in due:
            continue
        for _, node, _ in old.chains.get(boundary, ()):
            solution.stay.pop((node, boundary), None)
        settle(solution, new, boundary)
        choice = solution.choice.get(boundary)
        if (
            solution.tail.get(boundary) != known.tail.get(boundary)
            or choice != known.choice.get(boundary)
            or (choice is not None and choice[1] + 1 in changed)  # the same step, and another way behind it
            or boundary in old.chains
            or boundary in new.chains
        ):
            changed.add(boundary)
            due |= before.get(boundary, set())
    return solution


def settle(solution: Solution, edges: Edges, boundary: int) -> None:
    """Find what is best from one boundary, when all later ones are settled."""
    tail, best, choice = solution.tail, None, None
    for cost, node, last in edges.rows.get(boundary, ()):
        after = tail.get(last + 1)
        if after is None:
            continue
        total = cost + after
        if best is None or total < best:
            best, choice = total, (node, last)
        elif total == best and choice is not None and _precedes(solution, boundary, (node, last), choice):
            choice = node, last
    chained = edges.chains.get(boundary)
    runs = _runs(solution, boundary, chained) if chained else {}
    for node, (cost, after, last) in runs.items():
        total = cost + after
        if best is None or total < best:
            best, choice = total, (node, last)
        elif total == best and choice is not None and _precedes(solution, boundary, (node, last), choice):
            choice = node, last
    if best is None or choice is None:
        for table in (tail, solution.stages, solution.choice):
            table.pop(boundary, None)
    else:
        tail[boundary] = best + solution.hop
        solution.choice[boundary] = choice
        solution.stages[boundary] = 1 + _stages_after(solution, *choice)
    for node, (_, after, last) in runs.items():
        solution.stay[node, boundary] = _stay_or_leave(solution, node, boundary, after, last)


def _runs(solution: Solution, boundary: int, chained: Iterable[Edge]) -> Mapping[str, tuple[int, int, int]]:
    """The best fragment of each node that goes on into its own: its cost, what follows, and its last layer."""
    runs: dict[str, tuple[int, int, int]] = {}
    for cost, node, last in chained:
        after = _after(solution, node, last + 1)
        if after is None:
            continue
        known = runs.get(node)
        if known is not None and after == known[1]:
            if _precedes(solution, boundary, (node, last), (node, known[2])):
                runs[node] = cost, after, last
        elif known is None or after < known[1]:
            runs[node] = cost, after, last
    return runs


def _after(solution: Solution, node: str, boundary: int) -> int | None:
    """What a node pays from a boundary on, after a fragment of its own; None if nothing leads on."""
    stay = solution.stay.get((node, boundary))
    return solution.tail.get(boundary) if stay is None else stay[0]


def _stages_after(solution: Solution, node: str, last: int) -> int:
    """How many stages follow a node's own, after a fragment of it."""
    stay = solution.stay.get((node, last + 1))
    return solution.stages[last + 1] if stay is None else stay[1]


def _stay_or_leave(solution: Solution, node: str, boundary: int, after: int, last: int) -> tuple[int, int, int | None]:
    """Whether a node that has arrived goes on into its own fragment, or is left for what is best from there."""
    stages = _stages_after(solution, node, last)
    leaving = solution.tail.get(boundary)
    if leaving is None or (after, stages) < (leaving, solution.stages[boundary]):
        return after, stages, last
    if (after, stages) == (leaving, solution.stages[boundary]):
        (_, *ids), fragments = _story([(node, (boundary, last)), *solution.rest(node, last + 1)])
        if (ids, fragments) < _story(solution.path(boundary)):
            return after, stages, last
    return leaving, solution.stages[boundary], None


def _precedes(solution: Solution, boundary: int, one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether the first of two ways on from a boundary, which cost the same, comes first in the order."""
    stages = _stages_after(solution, *one), _stages_after(solution, *other)
    if stages[0] != stages[1]:
        return stages[0] < stages[1]
    if one[0] != other[0]:
        return one[0] < other[0]
    ways = (((node, (boundary, last)), *solution.rest(node, last + 1)) for node, last in (one, other))
    return _story(next(ways)) < _story(next(ways))


def _story(path: Iterable[tuple[str, Fragment]]) -> tuple[list[str], list[Fragment]]:
    """The ids, one a stage, and the fragments."""
    ids: list[str] = []
    fragments: list[Fragment] = []
    for node, fragment in path:
        if not ids or ids[-1] != node:
            ids.append(node)
        fragments.append(fragment)
    return ids, fragments
