"""What is promised of every failover, at random meshes, against trying everything."""

from collections.abc import Iterable
from itertools import groupby, pairwise
from math import inf

from hypothesis import event, given, settings
from hypothesis import strategies as st

from lumbre.mesh import Failover, NodeState, RouteWeights, RoutingFailure, failover
from mesh.failures import (
    GHOST,
    MODEL,
    Fragment,
    Incident,
    chain_of,
    chains,
    cheapest,
    incidents,
    price,
    stage_nodes,
    usable_states,
)

ONE = RouteWeights()
SMALLER = "smaller"


def answered(incident: Incident, fallback_model: str | None = SMALLER) -> Failover:
    return failover(
        incident.route,
        incident.redundancy_map,
        incident.failed,
        states=incident.states,
        weights=incident.weights,
        fallback_model=fallback_model,
    )


def can_run(chain: Iterable[tuple[str, Fragment]], nodes: dict[str, NodeState], window: Fragment) -> bool:
    """Whether these nodes, as they are now, run these fragments one after the other, and with them the window."""
    layer = window[0]
    for name, (first, last) in chain:
        if name not in nodes or (first, last) not in nodes[name].served_layers or first != layer:
            return False
        layer = last + 1
    return layer == window[1] + 1


def lost_layers(incident: Incident) -> set[int]:
    """The failed node's layers: as its telemetry has them, else as the map does."""
    for each in incident.states:
        if each.node_id == incident.failed:
            return {layer for first, last in each.served_layers for layer in range(first, last + 1)}
    return {layer for layer, names in incident.redundancy_map.items() if incident.failed in names}


def layer_by_layer(incident: Incident) -> tuple[str, ...] | None:
    """The seed's step 3 layer by layer: the nodes of the stages, or None if that cannot be run."""
    others, lost = incident.others, lost_layers(incident)
    owners: list[tuple[str, int]] = []
    for stage in incident.route.stages:
        for layer in range(stage.first, stage.last + 1):
            owner = stage.node_id
            if owner == incident.failed:
                holders = [
                    (price((name,), others, incident.weights, 0), name)
                    for name, each in others.items()
                    if name in incident.redundancy_map.get(layer, ())
                    or any(first <= layer <= last for first, last in each.served_layers)
                ]
                if layer not in lost or not holders:
                    return None
                owner = min(holders)[1]
            owners.append((owner, layer))
    stages = []
    for owner, run in groupby(owners, key=lambda each: each[0]):
        layers = [layer for _, layer in run]
        if owner not in others or not any(chains((others[owner],), (layers[0], layers[-1]))):
            return None
        stages.append(owner)
    return tuple(stages)


@settings(max_examples=150)
@given(incidents())
def test_every_answer_that_is_not_degraded_can_be_run_fragment_by_fragment(incident: Incident) -> None:
    answer = answered(incident)
    event(answer.reason.code)
    assert answer.degraded == answer.route.degraded == (answer.reason.code == "degraded")
    if not answer.degraded:
        assert can_run(chain_of(answer.route), incident.others, incident.route.window)
        for stage in answer.route.stages:
            assert (stage.first, stage.last) == (stage.fragments[0][0], stage.fragments[-1][1])


@given(incidents(), st.sampled_from((None, SMALLER)))
def test_every_answer_avoids_the_failed_node(incident: Incident, fallback_model: str | None) -> None:
    try:
        answer = answered(incident, fallback_model)
    except RoutingFailure:
        return
    assert incident.failed not in answer.route.nodes


@settings(max_examples=150)
@given(incidents())
def test_it_fails_if_and_only_if_no_route_is_left_in_the_window(incident: Incident) -> None:
    try:
        answer = answered(incident, None)
    except RoutingFailure:
        assert not incident.chains()
        return
    assert incident.chains()
    assert not answer.degraded


@settings(max_examples=300)
@given(incidents())
def test_the_substitution_is_layer_by_layer_and_else_the_best_new_route(incident: Incident) -> None:
    answer, expected, others = answered(incident), layer_by_layer(incident), incident.others
    event(answer.reason.code)
    if expected is not None:
        # Equal neighbours are one stage, and a node that comes back later is not left out.
        assert answer.reason.code == "replaced"
        assert answer.route.nodes == expected
    elif found := incident.chains():
        assert answer.reason.code == "rerouted"
        assert chain_of(answer.route) == cheapest(found, others, incident.weights)
    else:
        assert answer.reason.code == "degraded"


@given(incidents())
def test_only_consecutive_stages_of_one_node_collapse(incident: Incident) -> None:
    answer = answered(incident)
    if not answer.degraded:
        names = answer.route.nodes
        assert all(left != right for left, right in pairwise(names))
        assert names == stage_nodes(chain_of(answer.route))


@given(incidents())
def test_an_answer_costs_what_its_stages_cost_now(incident: Incident) -> None:
    route = answered(incident).route
    states = {each.node_id: each for each in incident.states}
    expected = price(route.nodes, states, incident.weights, incident.route.prompt_tokens) if route.nodes else None
    assert route.micro == expected
    assert route.prompt_tokens == incident.route.prompt_tokens
    assert route.window == incident.route.window


@given(incidents())
def test_a_degraded_answer_is_the_live_survivors_in_their_order(incident: Incident) -> None:
    answer = answered(incident)
    if answer.degraded:
        alive = {each.node_id for each in incident.states if each.alive} - {incident.failed}
        left = [(name, fragment) for name, fragment in chain_of(incident.route) if name in alive]
        assert chain_of(answer.route) == tuple(left)
        assert answer.route.nodes == stage_nodes(tuple(left))
        assert answer.route.model == SMALLER
        assert (answer.route.cost == inf) == (not answer.route.stages)
    else:
        assert answer.route.model == MODEL


@given(incidents(), st.sampled_from((*"abcde", GHOST)))
def test_a_node_outside_the_route_gives_the_same_object_back(incident: Incident, idle: str) -> None:
    if idle not in incident.route.nodes:
        answer = failover(incident.route, incident.redundancy_map, idle, states=incident.states, weights=ONE)
        assert answer.route is incident.route
        assert answer.reason.code == "not_in_route"
        assert not answer.degraded


@given(incidents())
def test_neither_the_order_of_the_nodes_nor_of_the_map_changes_the_answer(incident: Incident) -> None:
    turned = {layer: tuple(reversed(names)) for layer, names in reversed(list(incident.redundancy_map.items()))}
    again = Incident(incident.route, incident.failed, incident.before, incident.states[::-1], turned, incident.weights)
    one, other = answered(incident), answered(again)
    assert (one.route.stages, one.route.micro, one.reason) == (other.route.stages, other.route.micro, other.reason)


@given(incidents(), st.data())
def test_a_second_failure_keeps_every_promise_of_the_first(incident: Incident, data: st.DataObject) -> None:
    first = answered(incident)
    if first.degraded:
        return
    dead = tuple(each for each in incident.states if each.node_id != incident.failed)
    failed = data.draw(st.sampled_from(first.route.nodes))
    left = list(chains(usable_states(dead, MODEL, without=failed).values(), first.route.window))
    try:
        second = failover(first.route, incident.redundancy_map, failed, states=dead, weights=incident.weights)
    except RoutingFailure:
        assert not left
        return
    assert not {failed, incident.failed} & set(second.route.nodes)
    assert can_run(chain_of(second.route), usable_states(dead, MODEL, without=failed), first.route.window)
