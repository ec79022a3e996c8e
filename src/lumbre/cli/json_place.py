"""Decides on which line of a JSON text a value stands, and what no careful reader takes. Pure; `json_file` asks."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
"""The way to a value from the outermost: keys of objects and places in lists."""

MOST_DIGITS = 640
"""Python reads whole numbers of this length whatever its settings are."""

MOST_DEPTH = 100
"""Where a text that is nested too deeply to be read is said to be so."""

_KEY = -1
"""In an object where its next key comes; places in lists begin at 0."""

# No repetition here can be tried in two ways, so that a long string is read once and keeps nothing in memory.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]+')


class JsonFaultError(Exception):
    """A text that is not taken.

    Attributes:
        code: what is wrong: `syntax`, `repeated`, `digits` or `deep`.
        detail: in the parser's words, or the key that stands there twice.
        path: of the value, where one is meant.
        line, column: from 1.
    """

    def __init__(self, code: str, text: str, offset: int, *, path: Path = (), detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.path = path
        self.line, self.column = line_at(text, offset), offset - text.rfind("\n", 0, offset)


class Spot(NamedTuple):
    """A key or a value, and where it begins.

    Attributes:
        path: of the value; of a key the path of its value.
    """

    path: Path
    offset: int
    written: str
    is_key: bool


def parse(text: str) -> Any:
    """Read a JSON text as `json` does, but refuse keys that stand twice in one object, and numbers too long to read.

    Raises:
        JsonFaultError: with the place.
    """
    seen: set[str] = set()

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(found)
        if len(value) != len(found):
            seen.add("repeated")
        return value

    def whole(digits: str) -> int:
        if len(digits) <= MOST_DIGITS:
            return int(digits)
        seen.add("digits")
        return 0

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_int=whole)
    except json.JSONDecodeError as error:
        raise JsonFaultError("syntax", text, error.pos, detail=error.msg) from None
    except RecursionError:
        raise _deep(text) from None
    if seen:
        raise _repeated(text) if "repeated" in seen else _digits(text)
    return value


def line_of(text: str, path: Path) -> int:
    """The line, from 1, of the value at a path; where it is missing, of the innermost that would hold it."""
    best, depth = 0, -1
    for spot in spots(text):
        length = len(spot.path)
        if length > depth and not spot.is_key and path[:length] == spot.path:
            best, depth = spot.offset, length
            if length == len(path):
                break
    return line_at(text, best)


def line_at(text: str, offset: int) -> int:
    """The line, from 1, of a place in a text."""
    return text.count("\n", 0, offset) + 1


def spots(text: str) -> Iterator[Spot]:
    """Every key and value of a text that `json` reads, in their order; whatever holds others comes before them."""
    path: list[str | int] = []  # _KEY where a key comes next
    for match in _TOKEN.finditer(text):
        written, offset = match[0], match.start()
        if written == ":":
            continue
        if written == ",":
            place = path[-1]
            path[-1] = _KEY if isinstance(place, str) else place + 1
            continue
        if written in "}]":
            path.pop()
            continue
        is_key = bool(path) and path[-1] == _KEY
        if is_key:
            path[-1] = str(json.loads(written)) if "\\" in written else written[1:-1]
        yield Spot(tuple(path), offset, written, is_key)
        if written == "{":
            path.append(_KEY)
        elif written == "[":
            path.append(0)


def _repeated(text: str) -> JsonFaultError:
    """The first key that its object has already."""
    keys: dict[int, set[str | int]] = {}  # by depth, of the object that is open there
    for spot in spots(text):
        depth = len(spot.path)
        if spot.is_key:
            if spot.path[-1] in keys[depth]:
                return JsonFaultError("repeated", text, spot.offset, path=spot.path, detail=str(spot.path[-1]))
            keys[depth].add(spot.path[-1])
        elif spot.written == "{":
            keys[depth + 1] = set()
    raise AssertionError("json saw a key twice that is not there")


def _digits(text: str) -> JsonFaultError:
    """The first whole number that is too long."""
    for spot in spots(text):
        if len(spot.written) > MOST_DIGITS and spot.written.lstrip("-").isdigit():
            return JsonFaultError("digits", text, spot.offset, path=spot.path)
    raise AssertionError("json saw a number that is not there")


def _deep(text: str) -> JsonFaultError:
    """The first value that lies too deep."""
    for spot in spots(text):
        if len(spot.path) > MOST_DEPTH:
            return JsonFaultError("deep", text, spot.offset)
    raise AssertionError("json saw a depth that is not there")
