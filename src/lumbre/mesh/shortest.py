"""The cheapest chain of whole fragments from every boundary to the window's end: the seed's section 3. Pure.

A dynamic programme over the boundaries, from the last to the first, so that a tie is nearly always broken by the first
id alone. What is cheapest from a boundary is the same whoever comes there, but for a node that goes on into its own
next fragment: it pays no hop and no stage again, and is followed for itself.

The order: cost, then fewer stages, then the sequence of node ids, then that of the fragments. The first two are one key
(`edges`). Where even the fragments are the same and only their owners differ, a stage ends sooner rather than later.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from lumbre.mesh.edges import STAGE_BITS, Edges
from lumbre.mesh.reach import Fragment
from lumbre.mesh.route import Stage

Step = tuple[str, int]
"""A node that goes on from a boundary, and the last layer of its fragment."""


Stay = tuple[int, int, int]
"""What a node does best that has just run a fragment of its own: it goes on into the next. The key of what is to come
when it is left, the next fragment's last layer, and the boundary at which it is left."""


@dataclass(slots=True)
class Solution:
    """What is best from each boundary.

    Attributes:
        end: the boundary behind the last layer.
        hop: a hop's key.
        tail: by boundary, the key of what is to come for whoever arrives from another node, the hop included; 0 at the
            end. A boundary from which nothing leads to the end has none.
        choice: by boundary, the step that is taken.
        stay: by boundary, the nodes that have just run a fragment of their own and do best to go on into the next.
    """

    end: int
    hop: int
    tail: dict[int, int]
    choice: dict[int, Step]
    stay: dict[int, dict[str, Stay]]

    def cost(self, boundary: int) -> int:
        """What the best way from a boundary to the end costs, in millionths."""
        return (self.tail[boundary] - self.hop) >> STAGE_BITS

    def stages(self, boundary: int) -> tuple[Stage, ...]:
        """The best way from a boundary to the end."""
        stages = []
        while boundary != self.end:
            node, last = self.choice[boundary]
            fragments = [(boundary, last)]
            while last + 1 in self.stay and (stay := self.stay[last + 1].get(node)) is not None:
                fragments.append((last + 1, stay[1]))
                last = stay[1]
            stages.append(Stage(node, boundary, last, tuple(fragments)))
            boundary = last + 1
        return tuple(stages)

    def left_at(self, node: str, boundary: int) -> int:
        """Where a node is left that has just run a fragment of its own up to a boundary."""
        stay = self.stay[boundary].get(node) if boundary in self.stay else None
        return boundary if stay is None else stay[2]

    def onward(self, boundary: int) -> Iterator[tuple[str, int]]:
        """The nodes from a boundary on, one a stage, each with where it is left."""
        while boundary != self.end:
            node, last = self.choice[boundary]
            boundary = self.left_at(node, last + 1)
            yield node, boundary

    def path(self, step: Step, boundary: int) -> Iterator[tuple[Fragment, str]]:
        """The fragments from a boundary on at which this step is taken, each with its node."""
        node, last = step
        yield (boundary, last), node
        while last + 1 != self.end:
            boundary = last + 1
            stay = self.stay[boundary].get(node) if boundary in self.stay else None
            if stay is None:
                node, last = self.choice[boundary]
            else:
                last = stay[1]
            yield (boundary, last), node


def solve(edges: Edges, hop: int) -> Solution:
    """Solve for every boundary.

    Args:
        hop: what a change of node costs, in millionths.
    """
    end = edges.window[1] + 1
    solution = Solution(end, hop << STAGE_BITS, {end: 0}, {}, {})
    _settle(solution, edges, edges.boundaries())
    return solution


def solve_again(known: Solution, new: Edges, touched: Iterable[int]) -> Solution:
    """Solve what begins at some boundaries, and what changes with it; the rest stays as it is known.

    Args:
        new: the edges now, of the same window; they differ from those of what is known in what begins at the touched
            boundaries alone.
    """
    solution = Solution(known.end, known.hop, known.tail.copy(), known.choice.copy(), known.stay.copy())
    before = new.before()
    waiting, changed = set(touched), set[int]()
    due = [-boundary for boundary in waiting]
    heapify(due)
    while due:
        boundary = -heappop(due)
        for table in (solution.tail, solution.choice, solution.stay):
            table.pop(boundary, None)
        _settle(solution, new, (boundary,))
        if _differs(known, solution, boundary, changed):
            changed.add(boundary)
            for earlier in before.get(boundary, ()):
                if earlier not in waiting:
                    waiting.add(earlier)
                    heappush(due, -earlier)
    return solution


def _differs(known: Solution, solution: Solution, boundary: int, changed: set[int]) -> bool:
    """Whether what is best from a boundary has changed, be it by another way that costs the same."""
    for table, other in ((solution.tail, known.tail), (solution.choice, known.choice), (solution.stay, known.stay)):
        if table.get(boundary) != other.get(boundary):
            return True
    # The same step, and another way behind it.
    choice = solution.choice.get(boundary)
    stays = solution.stay.get(boundary, {}).values()
    return (choice is not None and choice[1] + 1 in changed) or any(stay[1] + 1 in changed for stay in stays)


def _settle(solution: Solution, edges: Edges, boundaries: Iterable[int]) -> None:
    """Find what is best from some boundaries, the last first, when all later ones are settled."""
    tail, choice, hop = solution.tail, solution.choice, solution.hop
    chained = bool(edges.leading)
    for boundary in boundaries:
        best: int | None = None
        node, last = "", boundary
        for key, its_node, its_last in edges.last.get(boundary, ()):
            after = tail.get(its_last + 1)
            if after is None:
                continue
            total = key + after
            if best is None or total < best:
                best, node, last = total, its_node, its_last
            elif total == best and _precedes(solution, boundary, (its_node, its_last), (node, last)):
                node, last = its_node, its_last
        if chained:
            # The loop above once more, but for what comes after; a call for each edge would cost as much as the rest.
            for key, its_node, its_last in edges.leading.get(boundary, ()):
                after = _after(solution, its_node, its_last + 1)
                if after is None:
                    continue
                total = key + after
                if best is None or total < best:
                    best, node, last = total, its_node, its_last
                elif total == best and _precedes(solution, boundary, (its_node, its_last), (node, last)):
                    node, last = its_node, its_last
        if best is not None:
            tail[boundary] = best + hop
            choice[boundary] = node, last
        # Without a leading fragment in the window nobody asks who stays.
        if chained and boundary in edges.following:
            _consider_staying(solution, edges, boundary)


def _after(solution: Solution, node: str, boundary: int) -> int | None:
    """The key of what is to come for a node at a boundary, after a fragment of its own; None if nothing leads on."""
    if boundary in solution.stay and (stay := solution.stay[boundary].get(node)) is not None:
        return stay[0]
    return solution.tail.get(boundary)


def _consider_staying(solution: Solution, edges: Edges, boundary: int) -> None:
    """Find the nodes that do better to go on from a boundary into a fragment of their own than to be left there."""
    leaving = solution.tail.get(boundary)
    stays: dict[str, Stay] = {}
    for _, node, last in edges.following[boundary]:
        after = _after(solution, node, last + 1)
        if after is None:
            continue
        known = stays.get(node)
        other = leaving if known is None else known[0]
        if other is None or after < other:
            is_better = True
        elif after > other:
            is_better = False
        elif known is None:
            step, left_at = solution.choice[boundary], boundary
            is_better = _comes_first(solution, boundary, (node, last), step, left_at)
        else:
            is_better = _comes_first(solution, boundary, (node, last), (node, known[1]), known[2])
        if is_better:
            stays[node] = after, last, solution.left_at(node, last + 1)
    if stays:
        solution.stay[boundary] = stays


def _precedes(solution: Solution, boundary: int, one: Step, other: Step) -> bool:
    """Whether the first of two steps from a boundary, whose keys are the same, comes first in the order."""
    if one[0] != other[0]:
        return one[0] < other[0]
    return _comes_first(solution, boundary, one, other, solution.left_at(other[0], other[1] + 1))


def _comes_first(solution: Solution, boundary: int, one: Step, other: Step, other_left_at: int) -> bool:
    """The same of two ways on for one node: the ids that follow it are compared, then the fragments.

    Both walk on only until they meet: what comes then is the same.

    Args:
        other_left_at: where the node is left if the second is taken; the boundary itself if that is another node's.
    """
    left_at = solution.left_at(one[0], one[1] + 1)
    ways = solution.onward(left_at), solution.onward(other_left_at)
    while left_at != other_left_at:
        (node, left_at), (other_node, other_left_at) = next(ways[0]), next(ways[1])
        if node != other_node:
            return node < other_node
    for (mine, node), (its, other_node) in zip(
        solution.path(one, boundary), solution.path(other, boundary), strict=False
    ):
        if mine != its:
            return mine < its
        if node == other_node:
            break
    return False
