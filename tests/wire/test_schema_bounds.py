"""Which schemas are refused before anything is done with them, and that ordinary ones are not."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from lumbre.wire.openai.schema_bounds import complaint


def chain(length: int) -> dict[str, Any]:
    steps = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{length}": {"type": "string"}}}


def doubling(depth: int) -> dict[str, Any]:
    steps = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{depth}": {"type": "string"}}}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


class Address(BaseModel):
    """A part of a real schema."""

    street: str
    lines: list[str]


class Person(BaseModel):
    """A real schema, with references and one into itself."""

    name: str
    home: Address
    work: Address | None = None
    friends: "list[Person]" = []


@pytest.mark.parametrize(
    "schema",
    [True, {}, Person.model_json_schema(), chain(50), doubling(8), nested(90), {"enum": [str(n) for n in range(4000)]}],
)
def test_a_schema_that_somebody_would_write_passes(schema: object) -> None:
    assert complaint(schema) is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (chain(60_000), "parts"),
        (chain(300), "references"),
        (doubling(30), "written out"),
        (nested(200), "deep"),
        ({"const": "x" * 300_000}, "bytes"),
        ({"enum": list(range(6000))}, "parts"),
    ],
)
def test_a_schema_that_could_not_be_finished_is_refused_by_its_bound(schema: object, reason: str) -> None:
    assert reason in (complaint(schema) or "")


def test_references_in_circles_are_no_trouble() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}
    assert complaint(circle) is None
    assert complaint({"$ref": "#", "properties": {"$ref": {"type": "string"}}}) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/nowhere/0/1"},
        {"allOf": [{"$ref": "other.json"}]},
        {"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}},
        {"$dynamicRef": "#/$defs/a", "$defs": {"a": {}}},
        {"$recursiveRef": "#"},
        {"$defs": {"a": {"$id": "http://x/a"}}},
    ],
)
def test_a_reference_that_cannot_be_counted_is_refused(schema: object) -> None:
    assert complaint(schema) is not None


def test_doubling_is_seen_however_it_is_spelt_and_with_ways_back() -> None:
    spelt = json.loads(json.dumps(doubling(30)).replace("#/$defs", "#/%24defs"))
    assert "written out" in (complaint(spelt) or "")
    back = doubling(30)
    for step in back["$defs"].values():
        step.setdefault("allOf", []).insert(0, {"$ref": "#/$defs/d0"})
    assert "written out" in (complaint(back) or "")
