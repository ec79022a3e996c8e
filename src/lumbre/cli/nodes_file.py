"""Decides what a file says of a mesh's nodes, or what is wrong there, by line and field. `mesh_answers` asks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumbre.cli.json_file import BadFileError, field_of, read_json
from lumbre.cli.json_place import Path, line_of
from lumbre.cli.mesh_text import fault_text
from lumbre.cli.words import Words
from lumbre.core.quoting import quoted
from lumbre.mesh import InvalidTelemetry, NodeState, states_from

_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_LAYER = re.compile(r"0|[1-9]\d{0,9}")
_WHOLE = "(the file)"


class BadNodesError(BadFileError):
    """The file cannot be read, or what stands there is no list of nodes."""

    code = "bad_nodes"


@dataclass(frozen=True)
class Nodes:
    """What a file says.

    Attributes:
        redundancy: by layer, the nodes that are said to hold it.
    """

    states: tuple[NodeState, ...]
    redundancy: Mapping[int, Sequence[str]]


def read_nodes(name: str, words: Words) -> Nodes:
    """Read a file, or standard input where the name is `-`.

    Raises:
        BadNodesError: with the line and the field.
    """
    file = read_json(name, words, BadNodesError)
    try:
        return _nodes(file.value)
    except _FieldError as error:
        field = f"{field_of(error.path)}: " if error.path else ""
        place = f"{file.shown}:{line_of(file.text, error.path)}: "
        raise BadNodesError(f"{place}{field}{fault_text(error.why, words.lang)}") from None


class _FieldError(Exception):
    """A value is not what it must be."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


def _nodes(value: object) -> Nodes:
    """What a JSON value says of the mesh.

    Raises:
        _FieldError: it is no mesh.
    """
    try:
        states = states_from(value)
    except InvalidTelemetry as error:
        raise _FieldError(path_of(error.field), error.why) from None
    _check_texts(states, ("nodes",) if isinstance(value, dict) else ())
    return Nodes(states, _redundancy(value))


def path_of(field: str) -> Path:
    """`nodes[3].served_layers[0]` as a path."""
    if field == _WHOLE:
        return ()
    return tuple(int(place) if place else key for place, key in _PART.findall(field))


def _redundancy(value: object) -> dict[int, tuple[str, ...]]:
    """By layer, who is said to hold it."""
    said = value.get("redundancy") if isinstance(value, dict) else None
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise _FieldError(("redundancy",), f"an object of layers and their nodes, not {quoted(said)}")
    return {_layer(key): _holders(("redundancy", key), nodes) for key, nodes in said.items()}


def _layer(key: str) -> int:
    if not _LAYER.fullmatch(key):
        raise _FieldError(("redundancy", key), f"a key is a layer's number, such as '0', not {quoted(key)}")
    return int(key)


def _holders(path: Path, nodes: Any) -> tuple[str, ...]:
    if not isinstance(nodes, list):
        raise _FieldError(path, f"a list of node ids, not {quoted(nodes)}")
    for number, node in enumerate(nodes):
        if not isinstance(node, str):
            raise _FieldError((*path, number), f"a node id, not {quoted(node)}")
    return tuple(nodes)


def _check_texts(states: Sequence[NodeState], prefix: Path) -> None:
    """Half a surrogate pair is a text for JSON, and none that anything can write."""
    for number, state in enumerate(states):
        for field, text in (("node_id", state.node_id), ("model", state.model or "")):
            if not is_writable(text):
                raise _FieldError((*prefix, number, field), f"no text that can be written: {quoted(text)}")


def is_writable(text: str) -> bool:
    """Whether a text can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
