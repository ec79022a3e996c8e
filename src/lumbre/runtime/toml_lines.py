"""Decides on which line of a TOML text each key stands. Pure; `runtime.draft` asks, so errors can point."""

import tomllib
from collections.abc import Mapping
from typing import Any

KeyPath = tuple[str | int, ...]


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line, from 1, of every table and key of a text that `tomllib` accepts.

    A path is made of keys and, inside arrays of tables, of positions: `("tier_a", "upstreams", 0, "id")`.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, statement in _statements(text):
        parsed = tomllib.loads(statement)
        if statement.startswith("["):
            table = _place_header(parsed, lines)
            lines.setdefault(table, number)
        else:
            _record(parsed, table, number, lines)
    return lines


def _statements(text: str) -> list[tuple[int, str]]:
    """Headers and `key = value` statements with the line each starts on; a value may take several lines."""
    found: list[tuple[int, str]] = []
    pending: list[str] = []
    start = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not pending:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            start = number
        pending.append(line)
        statement = "\n".join(pending).strip()
        # tomllib itself is the judge of where a value ends: no second grammar that could disagree with it.
        if _is_whole(statement):
            found.append((start, statement))
            pending = []
    return found


def _is_whole(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _place_header(parsed: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> KeyPath:
    """The path that `[a.b]` or `[[a.b]]` opens; of an array on the way, the last entry is meant."""
    path: KeyPath = ()
    value: Any = parsed
    while isinstance(value, Mapping) and value:
        key, value = next(iter(value.items()))
        path = (*path, key)
        if isinstance(value, list):
            return (*path, _entries(path, lines))
        count = _entries(path, lines)
        if count and value:
            path = (*path, count - 1)
    return path


def _entries(path: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """How many tables the array at a path has so far; 0 if it is no array."""
    depth = len(path)
    below = (known[depth] for known in lines if known[:depth] == path and len(known) > depth)
    return len({part for part in below if isinstance(part, int)})


def _record(value: Any, path: KeyPath, number: int, lines: dict[KeyPath, int]) -> None:
    if path:
        lines.setdefault(path, number)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _record(inner, (*path, key), number, lines)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            if isinstance(inner, Mapping):
                _record(inner, (*path, position), number, lines)
