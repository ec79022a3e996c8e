"""Decides what a file says of a mesh's nodes, or what is wrong there, by line and field. `mesh_answers` asks."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from lumbre.cli.json_place import JsonFaultError, Path, line_of, parse
from lumbre.cli.mesh_text import fault_text, printable, syntax_text
from lumbre.cli.words import Words
from lumbre.core.errors import OperatorError
from lumbre.core.quoting import quoted
from lumbre.mesh import InvalidTelemetry, NodeState, states_from

MOST_BYTES = 16 * 2**20
STDIN = "-"

_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_LAYER = re.compile(r"0|[1-9]\d{0,9}")
_WHOLE = "(the file)"


class BadNodesError(OperatorError):
    """The file cannot be read, or what stands there is no list of nodes."""

    code = "bad_nodes"
    exit_code = 3


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
    shown = "stdin" if name == STDIN else printable(name)
    text = _text(name, shown, words)
    try:
        value = parse(text)
    except JsonFaultError as fault:
        raise BadNodesError(_fault(fault, shown, words)) from None
    try:
        return _nodes(value)
    except _FieldError as error:
        field = f"{_field(error.path)}: " if error.path else ""
        place = f"{shown}:{line_of(text, error.path)}: "
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


def _text(name: str, shown: str, words: Words) -> str:
    try:
        if name == STDIN:
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with FilePath(name).open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        file_name = quoted(shown if name == STDIN else name)
        raise BadNodesError(words("mesh.unreadable", file=file_name, reason=reason)) from None
    if len(raw) > MOST_BYTES:
        raise BadNodesError(words("mesh.too_large", file=shown, most=MOST_BYTES // 2**20))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadNodesError(f"{shown}:{line}: {words('mesh.not_utf8')}") from None


def _fault(fault: JsonFaultError, shown: str, words: Words) -> str:
    place = f"{shown}:{fault.line}:{fault.column}: "
    match fault.code:
        case "syntax":
            return place + syntax_text(fault.detail, words.lang)
        case "repeated":
            return place + words("mesh.repeated", field=_field(fault.path), key=quoted(fault.detail))
        case "digits":
            return place + words("mesh.digits", field=_field(fault.path))
        case _:
            return place + words("mesh.deep")


def _field(path: Path) -> str:
    """A path as messages write it."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return quoted(written.removeprefix("."))[1:-1]


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
