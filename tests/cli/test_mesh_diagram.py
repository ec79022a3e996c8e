"""The picture of a route: what an XML reader finds in it."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.cli.main import main
from lumbre.cli.mesh_diagram import MOST_LANES, diagram
from lumbre.cli.words import Language, Words
from lumbre.mesh import NodeState, NoRouteAvailable, Route, RouteSnapshot, RouteWeights, failover

SVG = "{http://www.w3.org/2000/svg}"

MESH = (
    NodeState("gpu", 18.5, 1.0, 100.0, ((0, 3),)),
    NodeState("mini", 3.8, 0.2, 12.5, ((0, 3), (4, 7))),
    NodeState("laptop", 3.7, 0.1, 20.0, ((8, 11),)),
)


def routed(states: Sequence[NodeState], window: tuple[int, int] | None = None, model: str = "any") -> Route:
    return RouteSnapshot(states, RouteWeights(), model, window).route()


def drawn(route: Route, lang: Language = "en") -> ET.Element:
    return ET.fromstring(diagram(route.explain(), Words(lang)))  # noqa: S314 our own text


def boxes(picture: ET.Element, style: str) -> list[tuple[float, float]]:
    """Left and right end of every box of a kind, but those of the legend."""
    found = [
        rect for rect in picture.iter(f"{SVG}rect") if rect.get("class") == style and float(rect.get("y", "0")) > 100
    ]
    return [(x := float(rect.get("x", "0")), x + float(rect.get("width", "0"))) for rect in found]


def texts(picture: ET.Element) -> list[str]:
    return ["".join(child.tail or "" for child in text) or text.text or "" for text in picture.iter(f"{SVG}text")]


def test_the_chosen_path_is_drawn_over_the_whole_window() -> None:
    picture = drawn(routed(MESH))
    chosen = sorted(boxes(picture, "chosen"))
    (window,) = boxes(picture, "wanted")
    assert (chosen[0][0], chosen[-1][1]) == window
    assert all(before[1] == after[0] for before, after in pairwise(chosen))
    assert len(boxes(picture, "held")) == 4
    assert len([path for path in picture.iter(f"{SVG}path") if path.get("class") == "hop"]) == 1


def test_costs_names_and_layers_stand_in_the_picture() -> None:
    said = texts(drawn(routed(MESH)))
    assert {"mini", "laptop", "gpu", "35.8", "20.7", "139.5", "+15.0", "window 0-11", "mini → laptop"} <= set(said)
    assert {str(layer) for layer in range(12)} <= set(said)
    assert "cost 71.5 ms = stages 56.5 + 1 hop 15.0 + prompt 0.0" in said


def test_the_picture_is_told_in_words_for_those_who_do_not_see_it() -> None:
    picture = drawn(routed(MESH))
    assert picture.get("role") == "img"
    named = (picture.get("aria-labelledby") or "").split()
    assert [child.get("id") for child in picture][:2] == named
    assert picture.findtext(f"{SVG}title") == "The route over layers 0-11, model: any"
    told = picture.findtext(f"{SVG}desc") or ""
    assert "1. mini runs layers 0-7, cost 35.8. 2. laptop runs layers 8-11, cost 20.7." in told


def test_the_picture_speaks_spanish() -> None:
    picture = drawn(routed(MESH), "es")
    assert picture.findtext(f"{SVG}title") == "La ruta por las capas 0-11, modelo: any"
    assert "ventana 0-11" in texts(picture)


def test_who_takes_no_part_is_told_apart() -> None:
    dead = NodeState("old", 1, 0, 100, ((0, 11),), alive=False)
    other = NodeState("guest", 1, 0, 100, ((2, 5),), model="other")
    picture = drawn(routed([*MESH, dead, other]))
    assert len(boxes(picture, "dead")) == 2
    assert {"old (dead)", "guest (other model)"} <= set(texts(picture))


def test_the_window_is_marked_among_the_layers_beside_it() -> None:
    picture = drawn(routed(MESH, (8, 11)))
    (window,) = boxes(picture, "wanted")
    (track,) = boxes(picture, "track")
    assert track[0] < window[0] < window[1] == track[1]


def test_a_fragment_far_beside_the_window_does_not_make_it_too_small_to_see() -> None:
    far = NodeState("far", 1, 0, 100, ((10**9 - 1, 10**9),))
    (window,) = boxes(drawn(routed([*MESH, far], (0, 11))), "wanted")
    assert window[1] - window[0] > 300


def test_names_cannot_break_out_of_the_picture() -> None:
    name = '</text><script>alert("1")</script>&\x1b\x00'
    picture = drawn(routed([NodeState(name, 1, 0, 100, ((0, 3),))], model=name))
    assert not list(picture.iter(f"{SVG}script"))
    assert any("<script>" in said for said in texts(picture))


def test_fragments_that_overlap_do_not_hide_one_another() -> None:
    picture = drawn(routed([NodeState("a", 1, 0, 100, ((0, 5), (2, 3), (3, 8), (6, 8)))]))
    held = [
        (rect.get("y"), *ends)
        for rect, ends in zip(
            [
                rect
                for rect in picture.iter(f"{SVG}rect")
                if rect.get("class") == "held" and float(rect.get("y", "0")) > 100
            ],
            boxes(picture, "held"),
            strict=True,
        )
    ]
    assert len(held) == 4
    for one in held:
        for another in held:
            assert one == another or one[0] != another[0] or one[2] <= another[1] or another[2] <= one[1]


def test_a_degraded_route_is_drawn_with_its_gap() -> None:
    states = [NodeState(name, 1, 0, 100, ((4 * number, 4 * number + 3),)) for number, name in enumerate("abc")]
    answer = failover(routed(states), {}, "b", states=states, weights=RouteWeights(), fallback_model="tiny")
    picture = drawn(answer.route)
    assert "lost" in {path.get("class") for path in picture.iter(f"{SVG}path")}
    assert "another model: tiny" in (picture.findtext(f"{SVG}title") or "")
    assert "b (dead)" in texts(picture)


def test_a_route_of_nobody_is_drawn() -> None:
    states = [NodeState("a", 1, 0, 100, ((0, 3),))]
    answer = failover(routed(states), {}, "a", states=states, weights=RouteWeights(), fallback_model="tiny")
    assert "no stage is left" in texts(drawn(answer.route))


def test_of_too_many_nodes_those_of_the_route_are_drawn_and_the_rest_is_counted() -> None:
    states = [NodeState(f"n{number:04}", 1 + number, 0, 100, ((0, 1),)) for number in range(500)]
    states.append(NodeState("z", 0, 0, 100, ((0, 1),)))
    said = texts(drawn(routed(states)))
    assert "z" in said
    assert f"{501 - MOST_LANES} more nodes are not drawn" in said


def test_a_path_with_more_stages_than_lanes_is_drawn() -> None:
    states = [NodeState(f"n{number:04}", 1, 0, 100, ((number, number),)) for number in range(MOST_LANES + 30)]
    assert len(boxes(drawn(routed(states)), "chosen")) == MOST_LANES


def test_no_layers_are_shown_as_lost_where_a_stage_has_no_lane() -> None:
    states = [NodeState(f"n{number:04}", 1, 0, 100, ((number, number),)) for number in range(1, MOST_LANES + 30)]
    states.append(NodeState("n0000", 1, 0, 100, ((0, 0), (MOST_LANES + 30, MOST_LANES + 30))))
    styles = [path.get("class") for path in drawn(routed(states)).iter(f"{SVG}path")]
    assert styles.count("hop") == MOST_LANES - 1
    assert "lost" not in styles


def test_fragments_too_narrow_to_tell_apart_are_drawn_once() -> None:
    many = tuple((layer, layer) for layer in range(4000))
    picture = drawn(routed([NodeState("a", 1, 0, 100, (*many, (4000, 10**6)))]))
    assert len(set(boxes(picture, "held"))) == len(boxes(picture, "held"))
    assert max(right for _, right in boxes(picture, "held")) == max(right for _, right in boxes(picture, "track"))
    assert len(set(boxes(picture, "chosen"))) == len(boxes(picture, "chosen"))


def test_a_route_of_very_many_stages_is_drawn() -> None:
    states = [
        NodeState(name, 1, 0, 100, tuple((layer, layer) for layer in range(start, 8000, 2)))
        for start, name in enumerate("ab")
    ]
    states.append(NodeState("c", 1, 0, 100, ((8000, 10**6),)))
    picture = drawn(routed(states))
    hops = [path.get("d") for path in picture.iter(f"{SVG}path") if path.get("class") == "hop"]
    assert len(hops) == len(set(hops)) < 250
    assert any(said.startswith("a → b") and said.endswith("… → c") for said in texts(picture))


def test_a_billion_layers_are_drawn() -> None:
    picture = drawn(routed([NodeState("a", 1, 0, 100, ((0, 4), (5, 10**9)))]))
    assert float(picture.get("width", "0")) < 2000
    assert len(list(picture.iter())) < 200


FRAGMENTS = st.tuples(st.integers(0, 9), st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))
NODES = st.builds(
    NodeState,
    st.text(min_size=1, max_size=5),
    st.integers(0, 9),
    st.integers(0, 2),
    st.integers(0, 50),
    st.lists(FRAGMENTS, max_size=4).map(tuple),
    st.booleans(),
)


@given(
    st.lists(NODES, min_size=1, max_size=7, unique_by=lambda state: state.node_id), st.randoms(use_true_random=False)
)
def test_any_route_is_well_formed_covers_its_window_and_hangs_on_no_order(
    states: list[NodeState], chance: Random
) -> None:
    try:
        route = routed(states)
    except NoRouteAvailable:
        return
    text = diagram(route.explain(), Words("en"))
    shuffled = list(states)
    chance.shuffle(shuffled)
    assert diagram(routed(shuffled).explain(), Words("en")) == text
    picture = drawn(route)
    chosen = sorted(boxes(picture, "chosen"))
    (window,) = boxes(picture, "wanted")
    assert (chosen[0][0], chosen[-1][1]) == pytest.approx(window, abs=0.2)
    assert all(abs(before[1] - after[0]) < 0.2 for before, after in pairwise(chosen))


def write(tmp_path: Path, target: str, *more: str) -> int:
    nodes = tmp_path / "nodes.json"
    said = {"latency_ms": 1, "current_load": 0, "capacity_score": 100}
    nodes.write_text(json.dumps([{"node_id": name, **said, "served_layers": [[0, 3]], "alive": True} for name in "ab"]))
    return main(["mesh", "route", "--nodes", str(nodes), "--svg", target, "--lang", "en", *more])


def test_the_picture_is_written_to_the_file_over_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "route.svg"
    target.write_text("old")
    assert write(tmp_path, str(target)) == 0
    assert f"drawn in {target}" in capsys.readouterr().out
    assert target.read_text(encoding="utf-8").startswith("<svg ")


def test_a_failure_is_drawn_as_the_route_that_follows(tmp_path: Path) -> None:
    target = tmp_path / "route.svg"
    assert write(tmp_path, str(target), "--fail", "a") == 0
    picture = ET.fromstring(target.read_text(encoding="utf-8"))  # noqa: S314 our own text
    assert "a (dead)" in texts(picture)
    assert "1. b runs layers 0-3" in (picture.findtext(f"{SVG}desc") or "")


def test_the_picture_s_name_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path, str(tmp_path / "\x1b[31mred.svg")) == 0
    assert r"\x1b[31mred.svg" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["none/route.svg", ".", "a\0b"])
def test_a_file_that_cannot_be_written_is_said_to_be_so(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write(tmp_path, target) == 1
    said = capsys.readouterr()
    assert "cannot be written" in said.err
    assert repr(target) in said.err
