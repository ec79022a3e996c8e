"""What a stage and a list of nodes cost, by the seed's section 2, and where float64 ends."""

import json
import sys
from math import inf, isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.mesh import NodeState, RouteWeights, RoutingRequest, route_cost, score_route, stage_cost

GPU = NodeState("gpu", 9.5, 1.0, 10.0, ((0, 3),))
MINI = NodeState("mini", 6.8, 0.2, 20.0, ((0, 3), (4, 7)))
LAPTOP = NodeState("laptop", 9.7, 0.05, 20.0, ((8, 11),))
NODES = (GPU, MINI, LAPTOP)


def test_a_stage_costs_what_the_seeds_example_says() -> None:
    assert [stage_cost(state, RouteWeights()) for state in NODES] == [139.5, 35.8, 20.7]


def test_a_list_of_nodes_costs_its_stages_its_hops_and_its_prompt() -> None:
    assert route_cost(("gpu", "mini", "laptop"), NODES, RouteWeights()) == 226.0
    assert route_cost(("mini", "laptop"), NODES, RouteWeights()) == 71.5
    assert route_cost(["mini", "laptop"], iter(NODES), RouteWeights(prompt=0.5), prompt_tokens=2048) == 81.5
    assert route_cost((), NODES, RouteWeights()) == inf


def test_a_node_that_nobody_knows_has_no_cost() -> None:
    with pytest.raises(ValueError, match="'other'"):
        route_cost(("mini", "other"), NODES, RouteWeights())


def test_the_cost_of_a_route_is_the_cost_of_its_nodes() -> None:
    route = score_route(RoutingRequest(prompt_tokens=512), NODES, RouteWeights(hop=0.3), "m")
    assert route.cost == route_cost(route.nodes, NODES, RouteWeights(hop=0.3), 512)


@pytest.mark.parametrize("knob", ["latency", "load", "capacity", "hop", "prompt"])
def test_a_weight_at_the_end_of_what_a_float_holds_makes_a_route_dear_and_no_error(knob: str) -> None:
    weights = RouteWeights(**{knob: sys.float_info.max})
    route = score_route(RoutingRequest(prompt_tokens=10**9), NODES, weights, "m")
    assert route.nodes == ("mini", "laptop")
    assert route.cost > 1e300
    assert json.loads(json.dumps(route.explain().as_dict(), allow_nan=False))["nodes"] == ["mini", "laptop"]


@given(st.lists(st.floats(0, allow_infinity=False), min_size=5, max_size=5))
def test_whatever_the_weights_the_cheapest_route_costs_no_more_than_another(knobs: list[float]) -> None:
    weights = RouteWeights(*knobs)
    best = score_route(RoutingRequest(), NODES, weights, "m")
    other = route_cost(("gpu", "mini", "laptop"), NODES, weights)
    assert best.cost <= other
    assert isfinite(best.cost) or other == inf


@pytest.mark.parametrize("knob", ["latency", "load", "capacity", "hop", "prompt"])
@pytest.mark.parametrize("value", [3**40, 10**300, 10**307])
def test_a_whole_number_weighs_what_its_float_weighs(knob: str, value: int) -> None:
    states = (NodeState("a", 10**9, 10**9, 0, ((0, 3),)), NodeState("b", 7, 3, 11, ((4, 7),)))
    request = RoutingRequest(prompt_tokens=999_983)
    route = score_route(request, states, RouteWeights(**{knob: value}), "m")
    assert route == score_route(request, states, RouteWeights(**{knob: float(value)}), "m")
    assert route.cost > 0
