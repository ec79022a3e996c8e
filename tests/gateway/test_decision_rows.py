"""Every sentence about where a request goes, row by row: what the gateway decides, and how a second reader reads it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.decision_rows import ROWS
from gateway.outcomes import decided
from gateway.second_reading import read
from lumbre.core.errors import CallerError
from lumbre.gateway.aliases import Asked
from lumbre.gateway.facts import Facts, Node, NodeState, Question
from lumbre.gateway.hints import Hints

SEED = Path(__file__).parents[2] / "docs" / "spec" / "seed-tiered-gateway.es.txt"
HINTS = {"tier": "tier", "label": "label", "aff": "affinity", "ext": "external", "closed": "closed"}
FLAGS = {"hold": "holds_work", "a-strict": "a_does_strict_json"}
SETS = {"shut": "closed", "direct": "c_direct", "budget": "over_budget"}
NAMES = {"policy": "policy", "mode": "on_closed"}
TOO_LONG = CallerError("the context of this model is too short", code="context_length_exceeded")


def question(words: str) -> Question:
    """A row's request."""
    said: dict[str, str] = {}
    asked = Question("auto", Hints())
    for word in words.split():
        name, _, value = word.partition("=")
        if name in HINTS:
            said[HINTS[name]] = value
        elif name in ("low", "medium", "high"):
            said["complexity"] = name
        elif name == "bg":
            said["klass"] = "background"
        elif name == "strict":
            asked.strict_json = True
        elif name == "lacks":
            asked.lacks = dict.fromkeys(value.split(","), TOO_LONG)
        elif name == "table":
            asked.model = "alias"
            asked.asked = Asked("alias", "alias", dict(pair.split(":") for pair in value.split(",")), "ali*")
        elif name in ("model", "key"):
            setattr(asked, name, value)
        elif name != "auto":
            raise ValueError(f"no such word of a request: {word}")
    asked.hints = Hints(**said)
    return asked


def house(words: str) -> Facts:
    """A row's house."""
    states = {"a": "ready", "b1": "ready", "e1": "ready", "c": "ready"}
    said: dict[str, object] = {"c_has_key": True}
    serve_mx: list[str] = []
    for word in words.split():
        name, _, value = word.partition("=")
        if name in SETS:
            said[SETS[name]] = frozenset(value.split(","))
        elif name in NAMES:
            said[NAMES[name]] = value
        elif name in FLAGS:
            said[FLAGS[name]] = True
        elif name == "mx":
            serve_mx = value.split(",")
        elif name == "nokey":
            said["c_has_key"] = False
        elif name == "both":
            states = {"a": states["a"], "n": "ready", "c": states["c"]}
        elif name in ("nob", "noc", "only"):
            gone = "c" if name == "noc" else "b" if value == "express" else "e" if value == "batch" else "be"
            states = {node: state for node, state in states.items() if node[0] not in gone}
        elif name[0] in "abce" and value in tuple(NodeState):
            states[name] = value
        else:
            raise ValueError(f"no such word of a house: {word}")
    nodes: dict[str, list[Node]] = {"a": [], "b": [], "c": []}
    labels = {"b": ("batch",), "e": ("express",), "n": ("batch", "express")}
    for node, state in states.items():
        tier = node[0] if node[0] in "ac" else "b"
        models = (f"m{tier}", "mu", *(("mx",) if node in serve_mx else ()))
        nodes[tier].append(Node(node, NodeState(state), None, labels.get(node[0], ()), models))
    return Facts(a=tuple(nodes["a"]), b=tuple(nodes["b"]), c=tuple(nodes["c"]), **said)  # type: ignore[arg-type]


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Every row, with what it rests on before it."""
    rests_on = ""
    for line in filter(None, ROWS.splitlines()):
        if line.startswith("# "):
            rests_on = line[2:]
        else:
            asked, at, outcome = (cell.strip() for cell in line.split("|"))
            yield rests_on, asked, at, outcome


TABLE = tuple(rows())
IDS = [f"{asked} | {at}" for _, asked, at, _ in TABLE]


@pytest.mark.parametrize(("rests_on", "asked", "at", "outcome"), TABLE, ids=IDS)
def test_the_gateway_decides_as_the_row_says(rests_on: str, asked: str, at: str, outcome: str) -> None:
    assert str(decided(question(asked), house(at))) == outcome, rests_on


@pytest.mark.parametrize(("rests_on", "asked", "at", "outcome"), TABLE, ids=IDS)
def test_the_second_reading_agrees_with_the_row(rests_on: str, asked: str, at: str, outcome: str) -> None:
    assert str(read(question(asked), house(at))) == outcome, rests_on


def test_every_row_rests_on_a_sentence_of_the_seed_or_on_a_numbered_rule() -> None:
    seed = SEED.read_text(encoding="utf-8")
    named = {rests_on for rests_on, *_ in TABLE}
    assert [each for each in named if not re.fullmatch(r"5\.\d+", each) and each not in seed] == []


def test_there_are_rows_enough_and_none_twice() -> None:
    assert len(TABLE) >= 150
    assert len({(" ".join(sorted(asked.split())), at) for _, asked, at, _ in TABLE}) == len(TABLE)
