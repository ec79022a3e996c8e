"""Files of nodes that are wrong, each told by its line and field, in both languages."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mesh_shell import Say, Write, node, speaker, writer

from lumbre.cli import mesh_text
from lumbre.cli.json_file import MOST_BYTES
from lumbre.cli.nodes_file import BadNodesError, Nodes, read_nodes
from lumbre.cli.words import Words
from lumbre.mesh import InvalidTelemetry, NodeState, states_from

say = pytest.fixture(speaker)
file = pytest.fixture(writer)

TWO = """[
  {"node_id": "a", "latency_ms": 1, "current_load": 0, "capacity_score": 100, "served_layers": [[0, 3]], "alive": true},
  {"node_id": "b", "latency_ms": 1, "current_load": 0, "capacity_score": 100, "served_layers": [[4, 7]], "alive": true}
]
"""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "1:1: no JSON: Expecting value"),
        ("[\n  1,\n]", "3:1: no JSON: Expecting value"),
        ('{"nodes": [}', "1:12: no JSON: Expecting value"),
        ('\n{"a" 1}', "2:6: no JSON: Expecting ':' delimiter"),
        ("3", "1: a list of nodes, not 3"),
        ('\n\n"x"', "3: a list of nodes, not 'x'"),
        ("\n{}", "2: nodes: is missing"),
        ('{"at": 1,\n"nodes": {}}', "2: nodes: a list of nodes, not {}"),
        (TWO.replace('"latency_ms": 1, ', "", 1), "2: [0].latency_ms: is missing"),
        (TWO.replace('"b"', '"a"'), "3: [1].node_id: 'a' is there already"),
        (TWO.replace('"b"', '""'), "3: [1].node_id: a text of 1 to 200 characters, not ''"),
        (
            TWO.replace("[[4, 7]]", "[\n[4, 7],\n[9,\n8]]"),
            "5: [1].served_layers[1]: its first layer comes after its last: [9, 8]",
        ),
        (
            TWO.replace("[[4, 7]]", "[\n[4, 7],\n[9,\n-8]]"),
            "6: [1].served_layers[1][1]: a whole number from 0 to 1e9, not -8",
        ),
        (TWO.replace("[[4, 7]]", "7"), "3: [1].served_layers: pairs [first, last], not 7"),
        (TWO.replace("100,", "NaN,"), "2: [0].capacity_score: a number from 0 to 1e9, not nan"),
        (TWO.replace("100,", "Infinity,"), "2: [0].capacity_score: a number from 0 to 1e9, not inf"),
        (TWO.replace("100,", "true,"), "2: [0].capacity_score: a number, not True"),
        (
            f'{{"at": 1,\n"nodes": {TWO.replace("100,", "1e10,")}}}',
            "3: nodes[0].capacity_score: a number from 0 to 1e9, not 10000000000.0",
        ),
        (TWO.replace('"b",', '"b", "model":\n3,'), "4: [1].model: a text, or null for any, not 3"),
        (TWO.replace('[[4, 7]], "alive": true', '[[4, 7]], "alive":\n"no"'), "4: [1].alive: true or false, not 'no'"),
        (
            TWO.replace('"b",', '"b", "node_id": "c",'),
            "3:20: [1].node_id: the key 'node_id' stands in this object already",
        ),
        (TWO.replace('"b"', '"\\udc00"'), "3: [1].node_id: no text that can be written: '\\udc00'"),
        (TWO.replace('"b",', f'"b", "x":\n{"9" * 5000},'), "4:1: [1].x: a number of this length is not read"),
        ("[\n" * 5000, "102:1: nested too deeply to be read"),
        ('{"nodes": [],\n"redundancy": []}', "2: redundancy: an object of layers and their nodes, not []"),
        (
            '{"nodes": [],\n"redundancy":\n{"1": [],\n"x.[0]": []}}',
            "4: redundancy.x.[0]: a key is a layer's number, such as '0', not 'x.[0]'",
        ),
        (
            '{"nodes": [],\n"redundancy": {"-1": []}}',
            "2: redundancy.-1: a key is a layer's number, such as '0', not '-1'",
        ),
        ('{"nodes": [],\n"redundancy": {"0": "a"}}', "2: redundancy.0: a list of node ids, not 'a'"),
        ('{"nodes": [],\n"redundancy": {"0": ["a",\n7]}}', "3: redundancy.0[1]: a node id, not 7"),
        (b"[\n\xff]", "2: not UTF-8; save the file as UTF-8"),
        (TWO.encode("utf-16"), "1: not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_wrong_file_is_told_by_its_line_and_field(say: Say, file: Write, content: str | bytes, told: str) -> None:
    name = file(content)
    said = say("route", "--nodes", name)
    assert (said.status, said.out, said.err) == (3, "", f"lumbre: {name}:{told}\n")
    spanish = say("route", "--nodes", name, "--lang", "es")
    place = re.match(r"\d+(:\d+)?: ", told)
    assert place is not None
    assert spanish.status == 3
    assert spanish.err.startswith(f"lumbre: {name}:{place[0]}")
    assert spanish.err != said.err


def test_a_file_that_begins_with_a_byte_order_mark_is_read(say: Say, file: Write) -> None:
    assert say("route", "--nodes", file(b"\xef\xbb\xbf" + TWO.encode())).status == 0


def test_a_file_that_is_too_large_is_refused_before_it_is_read(say: Say, file: Write) -> None:
    said = say("route", "--nodes", file(b" " * (MOST_BYTES + 1)))
    assert said.status == 3
    assert "larger than 16 MiB" in said.err


@pytest.mark.parametrize("name", ["none.json", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_exit_3(say: Say, name: str) -> None:
    said = say("report", "--nodes", name)
    assert said.status == 3
    assert repr(name) in said.err
    assert "cannot be read" in said.err


@pytest.mark.parametrize(
    "content", [b"[", b"3", b"\xff", b" " * (MOST_BYTES + 1)], ids=["syntax", "field", "bytes", "size"]
)
def test_a_file_s_name_cannot_steer_the_terminal(say: Say, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "\x1b[31mred.json"
    path.write_bytes(content)
    said = say("route", "--nodes", str(path))
    assert said.status == 3
    assert "\x1b" not in said.err
    assert r"\x1b[31mred.json" in said.err


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Puts bytes on standard input."""

    def put(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))

    return put


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["nodes", "redundancy", "node_id", "latency_ms", "served_layers", "0", "x"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(JSON.map(lambda value: json.dumps(value).encode()), st.text().map(str.encode), st.binary()))
@example(json.dumps([node("a", [0, 1])]).encode())
def test_whatever_is_read_is_nodes_or_an_error_with_a_line(piped: Callable[[bytes], None], raw: bytes) -> None:
    piped(raw)
    try:
        nodes: Nodes | None = read_nodes("-", Words("en"))
        told = ""
    except BadNodesError as error:
        nodes, told = None, error.message
    assert nodes is not None or re.match(r"stdin:\d+:", told)


def refusal(value: object) -> str | None:
    try:
        NodeState.from_dict(value)
    except InvalidTelemetry as error:
        return error.why
    return None


def test_everything_that_the_router_refuses_has_its_spanish() -> None:
    good: dict[str, Any] = node("a", [0, 1])
    values: list[Any] = [None, "", -1, True, [1], [[1]], [[1, "x"]], [[2, 1]]]
    wrong: list[Any] = [
        *({**good, key: value} for key in good for value in values),
        *({**good, key: value} for key in ("alive", "model") for value in values[4:]),
        *({name: value for name, value in good.items() if name != key} for key in good),
        {**good, "served_layers": [[0, 0]] * 5000},
        3,
    ]
    complaints = {why for value in wrong if (why := refusal(value)) is not None}
    assert len(complaints) > 20
    assert not [why for why in complaints if mesh_text.fault_text(why, "es") == why]
    with pytest.raises(InvalidTelemetry) as caught:
        states_from([good, good])
    assert mesh_text.fault_text(caught.value.why, "es") == "'a' ya está"
