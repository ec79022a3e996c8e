"""What a mesh cannot do without, against trying everything: every node removed, every chain walked."""

import json
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lumbre.mesh import NodeState, Resilience, RouteSnapshot, RouteWeights, resilience
from mesh.failures import MODEL, WINDOWS, Fragment, chains, meshes, node, usable_states

WIDE = 10**9


def report(states: tuple[NodeState, ...], window: Fragment | None) -> Resilience:
    return resilience(RouteSnapshot(states, RouteWeights(), MODEL, window))


windows = st.sampled_from(WINDOWS)


def served(states: tuple[NodeState, ...], window: Fragment | None) -> Fragment | None:
    layers = [layer for each in usable_states(states, MODEL).values() for part in each.served_layers for layer in part]
    return window or ((min(layers), max(layers)) if layers else None)


@given(meshes(), windows)
def test_a_node_is_indispensable_if_there_is_a_route_and_none_without_it(
    states: tuple[NodeState, ...], layer_range: Fragment | None
) -> None:
    found, window = report(states, layer_range), served(states, layer_range)
    assert found.window == window
    live = usable_states(states, MODEL)
    has_route = window is not None and any(chains(live.values(), window))
    assert found.has_route == has_route
    expected = [
        name
        for name in sorted(live)
        if window is not None
        and has_route
        and not any(chains(usable_states(states, MODEL, without=name).values(), window))
    ]
    assert list(found.indispensable) == expected


@given(meshes(), windows)
def test_a_layer_is_held_once_if_one_live_node_has_a_fragment_with_it(
    states: tuple[NodeState, ...], layer_range: Fragment | None
) -> None:
    window = served(states, layer_range)
    alone: list[tuple[int, str]] = []
    for layer in range(window[0], window[1] + 1) if window else ():
        holders = [
            name
            for name, each in usable_states(states, MODEL).items()
            if any(first <= layer <= last for first, last in each.served_layers)
        ]
        if len(holders) == 1:
            alone.append((layer, holders[0]))
    told = report(states, layer_range).held_once
    assert [(layer, name) for (first, last), name in told for layer in range(first, last + 1)] == alone
    # Runs are as long as they can be.
    assert not any(a[1] == b[1] and a[0][1] + 1 == b[0][0] for a, b in pairwise(told))


@given(meshes(), windows)
def test_a_fragment_is_idle_if_no_chain_through_the_window_runs_it(
    states: tuple[NodeState, ...], layer_range: Fragment | None
) -> None:
    window, live = served(states, layer_range), usable_states(states, MODEL)
    run = {part for chain in chains(live.values(), window) for part in chain} if window else set()
    held = {(name, part) for name, each in live.items() for part in each.served_layers}
    assert list(report(states, layer_range).idle) == sorted(held - run)


@given(meshes(), windows, st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_changes_nothing(
    states: tuple[NodeState, ...], layer_range: Fragment | None, dice: Random
) -> None:
    shuffled = list(states)
    dice.shuffle(shuffled)
    assert report(tuple(shuffled), layer_range) == report(states, layer_range)


def test_a_mesh_that_hangs_on_one_node_says_which() -> None:
    states = (node("head", (0, 3)), node("spare", (0, 3)), node("tail", (4, 7), (6, 7)), node("late", (6, 7)))
    assert report(states, None) == Resilience(
        window=(0, 7),
        has_route=True,
        indispensable=("tail",),
        held_once=(((4, 5), "tail"),),
        idle=(("late", (6, 7)), ("tail", (6, 7))),
    )


def test_a_stretch_that_two_hold_parts_the_runs_of_the_one_that_holds_all() -> None:
    assert report((node("z", (0, 5)), node("a", (2, 3))), None).held_once == (((0, 1), "z"), ((4, 5), "z"))


def test_nodes_are_named_in_the_order_of_their_ids() -> None:
    states = (node("z", (0, 1)), node("m", (2, 3)), node("a", (4, 5)), node("y", (6, 9)), node("b", (8, 9)))
    found = report(states, (0, 5))
    assert found.indispensable == ("a", "m", "z")
    assert found.idle == (("b", (8, 9)), ("y", (6, 9)))


def test_without_a_route_no_node_is_called_indispensable_and_every_fragment_is_idle() -> None:
    states = (node("head", (0, 3)), node("dead", (4, 7), alive=False))
    found = report(states, (0, 7))
    assert not found.has_route
    assert found.indispensable == ()
    assert found.held_once == (((0, 3), "head"),)
    assert found.idle == (("head", (0, 3)),)


def test_a_fragment_that_reaches_past_the_window_holds_its_layers_and_is_idle() -> None:
    states = (node("all", (0, 7)), node("past", (4, 11)))
    found = report(states, (0, 7))
    assert found.held_once == (((0, 3), "all"),)
    assert found.idle == (("past", (4, 11)),)


def test_a_mesh_that_serves_nothing_has_no_window() -> None:
    assert report((), None) == Resilience(None, False, (), (), ())
    assert report((node("a", (0, 3), alive=False),), None).window is None


def test_nothing_is_counted_layer_by_layer() -> None:
    found = report((node("a", (0, WIDE - 1)), node("b", (WIDE, WIDE))), None)
    assert found.held_once == (((0, WIDE - 1), "a"), ((WIDE, WIDE), "b"))
    assert found.indispensable == ("a", "b")


@given(meshes(), windows)
def test_the_report_is_json(states: tuple[NodeState, ...], layer_range: Fragment | None) -> None:
    found = report(states, layer_range)
    said = found.as_dict()
    assert json.loads(json.dumps(said)) == said
    assert said["window"] == (None if found.window is None else list(found.window))
    assert said["has_route"] is found.has_route
    assert tuple(said["indispensable"]) == found.indispensable
    assert [(tuple(each["layers"]), each["node_id"]) for each in said["held_once"]] == list(found.held_once)
    assert [(each["node_id"], tuple(each["fragment"])) for each in said["idle"]] == list(found.idle)
