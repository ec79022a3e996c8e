"""What the mesh cannot do without. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lumbre.mesh.reach import Fragment, Window, reachable, usable
from lumbre.mesh.snapshot import RouteSnapshot


@dataclass(frozen=True, slots=True)
class Resilience:
    """What hangs on one node, and what is held for nothing.

    Attributes:
        window: the layers that are looked at; None where nothing is served.
        has_route: there is a route through the window.
        indispensable: nodes whose loss leaves no route; all of them are named only where there is a route.
        held_once: runs of layers that one live node alone holds, with that node.
        idle: fragments that no route through the window can ever run, with their node.
    """

    window: Window | None
    has_route: bool
    indispensable: tuple[str, ...]
    held_once: tuple[tuple[Fragment, str], ...]
    idle: tuple[tuple[str, Fragment], ...]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "window": None if self.window is None else list(self.window),
            "has_route": self.has_route,
            "indispensable": list(self.indispensable),
            "held_once": [{"layers": list(layers), "node_id": node} for layers, node in self.held_once],
            "idle": [{"node_id": node, "fragment": list(fragment)} for node, fragment in self.idle],
        }


def resilience(snapshot: RouteSnapshot) -> Resilience:
    """Look at a snapshot's window."""
    window, holders = snapshot.window, snapshot.holders
    if window is None:
        return Resilience(None, False, (), (), ())
    held = {state.node_id: holders.parts(state) for state in snapshot.states.values() if holders.parts(state)}
    fragments = holders.fragments()
    useful = usable(fragments, window)
    has_route = window[1] + 1 in reachable(fragments, window)
    # Who is indispensable is on every route, so those of one are enough.
    candidates = set(snapshot.route().nodes) if has_route else set()
    indispensable = sorted(node for node in candidates if not _goes_without(held, node, window))
    idle = sorted((node, part) for node, parts in held.items() for part in set(parts) if part not in useful)
    return Resilience(window, has_route, tuple(indispensable), _held_once(held.items(), window), tuple(idle))


def _goes_without(held: dict[str, tuple[Fragment, ...]], lost: str, window: Window) -> bool:
    left = {part for node, parts in held.items() if node != lost for part in parts}
    return window[1] + 1 in reachable(left, window)


def _held_once(
    held: Iterable[tuple[str, tuple[Fragment, ...]]], window: Window
) -> tuple[tuple[tuple[int, int], str], ...]:
    """Runs of layers with one holder: counted only where some node begins or ends to hold."""
    changes: dict[int, list[tuple[str, int]]] = {}
    for node, parts in held:
        for first, last in parts:
            changes.setdefault(first, []).append((node, 1))
            changes.setdefault(last + 1, []).append((node, -1))
    counts: dict[str, int] = {}
    alone: list[tuple[tuple[int, int], str]] = []
    begun, holder = window[0], None
    for layer in [*sorted(changes), window[1] + 1]:
        until = min(layer - 1, window[1])
        if holder is not None and begun <= until:
            if alone and alone[-1][1] == holder and alone[-1][0][1] == begun - 1:
                alone[-1] = ((alone[-1][0][0], until), holder)
            else:
                alone.append(((begun, until), holder))
        for node, step in changes.get(layer, ()):
            counts[node] = counts.get(node, 0) + step
            if not counts[node]:
                del counts[node]
        begun = max(layer, window[0])
        holder = next(iter(counts)) if len(counts) == 1 else None
    return tuple(alone)
