"""What becomes of a route when one of its nodes fails: the seed's section 6, step by step. Pure; the orchestrator acts.

1. A node that takes no part changes nothing.
2. The lost layers are the failed node's own, or those for which the map names it, inside the route's window.
3. Each has its cheapest live holder. They take the failed node's place if that can be run fragment by fragment; if it
   cannot, the whole window is solved again without the node.
4. If that fails too, what is left runs a smaller model, or nothing does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter

from lumbre.mesh.cost import hop_micro, stage_micro
from lumbre.mesh.errors import NoRouteAvailable, RoutingFailure
from lumbre.mesh.holding import LostLayers, RedundancyMap, cheapest_holders, tiling
from lumbre.mesh.route import Course, Route, Stage
from lumbre.mesh.snapshot import RouteSnapshot
from lumbre.mesh.telemetry import NodeState
from lumbre.mesh.weights import RouteWeights


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a failover ended as it did.

    Attributes:
        code: `not_in_route`, `replaced`, `rerouted` or `degraded`.
    """

    code: str
    en: str
    es: str


NOT_IN_ROUTE = Reason("not_in_route", "it takes no part in the route", "no participa en la ruta")
REPLACED = Reason("replaced", "others take over its layers in its place", "otros asumen sus capas en su lugar")
REROUTED = Reason("rerouted", "the whole window was routed again without it", "se ha vuelto a trazar la ruta sin él")
DEGRADED = Reason(
    "degraded",
    "its layers are lost; the survivors run the smaller model",
    "se han perdido sus capas; los supervivientes ejecutan el modelo menor",
)


@dataclass(frozen=True, slots=True)
class Failover:
    """The route after a failure.

    Attributes:
        degraded: it does not cover the window and runs the smaller model.
    """

    route: Route
    degraded: bool
    reason: Reason


def failover(
    route: Route,
    redundancy_map: RedundancyMap,
    failed_node: str,
    *,
    states: Iterable[NodeState],
    weights: RouteWeights,
    fallback_model: str | None = None,
) -> Failover:
    """Answer the failure of a node.

    Args:
        states: every node as it is now; the failed one counts as dead whatever it says.
        fallback_model: the smaller model that the survivors can run; None: there is none.

    Raises:
        RoutingFailure: nobody can take its place and there is no smaller model.
        InvalidTelemetry: two nodes have the same id.
    """
    if failed_node not in route.nodes:
        return Failover(route, degraded=route.degraded, reason=NOT_IN_ROUTE)
    given = tuple(states)
    now = tuple(replace(each, alive=False) if each.node_id == failed_node else each for each in given)
    snapshot = RouteSnapshot(now, weights, route.model, route.window)
    stages = None if route.degraded else _substituted(route, redundancy_map, failed_node, snapshot)
    if stages is not None:
        return Failover(_route(route, stages, snapshot), degraded=False, reason=REPLACED)
    try:
        if not route.degraded:  # such a one runs another model, whose layers these are not
            return Failover(snapshot.route(route.prompt_tokens), degraded=False, reason=REROUTED)
        why: NoRouteAvailable | None = None
    except NoRouteAvailable as error:
        why = error
    if fallback_model is None:
        raise _failure(route, redundancy_map, failed_node, snapshot, why) from why
    left = _route(route, _survivors(route, snapshot), snapshot, fallback_model)
    return Failover(left, degraded=True, reason=DEGRADED)


def _failure(
    route: Route, redundancy_map: RedundancyMap, failed_node: str, snapshot: RouteSnapshot, why: NoRouteAvailable | None
) -> RoutingFailure:
    lost = LostLayers(redundancy_map, failed_node, snapshot)
    runs = cheapest_holders(route.window, lost, redundancy_map, snapshot)
    missing = [run for run, holder in runs if holder is None and run[0] in lost]
    told = "the route was a degraded one already" if why is None else why.message
    message = f"{failed_node!r} failed, and nobody can take its place: {told}"
    return RoutingFailure(message, gaps=missing)


def _substituted(
    route: Route, redundancy_map: RedundancyMap, failed_node: str, snapshot: RouteSnapshot
) -> tuple[Stage, ...] | None:
    """Step 3: the cheapest holder of each lost layer in the failed node's place; None if that cannot run."""
    lost = LostLayers(redundancy_map, failed_node, snapshot)
    parts: list[_Part] = []
    for stage in route.stages:
        if stage.node_id != failed_node:
            parts.append((stage.node_id, stage.first, stage.last))
            continue
        for (first, last), holder in cheapest_holders((stage.first, stage.last), lost, redundancy_map, snapshot):
            if holder is None:
                return None
            parts.append((holder[1], first, last))
    stages = []
    for node_id, first, last in _collapsed(parts):
        fragments = tiling(snapshot.holders.parts(snapshot.states.get(node_id)), first, last)
        if fragments is None:
            return None
        stages.append(Stage(node_id, first, last, fragments))
    return tuple(stages)


_Part = tuple[str, int, int]
"""A node, and the first and last layer that it is to run."""


def _collapsed(parts: Iterable[_Part]) -> Iterator[_Part]:
    """The parts with neighbours of one node put together; a node that comes back later comes back."""
    for node_id, group in groupby(parts, key=itemgetter(0)):
        run = list(group)
        yield node_id, run[0][1], run[-1][2]


def _route(
    route: Route, stages: tuple[Stage, ...], snapshot: RouteSnapshot, fallback_model: str | None = None
) -> Route:
    """A route of these stages, priced by the telemetry of now."""
    cost = None
    if stages:
        cost = sum(stage_micro(snapshot.states[stage.node_id], snapshot.weights) for stage in stages)
        cost += (len(stages) - 1) * hop_micro(snapshot.weights)
    degraded = fallback_model is not None
    model = route.model if fallback_model is None else fallback_model
    course = Course(model, route.window, stages, cost, degraded=degraded, weights=snapshot.weights)
    return Route(course, snapshot, route.prompt_tokens)


def _survivors(route: Route, snapshot: RouteSnapshot) -> tuple[Stage, ...]:
    """The stages of nodes that live, whatever they hold by now, in order; neighbours of one node are put together."""
    live = [each for each in route.stages if (state := snapshot.states.get(each.node_id)) is not None and state.alive]
    stages = []
    for node_id, group in groupby(live, key=attrgetter("node_id")):
        run = list(group)
        fragments = tuple(fragment for stage in run for fragment in stage.fragments)
        stages.append(Stage(node_id, run[0].first, run[-1].last, fragments))
    return tuple(stages)
