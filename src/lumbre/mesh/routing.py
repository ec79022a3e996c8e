"""The router's one question: which nodes, in which order, for this request. Pure."""

from collections.abc import Iterable

from lumbre.mesh.route import Route, RoutingRequest
from lumbre.mesh.snapshot import RouteSnapshot
from lumbre.mesh.telemetry import NodeState
from lumbre.mesh.weights import RouteWeights


def score_route(request: RoutingRequest, states: Iterable[NodeState], weights: RouteWeights, model: str) -> Route:
    """The cheapest route for a request.

    Whoever asks again before the telemetry changes keeps a `RouteSnapshot` and asks that.

    Args:
        states: every node, in any order.
        model: whose layers are wanted; a node of another model takes no part.

    Raises:
        NoRouteAvailable: no chain of whole fragments of live nodes covers the window.
        InvalidTelemetry: two nodes have the same id.
    """
    return RouteSnapshot(states, weights, model, request.layer_range).route(request.prompt_tokens)
