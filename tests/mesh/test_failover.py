"""What becomes of a route when a node fails: the seed's section 6, step by step, each by example."""

from collections.abc import Iterable
from math import inf

import pytest

from lumbre.mesh import (
    Failover,
    InvalidTelemetry,
    NodeState,
    NoRouteAvailable,
    Route,
    RouteWeights,
    RoutingFailure,
    RoutingRequest,
    failover,
    score_route,
)
from mesh.failures import (
    GHOST,
    MODEL,
    Fragment,
    chain_of,
    node,
)

ONE = RouteWeights()
SMALLER = "smaller"


def routed(states: Iterable[NodeState], window: Fragment | None = None, prompt_tokens: int = 0) -> Route:
    return score_route(RoutingRequest(window, prompt_tokens), states, ONE, MODEL)


def after(
    route: Route,
    failed: str,
    states: Iterable[NodeState],
    redundancy_map: dict[int, tuple[str, ...]] | None = None,
    fallback_model: str | None = None,
) -> Failover:
    return failover(route, redundancy_map or {}, failed, states=states, weights=ONE, fallback_model=fallback_model)


def holding(first: int, last: int, *names: str) -> dict[int, tuple[str, ...]]:
    return dict.fromkeys(range(first, last + 1), names)


HEAD, MIDDLE, TAIL = node("head", (0, 3)), node("middle", (4, 7)), node("tail", (8, 11))
LINE = (HEAD, MIDDLE, TAIL)
SPARE = node("spare", (4, 7), latency_ms=9.0)


# 1. A node that takes no part.


@pytest.mark.parametrize("failed", ["spare", "nobody"])
def test_a_node_that_takes_no_part_gives_the_same_route_back(failed: str) -> None:
    route = routed((*LINE, SPARE))
    answer = after(route, failed, (*LINE, SPARE), fallback_model=SMALLER)
    assert answer.route is route
    assert not answer.degraded
    assert answer.reason.code == "not_in_route"
    assert answer.reason.es == "no participa en la ruta"


def test_a_node_that_takes_no_part_is_no_error_though_nothing_is_known_of_any_node() -> None:
    assert after(routed(LINE), "nobody", ()).reason.code == "not_in_route"


# 2. Which layers are lost.


def test_the_layers_of_a_failed_node_come_from_its_telemetry() -> None:
    answer = after(routed((*LINE, SPARE)), "middle", (*LINE, SPARE))
    assert answer.route.nodes == ("head", "spare", "tail")
    assert answer.reason.code == "replaced"
    assert not answer.degraded


def test_the_layers_of_a_failed_node_without_telemetry_come_from_the_redundancy_map() -> None:
    answer = after(routed((*LINE, SPARE)), "middle", (HEAD, SPARE, TAIL), holding(4, 7, "middle", "spare"))
    assert answer.route.nodes == ("head", "spare", "tail")
    assert answer.reason.code == "replaced"


def test_telemetry_that_is_there_wins_over_the_map() -> None:
    wrong = holding(0, 3, "middle")
    assert after(routed((*LINE, SPARE)), "middle", (*LINE, SPARE), wrong).reason.code == "replaced"


def test_a_node_that_neither_telemetry_nor_the_map_knows_has_the_whole_window_routed_again() -> None:
    answer = after(routed((*LINE, SPARE)), "middle", (HEAD, SPARE, TAIL))
    assert answer.route.nodes == ("head", "spare", "tail")
    assert answer.reason.code == "rerouted"


def test_a_failed_node_whose_telemetry_says_that_it_is_dead_still_names_its_layers() -> None:
    dead = node("middle", (4, 7), alive=False)
    assert after(routed((*LINE, SPARE)), "middle", (HEAD, dead, TAIL, SPARE)).reason.code == "replaced"


def test_lost_layers_outside_the_window_need_no_substitute() -> None:
    wide = node("wide", (0, 3), (4, 7), (8, 11))
    answer = after(routed((wide, SPARE), (4, 7)), "wide", (wide, SPARE))
    assert answer.route.nodes == ("spare",)
    assert answer.route.window == (4, 7)
    assert answer.reason.code == "replaced"


def test_a_copy_that_the_failed_node_held_and_did_not_run_changes_nothing_elsewhere() -> None:
    both = node("both", (0, 3), (8, 11), latency_ms=5.0)
    spare = node("spare", (0, 3), latency_ms=9.0)
    route = routed((both, MIDDLE, TAIL))
    assert route.nodes == ("both", "middle", "tail")
    answer = after(route, "both", (both, MIDDLE, TAIL, spare))
    assert answer.route.nodes == ("spare", "middle", "tail")
    assert answer.reason.code == "replaced"


# 3. Who takes their place.


def test_the_cheapest_live_holder_takes_the_place() -> None:
    cheap, dead = node("zz", (4, 7), latency_ms=8.0), node("aa", (4, 7), alive=False)
    assert after(routed(LINE), "middle", (*LINE, SPARE, cheap, dead)).route.nodes == ("head", "zz", "tail")


def test_holders_that_cost_the_same_go_by_id() -> None:
    twin = node("another", (4, 7), latency_ms=9.0)
    for states in ((*LINE, SPARE, twin), (twin, SPARE, *LINE)):
        assert after(routed(LINE), "middle", states).route.nodes == ("head", "another", "tail")


def test_a_holder_that_the_map_alone_names_is_not_alive() -> None:
    named = holding(4, 7, "middle", GHOST, "spare")
    assert after(routed(LINE), "middle", (*LINE, SPARE), named).route.nodes == ("head", "spare", "tail")
    with pytest.raises(RoutingFailure):
        after(routed(LINE), "middle", LINE, holding(4, 7, "middle", GHOST))


def test_a_holder_that_the_map_names_and_telemetry_says_is_dead_is_not_alive() -> None:
    states = (*LINE, node("spare", (4, 7), alive=False))
    with pytest.raises(RoutingFailure):
        after(routed(LINE), "middle", states, holding(4, 7, "middle", "spare"))


def test_a_holder_of_another_model_is_none() -> None:
    with pytest.raises(RoutingFailure):
        after(routed(LINE), "middle", (*LINE, node("spare", (4, 7), model="other")), holding(4, 7, "spare"))


def test_a_holder_that_the_map_names_and_that_holds_no_such_fragment_runs_nothing() -> None:
    # It is the cheapest holder by the map, but cannot be run: the whole window is routed again.
    idle = node("idle", latency_ms=0.0)
    answer = after(routed(LINE), "middle", (*LINE, SPARE, idle), holding(4, 7, "middle", "idle"))
    assert answer.route.nodes == ("head", "spare", "tail")
    assert answer.reason.code == "rerouted"


def test_a_dead_node_that_neither_failed_nor_was_asked_about_is_routed_around_as_well() -> None:
    dead, other = node("tail", (8, 11), alive=False), node("other", (8, 11), latency_ms=9.0)
    answer = after(routed(LINE), "middle", (HEAD, MIDDLE, dead, SPARE, other))
    assert answer.route.nodes == ("head", "spare", "other")
    assert answer.reason.code == "rerouted"


def test_several_substitutes_share_one_stretch() -> None:
    big, small = node("big", (0, 7)), (node("left", (0, 3), latency_ms=9.0), node("right", (4, 7), latency_ms=9.0))
    route = routed((big, *small, TAIL))
    assert route.nodes == ("big", "tail")
    answer = after(route, "big", (big, *small, TAIL))
    assert answer.route.nodes == ("left", "right", "tail")
    assert answer.reason.code == "replaced"
    assert [stage.fragments for stage in answer.route.stages] == [((0, 3),), ((4, 7),), ((8, 11),)]


def test_a_substitute_that_already_owns_a_later_stretch_reappears() -> None:
    tail = node("tail", (8, 11), (0, 3))
    answer = after(routed(LINE), "head", (HEAD, MIDDLE, tail))
    assert answer.route.nodes == ("tail", "middle", "tail")
    assert answer.reason.code == "replaced"
    assert answer.route.cost == 2.0 + 2.0 + 2.0 + 30.0


def test_a_substitute_that_owns_an_earlier_stretch_reappears_too() -> None:
    head = node("head", (0, 3), (8, 11))
    assert after(routed(LINE), "tail", (head, MIDDLE, TAIL)).route.nodes == ("head", "middle", "head")


@pytest.mark.parametrize(
    ("helper", "nodes", "fragments"),
    [
        (node("head", (0, 3), (4, 7)), ("head", "tail"), ((0, 3), (4, 7))),
        (node("tail", (8, 11), (4, 7)), ("head", "tail"), ((4, 7), (8, 11))),
    ],
)
def test_a_neighbour_that_takes_over_is_one_stage(
    helper: NodeState, nodes: tuple[str, ...], fragments: tuple[Fragment, ...]
) -> None:
    states = [helper if each.node_id == helper.node_id else each for each in LINE]
    answer = after(routed(LINE), "middle", states)
    assert answer.route.nodes == nodes
    assert answer.reason.code == "replaced"
    assert fragments in [stage.fragments for stage in answer.route.stages]
    assert answer.route.cost == 2.0 + 2.0 + 15.0


def test_both_neighbours_become_one_stage_if_they_are_one_node() -> None:
    before = (node("a", (0, 3), (8, 11)), node("b", (4, 7)))
    route = routed(before)
    assert route.nodes == ("a", "b", "a")
    answer = after(route, "b", (node("a", (0, 3), (4, 7), (8, 11)), before[1]))
    assert answer.route.nodes == ("a",)
    assert answer.route.hops == 0
    assert answer.route.cost == 2.0


def test_a_failed_node_that_comes_twice_is_replaced_twice() -> None:
    before = (node("a", (0, 3), (8, 11)), node("b", (4, 7)))
    spares = (node("c", (0, 3), latency_ms=9.0), node("d", (8, 11), latency_ms=9.0))
    answer = after(routed(before), "a", (*before, *spares))
    assert answer.route.nodes == ("c", "b", "d")


def test_what_cannot_be_run_fragment_by_fragment_is_replaced_by_a_whole_new_route() -> None:
    # Layers 4 and 5 are cheapest on one node, and nobody can go on from there.
    half, slow = node("half", (4, 5)), node("slow", (0, 7), latency_ms=90.0)
    answer = after(routed(LINE), "middle", (*LINE, half, slow))
    assert answer.route.nodes == ("slow", "tail")
    assert answer.reason.code == "rerouted"
    assert not answer.degraded
    assert not answer.route.degraded


def test_a_substitute_is_taken_by_its_cost_though_another_route_were_cheaper() -> None:
    # The seed substitutes in place; it does not look for the best route again.
    costly, whole = node("costly", (4, 7), latency_ms=500.0), node("whole", (0, 11), latency_ms=100.0)
    answer = after(routed(LINE), "middle", (*LINE, costly, whole), holding(4, 7, "costly"))
    assert answer.reason.code == "rerouted"  # layer by layer, `whole` is the cheapest, and cannot begin at 4
    assert answer.route.nodes == ("whole",)
    whole = node("whole", (0, 11), latency_ms=501.0)
    answer = after(routed(LINE), "middle", (*LINE, costly, whole))
    assert answer.reason.code == "replaced"
    assert answer.route.nodes == ("head", "costly", "tail")


def test_the_answer_keeps_the_window_the_model_and_the_prompt() -> None:
    for states in ((*LINE, SPARE), (HEAD, node("whole", (4, 11)), SPARE)):
        route = routed(LINE, (0, 11), prompt_tokens=1024)
        answer = after(route, "middle", states)
        assert (answer.route.window, answer.route.model, answer.route.prompt_tokens) == ((0, 11), MODEL, 1024)
        assert answer.route.cost > 10.0 + 15.0


def test_a_thousand_million_layers_are_not_walked_one_by_one() -> None:
    most = 10**9
    before = (node("a", (0, 9)), node("b", (10, most)))
    spare = node("c", (10, most), latency_ms=9.0)
    answer = after(routed(before), "b", (*before, spare), holding(10, 20, "b", "c"))
    assert answer.route.nodes == ("a", "c")
    assert answer.reason.code == "replaced"


# 4. When nobody can.


def test_without_a_smaller_model_it_is_a_failure() -> None:
    with pytest.raises(RoutingFailure) as caught:
        after(routed(LINE), "middle", LINE)
    assert "middle" in str(caught.value)


def test_with_a_smaller_model_the_survivors_run_it() -> None:
    answer = after(routed(LINE), "middle", LINE, fallback_model=SMALLER)
    assert answer.degraded
    assert answer.route.degraded
    assert answer.reason.code == "degraded"
    assert answer.route.nodes == ("head", "tail")
    assert [(stage.first, stage.last) for stage in answer.route.stages] == [(0, 3), (8, 11)]
    assert answer.route.model == SMALLER
    assert answer.route.cost == 2.0 + 2.0 + 15.0


def test_survivors_keep_the_order_in_which_they_run() -> None:
    line = (node("z", (0, 1)), node("m", (2, 3)), node("a", (4, 5)), node("n", (6, 7)))
    assert after(routed(line), "m", line, fallback_model=SMALLER).route.nodes == ("z", "a", "n")


def test_a_survivor_on_both_sides_of_the_lost_stage_is_named_once_and_one_further_on_again() -> None:
    line = (node("a", (0, 1), (4, 5), (8, 9)), node("lost", (2, 3)), node("b", (6, 7)))
    route = routed(line)
    assert route.nodes == ("a", "lost", "a", "b", "a")
    answer = after(route, "lost", line, fallback_model=SMALLER)
    assert answer.route.nodes == ("a", "b", "a")
    assert chain_of(answer.route) == (("a", (0, 1)), ("a", (4, 5)), ("b", (6, 7)), ("a", (8, 9)))


def test_a_node_that_is_dead_as_well_is_no_survivor() -> None:
    dead = node("tail", (8, 11), alive=False)
    assert after(routed(LINE), "middle", (HEAD, MIDDLE, dead), fallback_model=SMALLER).route.nodes == ("head",)
    assert after(routed(LINE), "middle", (HEAD, MIDDLE), fallback_model=SMALLER).route.nodes == ("head",)


def test_a_degraded_route_without_a_survivor_is_empty_and_costs_infinity() -> None:
    alone = (node("alone", (0, 3)),)
    answer = after(routed(alone, prompt_tokens=100), "alone", alone, fallback_model=SMALLER)
    assert answer.degraded
    assert answer.route.stages == ()
    assert answer.route.nodes == ()
    assert answer.route.hops == 0
    assert answer.route.cost == inf
    assert answer.route.model == SMALLER


def test_a_degraded_route_can_be_explained() -> None:
    left = after(routed(LINE), "middle", LINE, fallback_model=SMALLER).route
    told = left.explain().as_dict()
    assert (told["nodes"], told["degraded"], told["model"]) == (["head", "tail"], True, SMALLER)
    assert told["cost"] == left.cost == sum(stage["cost"] for stage in told["stages"]) + told["hop_cost"]
    assert told["without"] == {"head": None, "tail": None}
    alone = (node("alone", (0, 3)),)
    nobody = after(routed(alone), "alone", alone, fallback_model=SMALLER).route.explain().as_dict()
    assert (nobody["nodes"], nobody["stages"], nobody["cost"], nobody["without"]) == ([], [], None, {})


def test_a_degraded_route_that_loses_one_more_node_is_never_called_whole() -> None:
    left = after(routed(LINE), "middle", LINE, fallback_model=SMALLER).route
    spare = node("spare", (8, 11), latency_ms=9.0)
    states = (HEAD, node("middle", (4, 7), alive=False), TAIL, spare)
    answer = after(left, "tail", states, fallback_model="smallest")
    assert answer.degraded
    assert answer.route.degraded
    assert answer.route.nodes == ("head",)
    with pytest.raises(RoutingFailure):
        after(left, "tail", states)


def test_a_degraded_route_stays_degraded_when_an_idle_node_fails() -> None:
    left = after(routed(LINE), "middle", LINE, fallback_model=SMALLER).route
    answer = after(left, "middle", LINE)
    assert answer.route is left
    assert answer.reason.code == "not_in_route"
    assert answer.degraded


def test_every_reason_is_told_in_two_languages() -> None:
    route = routed((*LINE, SPARE))
    half = node("half", (4, 5))
    answers = [
        after(route, "nobody", LINE),
        after(route, "middle", (*LINE, SPARE)),
        after(route, "middle", (*LINE, half, SPARE)),
        after(route, "middle", LINE, fallback_model=SMALLER),
    ]
    assert [each.reason.code for each in answers] == ["not_in_route", "replaced", "rerouted", "degraded"]
    assert len({text for each in answers for text in (each.reason.en, each.reason.es)}) == 8


def test_two_nodes_of_one_id_are_refused() -> None:
    with pytest.raises(InvalidTelemetry):
        after(routed(LINE), "middle", (*LINE, SPARE, SPARE))


def test_the_states_may_be_any_iterable() -> None:
    assert after(routed(LINE), "middle", iter((*LINE, SPARE))).route.nodes == ("head", "spare", "tail")


def test_the_new_route_is_none_other_than_the_routers_own() -> None:
    half = node("half", (4, 5))
    answer = after(routed(LINE), "middle", (*LINE, half, SPARE))
    assert answer.reason.code == "rerouted"
    assert answer.route == routed((HEAD, TAIL, half, SPARE), (0, 11))
    with pytest.raises(NoRouteAvailable):
        routed((HEAD, TAIL, half), (0, 11))
