"""Random meshes and the failure of a node in them, and what trying everything finds out about them.

Nothing here knows how the router works: chains are found by walking every fragment, and priced from the seed's
section 2 alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product

from hypothesis import assume
from hypothesis import strategies as st

from lumbre.mesh import PROFILES, NodeState, NoRouteAvailable, Route, RouteWeights, RoutingRequest, score_route

Fragment = tuple[int, int]
Chain = tuple[tuple[str, Fragment], ...]
"""Fragments in the order in which they run, each with its node."""

MODEL = "m"
NAMES = ("a", "b", "c", "d", "e")
GHOST = "ghost"
"""A node that no telemetry ever knows."""

EVEN = ((0, 1), (0, 3), (0, 5), (2, 3), (2, 5), (4, 5))
ODD = ((0, 0), (0, 2), (1, 2), (1, 5), (3, 4), (3, 5), (5, 5), (4, 6))
WINDOWS = (None, None, (0, 5), (0, 3), (2, 5), (2, 3))
LAYERS = range(7)

# One draw each, since a draw is what takes the time. Few different numbers, so that equal costs are common.
_fragments = st.lists(st.sampled_from(EVEN * 3 + ODD), max_size=3).map(tuple)
_numbers = st.sampled_from(
    [
        *product((1, 1.0, 6.4, 30.0), (0.0, 0.2), (100.0, 13.0)),
        *((0, 0, 0), (0.0, 0.0, 100), (1.0, 1e6, 13.0), (1e9, 1e9, 0.001)),
    ]
)
_kinds = st.sampled_from(
    [*[(True, None)] * 5, *[(True, MODEL)] * 3, (True, "other"), (False, None)],
)
_weights = st.sampled_from((*PROFILES.values(), RouteWeights(hop=0.0), RouteWeights(0.0, 0.3, 0.1, 0.0, 0.0)))


def node(
    node_id: str, *layers: Fragment, latency_ms: float = 1.0, alive: bool = True, model: str | None = None
) -> NodeState:
    """A node without load and of score 100: with the weights left as they are, a stage on it costs `latency_ms` + 1."""
    return NodeState(node_id, latency_ms, 0.0, 100.0, layers, alive, model)


@st.composite
def _states(draw: st.DrawFn, node_id: str) -> NodeState:
    return NodeState(node_id, *draw(_numbers), draw(_fragments), *draw(_kinds))


@st.composite
def meshes(draw: st.DrawFn) -> tuple[NodeState, ...]:
    """One to five nodes of some fragments each. In most of them layers 0 to 5 are held besides, in pieces, once to
    three times, so that routes and replicas are common.
    """
    states = [draw(_states(name)) for name in NAMES[: draw(st.integers(1, len(NAMES)))]]
    for piece in ((0, 1), (2, 3), (4, 5)) * draw(st.sampled_from((0, 1, 2, 2, 3))):
        place = draw(st.integers(0, len(states) - 1))
        states[place] = replace(states[place], served_layers=(*states[place].served_layers, piece))
    return tuple(states if draw(st.booleans()) else states[::-1])


def usable_states(states: Iterable[NodeState], model: str, *, without: str | None = None) -> dict[str, NodeState]:
    """The nodes that may run this model's layers, by id."""
    return {
        each.node_id: each for each in states if each.alive and each.node_id != without and each.model in (None, model)
    }


def chains(nodes: Iterable[NodeState], window: Fragment) -> Iterator[Chain]:
    """Every way through the window by whole fragments of these nodes."""
    parts = [(each.node_id, fragment) for each in nodes for fragment in sorted(set(each.served_layers))]

    def onward(layer: int, so_far: Chain) -> Iterator[Chain]:
        if layer == window[1] + 1:
            yield so_far
        for name, (first, last) in parts:
            if first == layer and last <= window[1]:
                yield from onward(last + 1, (*so_far, (name, (first, last))))

    return onward(window[0], ())


def chain_of(route: Route) -> Chain:
    """What a route runs."""
    return tuple((stage.node_id, fragment) for stage in route.stages for fragment in stage.fragments)


def stage_nodes(chain: Chain) -> tuple[str, ...]:
    """One id a stage: consecutive fragments of a node are one."""
    return tuple(name for name, _ in groupby(chain, key=lambda part: part[0]))


def price(names: Sequence[str], states: Mapping[str, NodeState], weights: RouteWeights, prompt_tokens: int) -> int:
    """What stages on these nodes cost, in millionths; each term is rounded once."""
    total = round(1e6 * (weights.prompt * 10 * prompt_tokens / 1024))
    for name in names:
        state = states[name]
        weakness = weights.capacity * (100 / max(state.capacity_score, 0.01))
        total += round(1e6 * (weights.latency * state.latency_ms + weights.load * state.current_load * 120 + weakness))
    return total + round(1e6 * (weights.hop * 15)) * (len(names) - 1)


def cheapest(found: Iterable[Chain], states: Mapping[str, NodeState], weights: RouteWeights) -> Chain:
    """The best of some chains: by cost, stages, node ids, fragments, and then the one that hands over sooner."""

    def rank(chain: Chain) -> tuple[int, int, tuple[str, ...], tuple[Fragment, ...], tuple[int, ...]]:
        names, owners = stage_nodes(chain), tuple(name for name, _ in chain)
        handovers = tuple(place for place, (one, other) in enumerate(pairwise(owners)) if one != other)
        return price(names, states, weights, 0), len(names), names, tuple(part for _, part in chain), handovers

    return min(found, key=rank)


@dataclass(frozen=True)
class Incident:
    """A route, the node that fails, and what is known of the mesh by then.

    Attributes:
        before: the telemetry that the route was made from.
        states: the telemetry now; nodes may be missing, dead, or hold other fragments than before.
    """

    route: Route
    failed: str
    before: tuple[NodeState, ...]
    states: tuple[NodeState, ...]
    redundancy_map: dict[int, tuple[str, ...]]
    weights: RouteWeights

    @property
    def others(self) -> dict[str, NodeState]:
        """Who could run something now."""
        return usable_states(self.states, MODEL, without=self.failed)

    def chains(self) -> list[Chain]:
        """Every route that there is without the failed node."""
        return list(chains(self.others.values(), self.route.window))


@st.composite
def _later(draw: st.DrawFn, state: NodeState) -> NodeState | None:
    """What a node says later: mostly the same."""
    what = draw(st.sampled_from(("same",) * 10 + ("dead", "gone", "busy", "moved")))
    match what:
        case "dead":
            return replace(state, alive=False)
        case "gone":
            return None
        case "busy":
            return replace(state, current_load=0.7)
        case "moved":
            return replace(state, served_layers=draw(_fragments))
        case _:
            return state


@st.composite
def _redundancy_maps(draw: st.DrawFn, before: tuple[NodeState, ...]) -> dict[int, tuple[str, ...]]:
    true = {
        layer: tuple(each.node_id for each in before if any(a <= layer <= b for a, b in each.served_layers))
        for layer in LAYERS
    }
    kind = draw(st.sampled_from(("true", "true", "none", "noisy")))
    if kind == "none":
        return {}
    if kind == "noisy":
        named = st.lists(st.sampled_from((*NAMES, GHOST)), max_size=3).map(tuple)
        true.update(draw(st.dictionaries(st.sampled_from(LAYERS), named, max_size=3)))
    return true


@st.composite
def incidents(draw: st.DrawFn) -> Incident:
    """The failure of a node that takes part in its route."""
    before, weights = draw(meshes()), draw(_weights)
    request = RoutingRequest(draw(st.sampled_from(WINDOWS)), draw(st.sampled_from((0, 700))))
    try:
        route = score_route(request, before, weights, MODEL)
    except NoRouteAvailable:
        route = None
    assume(route is not None)
    assert route is not None
    later = [draw(_later(each)) for each in before]
    now = [each for each in later if each is not None]
    if draw(st.booleans()):
        now.reverse()
    failed = draw(st.sampled_from(route.nodes))
    return Incident(route, failed, before, tuple(now), draw(_redundancy_maps(before)), weights)
