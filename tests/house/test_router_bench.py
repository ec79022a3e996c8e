"""`bench/router`: the yardstick, the meshes, the report as a pure function, one quick run, and the sweep of the weights
against what is committed. Nothing here depends on a time.
"""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.page import DOCS, put_into
from bench.router import places, sweep
from bench.router.dijkstra import cheapest
from bench.router.meshes import ALIGNED, CASES, KINDS, MULTI, Size, mesh
from bench.router.plot import INKS, drawing
from bench.router.report import GOALS, report
from bench.router.run import MARK, PAGE
from bench.router.timing import (
    AGAIN,
    COLD,
    DIJKSTRA,
    FULL,
    QUICK,
    SERVED,
    WEIGHTS,
    Disagreement,
    Figures,
    Times,
    check,
    measure,
)

from lumbre.mesh import PROFILES, NodeState, RouteWeights, RoutingRequest, score_route

ROOT = Path(__file__).parents[2]
ABOUT = {"date": "today", "machine": "this one", "software": "what there is", "command": "it"}
SMALL = [case for case in CASES if case.nodes <= 100]


def micro(cost_ms: float) -> int:
    return round(cost_ms * 1e6)


def node(name: str, latency_ms: float, *layers: tuple[int, int], alive: bool = True) -> NodeState:
    """A node whose stage costs its latency and 1 ms."""
    return NodeState(name, latency_ms, 0.0, 100.0, layers, alive)


def test_the_yardstick_pays_a_node_once_for_fragments_that_follow_each_other() -> None:
    assert cheapest([node("a", 5, (0, 3), (4, 7))], WEIGHTS, (0, 7)) == micro(6)


def test_the_yardstick_pays_hops_and_a_node_that_comes_back() -> None:
    states = [node("a", 5, (0, 3), (8, 11)), node("b", 7, (4, 7))]
    assert cheapest(states, WEIGHTS, (0, 11)) == micro(6 + 15 + 8 + 15 + 6)


def test_the_yardstick_uses_no_dead_node_and_no_fragment_past_the_window() -> None:
    states = [node("a", 1, (0, 7), alive=False), node("b", 1, (0, 8)), node("c", 9, (0, 7))]
    assert cheapest(states, WEIGHTS, (0, 7)) == micro(10)
    assert cheapest(states[:2], WEIGHTS, (0, 7)) is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}, {case.name}")
def test_a_mesh_has_as_many_nodes_and_fragments_as_it_says(case: Size) -> None:
    states = mesh(case)
    assert len({state.node_id for state in states}) == len(states) == case.nodes
    assert {len(state.served_layers) for state in states} == {3 if case.kind == MULTI else 1}


@pytest.mark.parametrize("case", SMALL, ids=lambda case: f"{case.kind}, {case.name}")
def test_a_mesh_is_the_same_every_time(case: Size) -> None:
    assert mesh(case) == mesh(case)


def test_aligned_nodes_share_their_cuts() -> None:
    assert len({state.served_layers for state in mesh(Size(ALIGNED, 1000, 128))}) == 8


def test_some_of_three_fragments_follow_each_other_and_some_do_not() -> None:
    follow = [
        any(after[0] == before[1] + 1 for before, after in pairwise(sorted(state.served_layers)))
        for state in mesh(Size(MULTI, 1000, 128))
    ]
    assert {True, False} == set(follow)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: f"{case.kind}, {case.name}")
@pytest.mark.parametrize("weights", [PROFILES[name] for name in ("fast_lan", "heterogeneous")], ids=["lan", "uneven"])
def test_the_router_and_the_yardstick_agree_with_other_weights_too(case: Size, weights: RouteWeights) -> None:
    states = mesh(case)
    route = score_route(RoutingRequest(case.window), states, weights, "model")
    assert route.micro == cheapest(states, weights, case.window)


def test_a_disagreement_ends_the_run() -> None:
    case = SMALL[0]
    with pytest.raises(Disagreement, match="random, 3 × 12: the router's route costs 1, the yardstick's"):
        check(case, mesh(case), 1)


def times(*rounds_us: float) -> Times:
    return Times([[round(us * 1000)] * 3 for us in rounds_us])


def figures(cold_us: float = 20.0, *, again_us: float = 100.0) -> Figures:
    """A run in which everything takes the same in each of three rounds, on two sizes of mesh."""
    cases = [Size(kind, nodes, layers) for nodes, layers in ((16, 32), (1000, 128)) for kind in KINDS]
    row = {COLD: times(*[cold_us] * 3), AGAIN: times(*[again_us] * 3), SERVED: times(0.5), DIJKSTRA: times(90)}
    return {case: dict(row) for case in cases}


def goal_lines(run: Figures) -> dict[str, list[str]]:
    """What the report says of each goal, by its name."""
    lines = [line.strip("| ").split(" | ") for line in report(run, ABOUT).splitlines() if line.startswith("| ")]
    return {words[0]: words[1:] for words in lines if words[0] in {goal.what for goal in GOALS}}


def test_the_quietest_round_counts_and_the_spread_is_told() -> None:
    seen = times(12, 30, 10)
    seen.rounds[-1].append(20_000)
    assert (seen.p50_us, seen.p99_us, seen.spread) == (10, 20, 2)
    run = figures()
    assert "lay up to 0% above the quietest's." in report(run, ABOUT)
    run[next(iter(run))][COLD] = seen
    assert "lay up to 200% above the quietest's: the machine was busy" in report(run, ABOUT)


def test_a_row_has_the_times_and_the_ratios() -> None:
    row = "| random | 16 × 32 | 20.0 | 20.0 | 100 | 100 | 0.50 | 0.50 | 90.0 | 90.0 | 4.5 | 0.2 |"
    assert row in report(figures(), ABOUT).splitlines()


def test_a_goal_that_is_missed_is_said_to_be() -> None:
    said = goal_lines(figures(cold_us=26.0, again_us=301.0))
    assert said["cold, random, 16 × 32"] == ["≤ 25 µs", "26.0 µs", "**no**"]
    assert said["cold, three fragments, 16 × 32"] == ["≤ 62.5 µs", "26.0 µs", "yes"]
    assert said["cold, aligned, 1000 × 128"][-1] == "yes"
    assert said["one node changed, random, 1000 × 128"][-1] == "**no**"


def test_the_slowest_mesh_counts_for_what_a_snapshot_serves() -> None:
    run = figures()
    run[next(iter(run))][SERVED] = times(1.5)
    assert goal_lines(run)["from a snapshot, the slowest"] == ["≤ 1 µs", "1.50 µs", "**no**"]


def test_a_mesh_that_was_left_out_reaches_no_goal() -> None:
    assert goal_lines(figures())["cold, random, 10000 × 128"] == ["≤ 20,000 µs", "", "not timed"]


def test_a_round_times_every_mesh_in_every_way_and_checks_the_costs() -> None:
    plan = replace(QUICK, rounds=1, most_nodes=16)
    run = measure(plan, lambda _: None)
    assert list(run) == [case for case in CASES if case.nodes <= 16]
    for case, by_asked in run.items():
        for asked, seen in by_asked.items():
            assert [len(calls) for calls in seen.rounds] == [plan.repetitions(case, asked)]


def test_the_full_run_has_the_largest_meshes_and_enough_calls_for_a_percentile() -> None:
    assert FULL.cases() == CASES
    assert all(FULL.repetitions(case, asked) >= 100 for case in CASES for asked in (COLD, AGAIN, SERVED))


def test_a_quick_run_gives_every_row_and_every_goal() -> None:
    argv = [sys.executable, "-m", "bench.router.run", "--quick"]
    done = subprocess.run(argv, cwd=ROOT, text=True, capture_output=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert {(words[0], words[1]) for words in rows} >= {(case.kind, case.name) for case in QUICK.cases()}
    assert {words[0] for words in rows} >= {goal.what for goal in GOALS}
    assert "round 1 of 2" in done.stderr


def test_text_is_put_between_its_own_marks_and_nothing_else_changes() -> None:
    page = "a\n<!-- one -->\n\nold\n\n<!-- /one -->\nb\n<!-- two -->\n\nkept\n\n<!-- /two -->\n"
    assert put_into(page, "one", "new\n") == page.replace("old", "new")


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<!-- one -->",
        "<!-- /one --><!-- one -->",
        "<!-- one --><!-- one --><!-- /one -->",
        "<!-- one --><!-- /one -->" * 2,
    ],
)
def test_a_page_without_its_two_marks_is_not_written(page: str) -> None:
    with pytest.raises(ValueError, match="once each"):
        put_into(page, "one", "new")


def test_the_page_of_measurements_has_its_place_for_the_tables() -> None:
    assert "new words" in put_into(PAGE.read_text(encoding="utf-8"), MARK, "new words")


def test_the_recorded_meshes_are_what_their_seed_gives() -> None:
    assert places.record() == places.FILE.read_text(encoding="utf-8")
    meshes = places.recorded()
    assert len(meshes) == len(places.PLACES) * places.MOMENTS
    assert {len(states) for states in meshes} == {3, 8, 16}


def test_every_recorded_layer_has_two_holders_or_more() -> None:
    for place in places.PLACES:
        for layer in range(place.layers):
            held = [name for name, pieces in place.machines for first, last in pieces if first <= layer <= last]
            assert len(held) >= 2


@pytest.fixture(scope="module")
def swept() -> dict[str, list[sweep.Outcome]]:
    return sweep.sweep(places.recorded())


def test_the_committed_table_and_picture_are_what_the_sweep_gives(swept: dict[str, list[sweep.Outcome]]) -> None:
    page = sweep.PAGE.read_text(encoding="utf-8")
    assert put_into(page, sweep.MARK, sweep.tables(places.recorded(), swept)) == page
    assert drawing(sweep.VALUES, sweep.panels(swept)) == sweep.PICTURE.read_text(encoding="utf-8")


def test_the_weight_of_the_prompt_never_changes_a_path(swept: dict[str, list[sweep.Outcome]]) -> None:
    assert len(set(swept["prompt"])) == 1
    assert swept["prompt"][0].differ == 0


def test_each_weight_turned_up_lessens_what_it_weighs(swept: dict[str, list[sweep.Outcome]]) -> None:
    ends = {knob: (outcomes[0], outcomes[-1]) for knob, outcomes in swept.items()}
    assert ends["latency"][0].latency_ms > ends["latency"][1].latency_ms
    assert ends["load"][0].load > ends["load"][1].load
    assert ends["capacity"][0].score < ends["capacity"][1].score
    assert ends["hop"][0].hops > ends["hop"][1].hops


def test_the_page_of_weights_names_every_weight_and_profile() -> None:
    page = (DOCS / "mesh-weights.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in (*sweep.KNOBS, *PROFILES))


def test_the_picture_is_one_panel_a_weight_with_a_line_a_figure(swept: dict[str, list[sweep.Outcome]]) -> None:
    root = ElementTree.fromstring(drawing(sweep.VALUES, sweep.panels(swept)))  # noqa: S314 - it is our own
    groups = root.findall("{http://www.w3.org/2000/svg}g")
    assert len(groups) == len(sweep.KNOBS) + 1
    for group in groups:
        lines = [path for path in group if path.get("class") == "line"]
        assert len(lines) == len(INKS)
