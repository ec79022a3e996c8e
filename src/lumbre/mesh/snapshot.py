"""The telemetry of one moment with everything that follows from it: solved once, asked by any number of requests. Pure.

A snapshot never changes. When a node says something new, `with_node` makes the next one, and solves again only the
boundaries at which the node's fragments begin, and those before them whose answer changes with them.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import astuple, replace

from lumbre.mesh.cost import hop_micro
from lumbre.mesh.edges import Edges, Holders, edges_of
from lumbre.mesh.errors import InvalidTelemetry, NoRouteAvailable
from lumbre.mesh.explanation import Detour, Explanation, explanation
from lumbre.mesh.reach import Window, dead_ends, layers, missing_layers
from lumbre.mesh.route import Course, Route, check_tokens, check_window
from lumbre.mesh.shortest import Solution, solve, solve_again
from lumbre.mesh.telemetry import MOST, NodeState, first_twice
from lumbre.mesh.weights import RouteWeights

_DIGEST_CHARS = 16


class RouteSnapshot:
    """The best route over these nodes.

    Args:
        states: every node, in any order.
        model: whose layers are wanted; a node of another model takes no part.
        layer_range: the layers that are wanted; None: from the first to the last that a live node serves.

    Attributes:
        states: by id.
        window: the layers that are wanted; None where that is left open and nothing is served.

    Raises:
        InvalidTelemetry: two nodes have the same id.
        ValueError: the window is none.
    """

    def __init__(
        self, states: Iterable[NodeState], weights: RouteWeights, model: str, layer_range: Window | None = None
    ) -> None:
        if layer_range is not None:
            check_window(layer_range)
        given = states if isinstance(states, list | tuple) else tuple(states)
        self.states = {state.node_id: state for state in given}
        if len(self.states) != len(given):
            twice = first_twice(given) or 0
            raise InvalidTelemetry(f"[{twice}].node_id", f"{given[twice].node_id!r} is there already")
        self.weights = weights
        self.model = model
        self.holders = Holders(given, weights, model)
        self.window = layer_range or self.holders.served()
        self._layer_range = layer_range
        self._course: Course | None = None
        self._edges = edges_of(self.holders, self.window or (0, 0))
        self._solution = solve(self._edges, hop_micro(weights))

    def route(self, prompt_tokens: int = 0) -> Route:
        """The best route for a prompt.

        Args:
            prompt_tokens: 0 or more; they move the cost and never the path.

        Raises:
            NoRouteAvailable: no chain of whole fragments covers the window.
            ValueError: that is no number of tokens.
        """
        if type(prompt_tokens) is not int or not 0 <= prompt_tokens <= MOST:
            check_tokens(prompt_tokens)  # says what is wrong
        return Route(self._course or self._best(), self, prompt_tokens)

    def with_node(self, state: NodeState) -> "RouteSnapshot":
        """The snapshot in which a node says this, be it new or known."""
        return self._following(state, self._layer_range)

    def without(self, node_id: str) -> "RouteSnapshot":
        """The snapshot of the same window in which a node is dead.

        Raises:
            KeyError: there is no such node.
        """
        return self._following(replace(self.states[node_id], alive=False), self.window)

    def explain(self, route: Route) -> Explanation:
        """What a route of this snapshot costs, term by term, and what there is without each of its nodes."""
        without: dict[str, Detour | None] = {}
        for node_id in dict.fromkeys(route.nodes):
            try:
                other = self.without(node_id).route(route.prompt_tokens)
                without[node_id] = Detour(other.nodes, other.cost)
            except NoRouteAvailable:
                without[node_id] = None
        return explanation(route, self.states, without, self.digest())

    def digest(self) -> str:
        """Names this telemetry: equal for equal nodes, weights, model and window, in whatever order they came."""
        told = []
        for _, each in sorted(self.states.items()):
            numbers = [float(number) + 0.0 for number in (each.latency_ms, each.current_load, each.capacity_score)]
            told.append((each.node_id, *numbers, sorted(set(each.served_layers)), each.alive, each.model))
        whole = repr((told, tuple(map(float, astuple(self.weights))), self.model, self.window))
        return hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_CHARS]

    def _best(self) -> Course:
        if self.window is None or self.window[0] not in self._solution.choice:
            raise self._no_route()
        first = self.window[0]
        stages, cost = self._solution.stages(first), self._solution.cost(first)
        self._course = Course(self.model, self.window, stages, cost, degraded=False, weights=self.weights)
        return self._course

    def _following(self, state: NodeState, layer_range: Window | None) -> "RouteSnapshot":
        known = self.states.get(state.node_id)
        old, new = self.holders.parts(known), self.holders.parts(state)
        holders = self.holders.replacing(known, state)
        window = layer_range or (self.window if old == new else holders.served())
        if window is None or window != self.window:
            states = {**self.states, state.node_id: state}
            return RouteSnapshot(tuple(states.values()), self.weights, self.model, layer_range)
        touched = {part for part in (*old, *new) if window[0] <= part[0] and part[1] <= window[1]}
        edges = self._edges.with_holders(holders, touched)
        solution = solve_again(self._solution, edges, {first for first, _ in touched})
        return self._made(state, layer_range, holders, edges, solution)

    def _made(
        self, state: NodeState, layer_range: Window | None, holders: Holders, edges: Edges, solution: Solution
    ) -> "RouteSnapshot":
        made = object.__new__(RouteSnapshot)
        made.states = {**self.states, state.node_id: state}
        made.weights, made.model, made.window = self.weights, self.model, self.window
        made.holders = holders
        made._layer_range = layer_range
        made._course = None
        made._edges = edges
        made._solution = solution
        return made

    def _no_route(self) -> NoRouteAvailable:
        window = self.window
        if window is None:
            message = f"no route for layers (none): no live node serves a layer of {self.model!r}"
            return NoRouteAvailable(message, window=None)
        fragments = self.holders.fragments()
        missing = missing_layers(fragments, window)
        stops = () if missing else dead_ends(fragments, window)
        if missing:
            why = f"no live node covers {layers(missing)}"
        else:
            at = layers([(stop, stop) for stop in stops])
            why = f"every path stops at {at}, where no fragment begins that ends inside the window"
        message = f"no route for layers [{window[0]}, {window[1]}] of {self.model!r}: {why}"
        return NoRouteAvailable(message, window=window, gaps=missing, dead_ends=stops)
