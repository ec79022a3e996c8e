"""The mesh router: which nodes run a request's layers, in which order, and what becomes of that when one fails. Pure.

telemetry   what a node says of itself
weights     how much each part of the cost counts
cost        what a stage, a hop and a prompt cost
edges       the cheapest holder of each fragment
shortest    the cheapest chain of whole fragments from each boundary
snapshot    both for one moment's telemetry, asked by any number of requests
failover    the route after a node has failed
holding     who can answer for the layers of a node that has failed
explanation, resilience, reach: why it is so, and what it hangs on
"""

from lumbre.mesh.cost import route_cost, stage_cost
from lumbre.mesh.errors import InvalidTelemetry, NoRouteAvailable, RoutingFailure
from lumbre.mesh.failover import Failover, failover
from lumbre.mesh.resilience import Resilience, resilience
from lumbre.mesh.route import Route, RoutingRequest, Stage
from lumbre.mesh.routing import score_route
from lumbre.mesh.snapshot import RouteSnapshot
from lumbre.mesh.telemetry import NodeState, states_from
from lumbre.mesh.weights import PROFILES, RouteWeights

__all__ = [
    "PROFILES",
    "Failover",
    "InvalidTelemetry",
    "NoRouteAvailable",
    "NodeState",
    "Resilience",
    "Route",
    "RouteSnapshot",
    "RouteWeights",
    "RoutingFailure",
    "RoutingRequest",
    "Stage",
    "failover",
    "resilience",
    "route_cost",
    "score_route",
    "stage_cost",
    "states_from",
]
