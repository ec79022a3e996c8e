"""Which JSON Schemas are small enough to be worked with. Pure; asked before a schema is compiled.

A schema comes from a caller and is run by a library that recurses: a long enough chain of references overflows its
stack, and references that double at each step take exponential time. Both are legal JSON Schema, and nobody's data.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

SIZE_BYTES = 256 * 1024
NODES = 5_000
DEPTH = 100
REFERENCES = 200
EXPANSION = 100_000
"""Subschemas when every reference is written out, as a validator meets them."""


def complaint(schema: object) -> str | None:
    """Say which bound a schema goes past; None if it keeps them all."""
    nodes = list(_nodes(schema))
    if len(nodes) > NODES:
        return f"it has more than {NODES} parts"
    if any(depth > DEPTH for depth, _ in nodes):
        return f"it is nested more than {DEPTH} deep"
    if len(orjson.dumps(schema)) > SIZE_BYTES:
        return f"it is larger than {SIZE_BYTES} bytes"
    references = [reference for _, node in nodes if (reference := _reference(node)) is not None]
    if len(references) > REFERENCES:
        return f"it has more than {REFERENCES} references"
    if _Expansion(schema).of("#", ()) > EXPANSION:
        return f"with its references written out it has more than {EXPANSION} parts"
    return None


def _nodes(schema: object) -> Iterator[tuple[int, object]]:
    """Every value in a schema with its depth; it stops a little past the bounds."""
    stack: list[tuple[int, object]] = [(0, schema)]
    count = 0
    while stack and count <= NODES:
        depth, value = stack.pop()
        count += 1
        yield depth, value
        if depth <= DEPTH:
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            stack += [(depth + 1, each) for each in inner]


def _reference(node: object) -> str | None:
    reference = node.get("$ref") if isinstance(node, dict) else None
    return reference if isinstance(reference, str) else None


class _Expansion:
    """Counts a schema's parts with every local reference written out; one into itself counts nothing more."""

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self._known: dict[str, int] = {}

    def of(self, reference: str, above: tuple[str, ...]) -> int:
        """The parts behind a reference; `above` are those that it stands in."""
        if reference in above:
            return 0
        if reference not in self._known:
            nodes = [node for _, node in _nodes(self._at(reference))]
            inner = [each for node in nodes if (each := _reference(node)) is not None]
            self._known[reference] = len(nodes) + sum(self.of(each, (*above, reference)) for each in inner)
        return self._known[reference]

    def _at(self, reference: str) -> object:
        value: Any = self._schema
        for step in reference.removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
        return value
