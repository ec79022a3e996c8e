"""Which JSON Schemas are small enough to be worked with. Pure; asked before a schema is compiled.

A schema comes from a caller and is run by a library that recurses: a long enough chain of references overflows its
stack, and references that double at each step take exponential time. Both are legal JSON Schema, and nobody's data.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import orjson

from lumbre.core.quoting import quoted

SIZE_BYTES = 256 * 1024
NODES = 5_000
DEPTH = 100
REFERENCES = 200
EXPANSION = 20_000
"""Parts when every reference is written out along every path that does not lead into itself."""

_OTHER_WAYS = ("$dynamicRef", "$recursiveRef")


def complaint(schema: object) -> str | None:
    """Say which bound a schema goes past; None if it keeps them all."""
    nodes = list(_nodes(schema))
    if len(nodes) > NODES:
        return f"it has more than {NODES} parts"
    if any(depth > DEPTH for depth, _ in nodes):
        return f"it is nested more than {DEPTH} deep"
    if len(orjson.dumps(schema)) > SIZE_BYTES:
        return f"it is larger than {SIZE_BYTES} bytes"
    if (reason := _unfollowable(schema, nodes)) is not None:
        return reason
    references = [reference for _, node in nodes if (reference := _reference(node)) is not None]
    if len(references) > REFERENCES:
        return f"it has more than {REFERENCES} references"
    if _Expansion(schema).goes_past(EXPANSION):
        return f"with its references written out it has more than {EXPANSION} parts"
    return None


def _unfollowable(schema: object, nodes: Sequence[tuple[int, object]]) -> str | None:
    """A reference that cannot be counted is refused: what is not counted is not bounded."""
    for depth, node in nodes:
        if not isinstance(node, dict):
            continue
        if depth > 0 and isinstance(node.get("$id"), str):
            return "a part of it has an `$id` of its own"
        if (way := next((way for way in _OTHER_WAYS if way in node), None)) is not None:
            return f"it uses `{way}`"
        reference = _reference(node)
        if reference is not None and _at(schema, reference) is _NOWHERE:
            return f"nothing in it is at {quoted(reference)}, and the gateway fetches nothing from elsewhere"
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


_NOWHERE = object()


def _at(schema: object, reference: str) -> object:
    """What a reference within the schema points at; `_NOWHERE` for every other reference."""
    if reference != "#" and not reference.startswith("#/"):
        return _NOWHERE
    value: Any = schema
    for step in unquote(reference).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _NOWHERE
    return value


class _Expansion:
    """Writes a schema's references out, path by path, until there is too much of it."""

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self._parts: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._count = 0

    def goes_past(self, bound: int) -> bool:
        """Whether there are more parts than that. A path ends where it would come to a place it has been at."""
        self._follow("#", frozenset(), bound)
        return self._count > bound

    def _follow(self, reference: str, been: frozenset[str], bound: int) -> None:
        if reference in been or self._count > bound:
            return
        size, inner = self._parts_at(reference)
        self._count += size
        for each in inner:
            self._follow(each, been | {reference}, bound)

    def _parts_at(self, reference: str) -> tuple[int, tuple[str, ...]]:
        if reference not in self._parts:
            nodes = [node for _, node in _nodes(_at(self._schema, reference))]
            inner = tuple(each for node in nodes if (each := _reference(node)) is not None)
            self._parts[reference] = (len(nodes), inner)
        return self._parts[reference]
