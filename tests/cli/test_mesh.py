"""`lumbre mesh` at the shell and what it answers: real processes, and many questions in this process."""

import json
import re
from pathlib import Path

import pytest
from lumbre_process import Lumbre
from mesh_shell import Say, Write, node, speaker, writer

from lumbre.mesh import PROFILES

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "nodes.json"

ROUTE_KEYS = (
    *("model", "window", "nodes", "stages", "hops", "hop_cost", "prefill_cost", "cost"),
    *("degraded", "snapshot", "without"),
)


say = pytest.fixture(speaker)
file = pytest.fixture(writer)


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


# What a shell sees.


def test_the_route_is_one_line_with_its_cost(lumbre: Lumbre) -> None:
    done = lumbre.run("mesh", "route", "--nodes", str(EXAMPLE))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "layers 0-11: mini (0-7) → laptop (8-11), 1 hop, cost 71.5 ms\n"


def test_a_terminal_that_has_no_arrows_is_told_all_the_same(lumbre: Lumbre) -> None:
    done = lumbre.run("mesh", "route", "--nodes", str(EXAMPLE), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "layers 0-11: mini (0-7) \\u2192 laptop (8-11), 1 hop, cost 71.5 ms\n"


def test_the_route_is_told_in_spanish(lumbre: Lumbre) -> None:
    done = lumbre.run("mesh", "route", "--nodes", str(EXAMPLE), LUMBRE_LANG="es")
    assert done.stdout == "capas 0-11: mini (0-7) → laptop (8-11), 1 salto, coste 71.5 ms\n"


def test_a_dash_reads_the_nodes_from_standard_input(lumbre: Lumbre) -> None:
    done = lumbre.run("mesh", "route", "--nodes", "-", "--json", stdin=EXAMPLE.read_text(encoding="utf-8"))
    assert json.loads(done.stdout)["nodes"] == ["mini", "laptop"]
    wrong = lumbre.run("mesh", "route", "--nodes", "-", stdin="[\n1]")
    assert (wrong.returncode, wrong.stderr) == (3, "lumbre: stdin:2: [0]: an object, not 1\n")


def test_no_route_is_exit_5_with_the_window_in_the_message(lumbre: Lumbre) -> None:
    done = lumbre.run("mesh", "route", "--nodes", str(EXAMPLE), "--layers", "0-15", "--json")
    assert done.returncode == 5
    assert "[0, 15]" in done.stderr
    assert "12-15" in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "no_route"


def test_a_wrong_file_is_exit_3_with_the_line_and_the_field(lumbre: Lumbre) -> None:
    (lumbre.home / "nodes.json").write_text(f"[\n{json.dumps(node('a', [0, 3]))},\n{json.dumps(node('b', [4, 7.5]))}]")
    done = lumbre.run("mesh", "route", "--nodes", "nodes.json")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == ("lumbre: nodes.json:3: [1].served_layers[0][1]: a whole number from 0 to 1e9, not 7.5\n")
    as_json = lumbre.run("mesh", "report", "--nodes", "nodes.json", "--json")
    assert as_json.returncode == 3
    assert json.loads(as_json.stdout)["error"]["code"] == "bad_nodes"


def test_a_name_that_no_terminal_can_show_does_not_break_the_answer(lumbre: Lumbre) -> None:
    nodes = json.dumps([node("\u001b[31mred\u0007", [0, 3])])
    done = lumbre.run("mesh", "route", "--nodes", "-", "--explain", stdin=nodes)
    assert done.returncode == 0
    assert "\u001b" not in done.stdout
    assert r"\x1b[31mred\x07" in done.stdout
    broken = lumbre.run("mesh", "route", "--nodes", "-", "--json", stdin='[{"node_id": "\\ud800"' + nodes[28:])
    assert broken.returncode == 3
    assert "Traceback" not in broken.stderr


# What is answered.


def test_the_cost_is_explained_term_by_term(say: Say) -> None:
    said = say("route", "--nodes", str(EXAMPLE), "--explain", "--prompt-tokens", "1024")
    rows = [line.split() for line in said.out.splitlines()]
    assert ["mini", "0-7", "3.8", "24.0", "8.0", "35.8"] in rows
    assert ["laptop", "8-11", "3.7", "12.0", "5.0", "20.7"] in rows
    assert ["prompt", "of", "1024", "tokens", "10.0"] in rows
    assert ["sum", "81.5"] in rows
    assert "without mini: no route" in said.out


def test_the_explanation_names_the_best_route_without_a_node(say: Say, file: Write) -> None:
    name = file(json.dumps([node("a", [0, 3]), node("b", [0, 3], latency_ms=9)]))
    assert "without a: b, 10.0" in say("route", "--nodes", name, "--explain").out
    assert "sin a: b, 10.0" in say("route", "--nodes", name, "--explain", "--lang", "es").out


def test_json_is_the_route_with_every_key(say: Say) -> None:
    route = json.loads(say("route", "--nodes", str(EXAMPLE), "--json", "--prompt-tokens", "2048").out)
    assert tuple(route) == ROUTE_KEYS
    assert (route["window"], route["cost"], route["prefill_cost"]) == ([0, 11], 91.5, 20.0)
    assert route["stages"][0]["fragments"] == [[0, 3], [4, 7]]


def test_the_window_is_the_one_that_is_asked_for(say: Say) -> None:
    assert json.loads(say("route", "--nodes", str(EXAMPLE), "--layers", "8-11", "--json").out)["nodes"] == ["laptop"]
    assert say("route", "--nodes", str(EXAMPLE), "--layers", "3-11").status == 5


def test_one_layer_is_a_window_too(say: Say, file: Write) -> None:
    name = file(json.dumps([node("a", [0, 0], [1, 1])]))
    assert say("route", "--nodes", name, "--layers", "1").out.startswith("layers 1: a (1), 0 hops")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_is_taken(say: Say, profile: str) -> None:
    said = say("route", "--nodes", str(EXAMPLE), "--profile", profile, "--json")
    stage = json.loads(said.out)["stages"][0]
    assert stage["latency"] == pytest.approx(PROFILES[profile].latency * 3.8)


def test_the_model_is_the_one_that_the_nodes_name(say: Say, file: Write) -> None:
    named = file(json.dumps([node("a", [0, 3], model="m"), node("b", [0, 3])]))
    assert json.loads(say("route", "--nodes", named, "--json").out)["model"] == "m"
    assert json.loads(say("route", "--nodes", named, "--json", "--model", "n").out)["nodes"] == ["b"]


def test_nodes_of_several_models_need_one_to_be_named(say: Say, file: Write) -> None:
    name = file(json.dumps([node("a", [0, 3], model="m"), node("b", [0, 3], model="n")]))
    said = say("route", "--nodes", name)
    assert said.status == 2
    assert "(m, n); say which with --model" in said.err
    assert say("route", "--nodes", name, "--model", "n").out.startswith("layers 0-3: b (0-3)")


def alternate(count: int) -> list[tuple[int, int]]:
    """Every second layer, so many of them."""
    return [(2 * number, 2 * number) for number in range(count)]


@pytest.mark.parametrize(
    ("held", "window", "english", "spanish"),
    [
        ([(0, 11)], "0-12", "no live node covers layer 12", "ningún nodo vivo cubre la capa 12"),
        ([(0, 3)], "0-7", "no live node covers layers 4-7", "ningún nodo vivo cubre las capas 4-7"),
        (
            alternate(9),
            "0-17",
            "no live node covers layers 1, 3, 5, 7, 9, 11, 13, 15 and 1 more",
            "ningún nodo vivo cubre las capas 1, 3, 5, 7, 9, 11, 13, 15 y 1 más",
        ),
        (
            [(0, 3), (2, 5)],
            "0-5",
            "every path stops at layer 4, where no fragment begins that ends inside the window",
            "todo camino acaba en la capa 4, donde no empieza ningún fragmento que acabe dentro de la ventana",
        ),
        (
            [(0, 9), *((0, end) for end in range(10)), (8, 20)],
            "0-12",
            "every path stops at layers 1, 2, 3, 4, 5, 6, 7, 8 and 2 more, where no fragment begins that ends inside "
            "the window",
            "todo camino acaba en las capas 1, 2, 3, 4, 5, 6, 7, 8 y 2 más, donde no empieza ningún fragmento que "
            "acabe dentro de la ventana",
        ),
    ],
)
def test_why_there_is_no_route_is_said_alike_in_both_languages(
    say: Say, file: Write, held: list[tuple[int, int]], window: str, english: str, spanish: str
) -> None:
    name = file(json.dumps([node("a", *held)]))
    asked = window.replace("-", ", ")
    said = say("route", "--nodes", name, "--layers", window)
    assert said.err == f"lumbre: no route for layers [{asked}] (model: any): {english}\n"
    said = say("route", "--nodes", name, "--layers", window, "--lang", "es")
    assert said.err == f"lumbre: no hay ruta para las capas [{asked}] (modelo: any): {spanish}\n"


# What is answered when a node fails.


def test_a_failure_is_answered_with_what_becomes_of_the_route(say: Say, file: Write) -> None:
    name = file(json.dumps([node("a", [0, 3]), node("b", [0, 3], latency_ms=9)]))
    said = say("route", "--nodes", name, "--fail", "a")
    assert said.out.splitlines()[1:] == [
        "when a fails: others take over its layers in its place",
        "layers 0-3: b (0-3), 0 hops, cost 10.0 ms",
    ]
    spanish = say("route", "--nodes", name, "--fail", "a", "--lang", "es").out
    assert "si a falla: otros asumen sus capas en su lugar" in spanish
    told = json.loads(say("route", "--nodes", name, "--fail", "a", "--json").out)
    assert tuple(told) == (*ROUTE_KEYS, "failover")
    assert tuple(told["failover"]) == ("code", "en", "es", "degraded", "route")
    assert (told["failover"]["code"], told["failover"]["route"]["nodes"]) == ("replaced", ["b"])
    assert tuple(told["failover"]["route"]) == ROUTE_KEYS


def test_a_node_that_takes_no_part_leaves_the_route_as_it_is(say: Say) -> None:
    said = say("route", "--nodes", str(EXAMPLE), "--fail", "gpu", "--lang", "es")
    assert "no participa en la ruta" in said.out
    first, _, second = said.out.splitlines()
    assert first == second


def test_a_failed_node_that_the_file_does_not_name_is_noted(say: Say) -> None:
    said = say("route", "--nodes", str(EXAMPLE), "--fail", "mni", "--json")
    assert said.status == 0
    assert json.loads(said.out)["failover"]["code"] == "not_in_route"
    assert "'mni'" in said.err


def test_a_node_that_nobody_replaces_is_exit_5_with_the_way_out(say: Say) -> None:
    said = say("route", "--nodes", str(EXAMPLE), "--fail", "mini")
    assert said.status == 5
    assert said.out == ""
    assert said.err.count("nobody can take its place") == 1
    assert "4-7" in said.err
    assert "--fallback-model" in said.err
    spanish = say("route", "--nodes", str(EXAMPLE), "--fail", "mini", "--lang", "es")
    assert "nadie puede ocupar su lugar: no hay ruta para las capas [0, 11]" in spanish.err


@pytest.mark.parametrize("form", [[], ["--explain"]])
def test_with_a_smaller_model_the_survivors_are_left(say: Say, form: list[str]) -> None:
    said = say("route", "--nodes", str(EXAMPLE), "--fail", "mini", "--fallback-model", "tiny", *form)
    assert said.status == 0
    assert "that does not cover the layers; the survivors run tiny" in said.out


def test_when_nobody_is_left_the_route_is_nobody(say: Say, file: Write) -> None:
    name = file(json.dumps([node("a", [0, 3])]))
    said = say("route", "--nodes", name, "--fail", "a", "--fallback-model", "tiny")
    assert "layers 0-3: nobody" in said.out
    told = json.loads(say("route", "--nodes", name, "--fail", "a", "--fallback-model", "tiny", "--json").out)
    assert (told["failover"]["route"]["cost"], told["failover"]["route"]["nodes"]) == (None, [])
    assert say("route", "--nodes", name, "--fail", "a", "--fallback-model", "tiny", "--explain").status == 0


def test_the_redundancy_map_is_read(say: Say, file: Write) -> None:
    mesh = {"nodes": [node("a", [0, 3]), node("b", [0, 3])], "redundancy": {"0": ["b"], "12": []}, "at": "now"}
    said = say("route", "--nodes", file(json.dumps(mesh)), "--fail", "a", "--json")
    assert json.loads(said.out)["failover"]["code"] == "replaced"


# What the mesh cannot do without.


def test_the_report_names_what_everything_hangs_on(say: Say) -> None:
    said = say("report", "--nodes", str(EXAMPLE))
    assert said.status == 0
    lines = said.out.splitlines()
    assert "no route is left without: laptop, mini" in lines
    assert "  4-7  mini" in lines
    told = json.loads(say("report", "--nodes", str(EXAMPLE), "--json").out)
    assert told["indispensable"] == ["laptop", "mini"]
    assert {"layers": [8, 11], "node_id": "laptop"} in told["held_once"]


def test_a_report_on_a_mesh_that_spares_any_node_says_so(say: Say, file: Write) -> None:
    name = file(json.dumps([node("a", [0, 3]), node("b", [0, 3])]))
    assert say("report", "--nodes", name).out.splitlines()[2:] == [
        "any one node may fail: there is a route without it",
        "every layer is held by two nodes or more",
        "every fragment can be part of a route",
    ]


def test_a_report_on_a_mesh_without_a_route_is_exit_5(say: Say, file: Write) -> None:
    name = file(json.dumps([node("a", [0, 3]), node("b", [2, 5])]))
    said = say("report", "--nodes", name)
    assert said.status == 5
    assert "there is no route" in said.out
    assert "  2-5  b" in said.out.splitlines()
    assert json.loads(say("report", "--nodes", name, "--json").out)["has_route"] is False


@pytest.mark.parametrize("content", ["[]", '{"nodes": []}', json.dumps([node("a", [0, 3], alive=False)])])
def test_nodes_that_serve_nothing_are_no_route(say: Say, file: Write, content: str) -> None:
    name = file(content)
    assert say("route", "--nodes", name).status == 5
    said = say("report", "--nodes", name, "--lang", "es")
    assert (said.status, said.out) == (5, "ningún nodo vivo sirve una capa (modelo: any)\n")


# Command lines that are wrong.


ROUTE = ["route", "--nodes", str(EXAMPLE)]


@pytest.mark.parametrize(
    ("words", "english", "spanish"),
    [
        (["route"], "Missing option '--nodes'", "falta la opción «--nodes»"),
        ([*ROUTE, "--layers", "8:11"], "8-11, FIRST not after", "8-11, la primera no después"),
        ([*ROUTE, "--layers", "11-8"], "not '11-8'", "no '11-8'"),
        ([*ROUTE, "--layers", "-1-3"], "not '-1-3'", "no '-1-3'"),
        ([*ROUTE, "--layers", f"0-{'9' * 5000}"], "at most 10^9", "como mucho 10^9"),
        ([*ROUTE, "--layers", "0-1000000001"], "at most 10^9", "como mucho 10^9"),
        ([*ROUTE, "--prompt-tokens", "-1"], "Invalid value for '--prompt-tokens'", "válido para «--prompt-tokens»"),
        ([*ROUTE, "--profile", "fast"], "one of default, fast_lan", "uno de default, fast_lan"),
        ([*ROUTE, "--explain", "--json"], "choose one", "elige una"),
        ([*ROUTE, "--json", "--svg", "x.svg"], "choose one", "elige una"),
        ([*ROUTE, "--fallback-model", "m"], "goes with --fail NODE", "va con --fail NODO"),
        ([*ROUTE, "--model", "\udcff"], "that model's name", "el nombre de ese modelo"),
        ([*ROUTE, "--fail", "a", "--fallback-model", "\udcff"], "that model's name", "el nombre de ese modelo"),
    ],
)
def test_a_wrong_line_is_exit_2_and_names_the_way_out(say: Say, words: list[str], english: str, spanish: str) -> None:
    for lang, told in (("en", english), ("es", spanish)):
        said = say(*words, "--lang", lang)
        assert said.status == 2
        assert told in said.err


# The documents.


def commands(page: Path) -> list[tuple[list[str], str]]:
    """Every `$ lumbre mesh …` of a page, with what stands under it."""
    found = []
    for console in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for command in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
            line, _, under = command.partition("\n")
            if line.startswith("lumbre mesh "):
                found.append((line.split()[2:], under))
    return found


def test_the_page_shows_what_the_program_prints(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    shown = [(words, under) for words, under in commands(PROJECT / "docs" / "mesh.md") if "--svg" not in words]
    assert len(shown) >= 5
    for words, under in shown:
        said = say(*words)
        assert (said.out + said.err).rstrip() == under.rstrip(), words


def test_the_page_shows_the_picture_that_the_program_draws(say: Say, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.svg"
    assert say("route", "--nodes", str(EXAMPLE), "--svg", str(drawn)).status == 0
    assert drawn.read_text(encoding="utf-8") == (PROJECT / "docs" / "mesh-example.svg").read_text(encoding="utf-8")
