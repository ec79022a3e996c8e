"""A snapshot against a fresh solve and the oracle, through any sequence of changes; and what it explains."""

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.mesh import NodeState, NoRouteAvailable, RouteSnapshot, RouteWeights
from mesh.meshes import (
    IDS,
    MODEL,
    Answer,
    Mesh,
    answer,
    expectation,
    meshes,
    node,
    node_states,
    random_change,
    random_mesh,
    stretches,
)

SEEDED = 600
"""Meshes of which each goes through some changes."""

CHANGES = 8


def snapshot_of(mesh: Mesh) -> RouteSnapshot:
    """The snapshot of a mesh."""
    return RouteSnapshot(mesh.states, mesh.weights, mesh.model, mesh.layer_range)


def told(snapshot: RouteSnapshot, mesh: Mesh) -> Answer:
    """What a snapshot answers to the request of a mesh."""
    return answer(lambda: snapshot.route(mesh.prompt_tokens))


def changed(mesh: Mesh, state: NodeState) -> Mesh:
    """The mesh in which a node says this, be it new or known."""
    return replace(mesh, states=(*(each for each in mesh.states if each.node_id != state.node_id), state))


def killed(mesh: Mesh, node_id: str) -> Mesh:
    """The mesh in which a node is dead, over the same window."""
    states = tuple(replace(each, alive=each.alive and each.node_id != node_id) for each in mesh.states)
    return replace(mesh, states=states, layer_range=mesh.window)


def test_each_snapshot_of_a_sequence_answers_as_a_fresh_solve_and_the_oracle_do_and_old_ones_as_before() -> None:
    random, seen = Random(3), Counter[str]()
    for _ in range(SEEDED):
        mesh = random_mesh(random)
        snapshot = snapshot_of(mesh)
        kept = [(mesh, snapshot, told(snapshot, mesh))]
        for _ in range(CHANGES):
            mesh = changed(mesh, random_change(random, mesh.states))
            snapshot = snapshot.with_node(mesh.states[-1])
            now = told(snapshot, mesh)
            assert now == answer(mesh.route) == mesh.expected(), (kept[0][0], mesh)
            seen["another path"] += now.stages != kept[-1][2].stages
            seen["the same path at another cost"] += now.stages == kept[-1][2].stages and now.micro != kept[-1][2].micro
            seen["a route is lost"] += now.stages is None and kept[-1][2].stages is not None
            seen["a route is found"] += now.stages is not None and kept[-1][2].stages is None
            seen["another window"] += now.window != kept[-1][2].window
            kept.append((mesh, snapshot, now))
        for old_mesh, old, answered in kept:
            assert told(old, old_mesh) == answered
            assert old.digest() == snapshot_of(old_mesh).digest()
    assert len(seen) == 5
    assert min(seen.values()) > 100, seen


def test_a_node_without_which_is_asked_is_dead_over_the_same_window() -> None:
    random, routes = Random(4), Counter[bool]()
    for _ in range(2 * SEEDED):
        mesh = random_mesh(random)
        snapshot = snapshot_of(mesh)
        for state in mesh.states:
            survivors = killed(mesh, state.node_id)
            without = snapshot.without(state.node_id)
            now = told(without, mesh)
            assert now == answer(survivors.route) == survivors.expected(), (mesh, state.node_id)
            assert now.window == mesh.window
            # What comes next is solved over that window too.
            again = changed(survivors, random_change(random, survivors.states))
            assert told(without.with_node(again.states[-1]), again) == again.expected(), (mesh, again)
            routes[now.stages is not None] += 1
        assert told(snapshot, mesh) == mesh.expected()
    assert min(routes.values()) > 500


@given(meshes, st.lists(st.sampled_from(IDS).flatmap(node_states), max_size=5))
def test_any_sequence_of_what_nodes_may_say_ends_where_a_fresh_solve_does(mesh: Mesh, says: list[NodeState]) -> None:
    snapshot = snapshot_of(mesh)
    for state in says:
        mesh, snapshot = changed(mesh, state), snapshot.with_node(state)
        assert told(snapshot, mesh) == answer(mesh.route) == mesh.expected()


def test_a_change_behind_a_step_that_stays_the_same_is_told_to_the_boundaries_before_it() -> None:
    states = node("a", (0, 0), (0, 1)), node("p", (1, 3), (2, 2)), node("y", (3, 4)), node("z", (4, 4))
    mesh = Mesh(states)
    snapshot = snapshot_of(mesh)
    assert snapshot.route().nodes == ("a", "p", "y")

    # All of these cost the same. From layer 1 on it is still p first, and what follows is now before y.
    newcomer = node("Z", (4, 4))
    after = snapshot.with_node(newcomer)

    assert after.route().nodes == ("a", "p", "Z")
    assert after.with_node(replace(newcomer, alive=False)).route() == snapshot.route()


def test_a_change_behind_a_node_that_goes_on_is_told_to_the_boundaries_before_it() -> None:
    states = node("a", (0, 0), (1, 1), (0, 2)), node("y", (3, 4)), node("z", (2, 4))
    mesh = Mesh(states)
    snapshot = snapshot_of(mesh)
    assert snapshot.route().nodes == ("a", "y")

    after = snapshot.with_node(node("Z", (2, 4)))

    assert after.route().nodes == ("a", "Z")
    assert after.without("Z").route() == snapshot.route()


def test_a_node_that_no_longer_goes_on_is_told_to_the_boundaries_before_it() -> None:
    states = node("a", (0, 0), (1, 1), latency=40), node("y", (1, 2)), node("w", (3, 3)), node("z", (2, 3))
    mesh = Mesh(states)
    snapshot = snapshot_of(mesh)
    assert snapshot.route().nodes == ("a", "z")

    # Whoever comes to layer 1 from another node takes y, now as before.
    busy = snapshot.with_node(replace(states[-1], current_load=1.0))

    assert (busy.route().nodes, busy.route().cost) == (("a", "y", "w"), 41.0 + 15 + 11 + 15 + 11)
    assert told(busy.with_node(states[-1]), mesh) == mesh.expected()


def test_a_change_far_behind_a_node_that_goes_on_is_told_to_the_boundaries_before_it() -> None:
    ties = node("a", (0, 0), (1, 1), (0, 2)), node("p", (2, 4), (3, 3)), node("y", (4, 5)), node("z", (5, 5))
    mesh = Mesh((*ties, node("x", (1, 2), latency=0)))
    snapshot = snapshot_of(mesh)
    assert stretches(snapshot.route())[0] == ("a", 0, 2, ((0, 2),))

    # At the same cost a now goes on at layer 1, where whoever else comes takes x, now as before.
    after = snapshot.with_node(node("Z", (5, 5)))

    assert after.route().nodes == ("a", "p", "Z")
    assert stretches(after.route())[0] == ("a", 0, 1, ((0, 0), (1, 1)))


def test_a_snapshot_serves_every_prompt_with_the_path_of_a_fresh_solve() -> None:
    mesh = Mesh((node("a", (0, 3)), node("b", (4, 7))))
    snapshot = snapshot_of(mesh)
    for prompt_tokens in (0, 1, 1023, 1024, 10**9):
        asked = replace(mesh, prompt_tokens=prompt_tokens)
        assert snapshot.route(prompt_tokens) == asked.route()
        assert told(snapshot, asked) == asked.expected()


def test_the_states_of_a_snapshot_are_what_the_nodes_said_last() -> None:
    a, b = node("a", (0, 3)), node("b", (0, 3))
    first = RouteSnapshot((a,), RouteWeights(), MODEL)

    second = first.with_node(b).with_node(replace(a, current_load=0.5))

    assert dict(first.states) == {"a": a}
    assert dict(second.states) == {"a": replace(a, current_load=0.5), "b": b}


@given(meshes, st.randoms(use_true_random=False))
def test_the_digest_is_the_same_in_whatever_order_the_nodes_come(mesh: Mesh, random: Random) -> None:
    shuffled = replace(mesh, states=tuple(random.sample(mesh.states, len(mesh.states))))
    digest = snapshot_of(mesh).digest()
    assert snapshot_of(shuffled).digest() == digest
    grown = RouteSnapshot((), mesh.weights, mesh.model, mesh.layer_range)
    for state in shuffled.states:
        grown = grown.with_node(state)
    assert grown.digest() == digest


def test_the_digest_differs_when_anything_differs_that_matters() -> None:
    a, b = node("a", (0, 3)), node("b", (4, 7), model=MODEL)
    mesh = Mesh((a, b), layer_range=(0, 7))
    others = [
        replace(mesh, model="other"),
        replace(mesh, layer_range=(0, 3)),
        replace(mesh, states=(a,)),
        *(
            replace(mesh, weights=replace(mesh.weights, **{name: 2.0}))
            for name in ("latency", "load", "capacity", "hop", "prompt")
        ),
        *(
            replace(mesh, states=(other, b))
            for other in (
                *(replace(a, node_id="aa"), replace(a, alive=False), replace(a, model=MODEL)),
                *(replace(a, latency_ms=10.000001), replace(a, current_load=1e-9), replace(a, capacity_score=99.0)),
                *(replace(a, served_layers=((0, 2),)), replace(a, served_layers=((0, 3), (4, 7)))),
            )
        ),
    ]
    digests = [snapshot_of(each).digest() for each in (mesh, *others)]
    assert len(set(digests)) == len(digests)


def test_the_digest_overlooks_what_is_only_shown_and_how_a_number_is_written() -> None:
    said = {
        "node_id": "a",
        "latency_ms": 10,
        "current_load": 0,
        "capacity_score": 100,
        "alive": True,
        "served_layers": [[0, 3], [4, 7]],
    }
    talkative = {**said, "latency_ms": 10.0, "served_requests": 12, "load": 0.7}
    shuffled = {**said, "current_load": -0.0, "served_layers": [[4, 7], [0, 3], [4, 7]]}
    digests = {
        RouteSnapshot((NodeState.from_dict(each),), RouteWeights(), MODEL).digest()
        for each in (said, talkative, shuffled)
    }
    assert len(digests) == 1


def test_what_is_explained_sums_up_and_says_what_there_is_without_each_node() -> None:
    random, seen = Random(5), Counter[str]()
    for _ in range(SEEDED):
        mesh = random_mesh(random)
        best = mesh.expected()
        if best.stages is None:
            continue
        route = mesh.route()
        why = route.explain()
        assert why.route == route
        assert why.route.stages == tuple(each.stage for each in why.stages)
        assert stretches(route) == best.stages
        for each in why.stages:
            assert each.latency + each.load + each.capacity == pytest.approx(each.cost, rel=1e-12, abs=1e-6)
        total = sum(each.cost for each in why.stages) + why.hop_cost + why.prefill_cost
        assert total == pytest.approx(route.cost, rel=1e-12, abs=1e-5)
        assert why.digest == snapshot_of(mesh).digest()
        assert list(why.without) == list(dict.fromkeys(route.nodes))
        for node_id, other in why.without.items():
            survivors = killed(mesh, node_id)
            expected = expectation(survivors.ranking(), mesh.window)
            if expected.stages is None or expected.micro is None:
                assert other is None
            else:
                assert other is not None
                assert other.nodes == tuple(stage[0] for stage in expected.stages)
                assert other.cost == expected.micro / 1_000_000
            seen["no route" if other is None else "another"] += 1
    assert min(seen["no route"], seen["another"]) > 50


def test_the_seeds_example_is_explained_term_by_term() -> None:
    gpu = node("gpu", (0, 3), latency=9.5, load=1.0, score=10)
    mini = node("mini", (0, 3), (4, 7), latency=6.8, load=0.2, score=20)
    laptop = node("laptop", (8, 11), latency=9.7, load=0.05, score=20)

    mesh = Mesh((gpu, mini, laptop), prompt_tokens=1024)
    said = mesh.route().explain().as_dict()

    mini_runs = {"first": 0, "last": 7, "fragments": [[0, 3], [4, 7]]}
    laptop_runs = {"first": 8, "last": 11, "fragments": [[8, 11]]}
    assert said == {
        "model": MODEL,
        "window": [0, 11],
        "nodes": ["mini", "laptop"],
        "stages": [
            {"node_id": "mini", **mini_runs, "latency": 6.8, "load": 24.0, "capacity": 5.0, "cost": 35.8},
            {"node_id": "laptop", **laptop_runs, "latency": 9.7, "load": 6.0, "capacity": 5.0, "cost": 20.7},
        ],
        "hops": 1,
        "hop_cost": 15.0,
        "prefill_cost": 10.0,
        "cost": 81.5,
        "degraded": False,
        "snapshot": snapshot_of(mesh).digest(),
        "without": {"mini": None, "laptop": None},
    }
    assert json.loads(json.dumps(said)) == said


def test_what_there_is_without_a_node_is_told_with_its_nodes_and_cost() -> None:
    said = Mesh((node("a", (0, 3)), node("b", (0, 3), latency=20))).route().explain().as_dict()

    assert said["without"] == {"a": {"nodes": ["b"], "cost": 21.0}}


@given(meshes)
def test_every_explanation_is_json_and_its_text_names_every_stage(mesh: Mesh) -> None:
    try:
        route = mesh.route()
    except NoRouteAvailable:
        return
    why = route.explain()
    said: dict[str, Any] = why.as_dict()
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    assert said["nodes"] == [stage["node_id"] for stage in said["stages"]]
    assert set(said["without"]) == set(said["nodes"])
    lines = str(why).splitlines()
    for stage in route.stages:
        assert any(line.split()[:2] == [stage.node_id, f"{stage.first}-{stage.last}"] for line in lines)
    assert why.digest in lines[-1]
    for node_id in said["without"]:
        assert any(line.startswith(f"without {node_id}: ") for line in lines)
