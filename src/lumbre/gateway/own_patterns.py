"""Whether an operator's pattern can be let loose on a hostile text. Pure; asked when the settings are read.

Python's `re` goes back and tries again, and a careless pattern makes it do so for hours. No engine without that fault
is among the dependencies, so the pattern is held to a bound instead: from any one place of a text it fails within
`MOST_STEPS` steps, which makes a search linear in the text. `*`, `+` and `{n,}` have no such bound, and are taken only
where nothing comes after them: there they cannot fail, and what they ran over is found and is not searched again.
Groups that look around, names and back references are not taken at all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_STEPS = 250
"""From one place. A megabyte that is made to take them all costs a pattern about two seconds."""
MOST_CHARACTERS = 256
"""Of a pattern."""
LEAST_WIDTH = 3
"""Characters that each match must have: shorter ones would hide half of every text."""

_FLAGS = re.compile(r"\(\?i\)")
_CLASS = r"\[\^?\]?(?:\\.|[^\]\\])*\]"
_ESCAPE = r"\\(?:[dDsSwWafnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^0-9A-Za-z])"
_TOKEN = re.compile(
    rf"(?P<open>\((?:\?[:>])?(?!\?))|(?P<close>\))|(?P<bar>\|)|(?P<edge>[$^]|\\[bBAZ])"
    rf"|(?P<atom>{_CLASS}|{_ESCAPE}|[^\\(\[])",
    re.DOTALL,
)
_REPEAT = re.compile(r"(?:[*+?]|\{(?!\})(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})(?P<mode>[+?]?)")
_COUNTS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True)
class _Atom:
    width: int


@dataclass(frozen=True)
class _Sequence:
    parts: "Sequence[_Node]"


@dataclass(frozen=True)
class _Group:
    """Alternatives. `keeps`: once it has matched, it tries no other way."""

    branches: "Sequence[_Node]"
    keeps: bool


@dataclass(frozen=True)
class _Repeat:
    inner: "_Node"
    least: int
    most: int | None
    keeps: bool


_Node = _Atom | _Sequence | _Group | _Repeat


@dataclass(frozen=True)
class _Cost:
    """`ways` to match from one place, `steps` to try them all, and the `least` characters of a match."""

    ways: int
    steps: int
    least: int


def compiled(pattern: str) -> re.Pattern[str]:
    """Check a pattern and compile it.

    Args:
        pattern: characters, classes, groups, alternatives, counts and edges, as `re` writes them; `(?i)` at its
            beginning makes it blind to case.

    Raises:
        ValueError: it is none, it could take too long, or it could match fewer than `LEAST_WIDTH` characters.
    """
    if len(pattern) > MOST_CHARACTERS:
        raise ValueError(f"has more than {MOST_CHARACTERS} characters")
    try:
        matcher = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from error
    flags = _FLAGS.match(pattern)
    cost = _cost(_Reader(pattern, flags.end() if flags else 0).group(keeps=False), last=True)
    if cost.least < LEAST_WIDTH:
        raise ValueError(f"could match fewer than {LEAST_WIDTH} characters")
    if cost.steps > MOST_STEPS:
        way_out = "count more narrowly, or write {1,20}+ for {1,20} where nothing has to be given back"
        raise ValueError(f"could take more than {MOST_STEPS} steps at each place of a text; {way_out}")
    return matcher


class _Reader:
    """Reads a pattern that `re` has read before, so that brackets are known to match."""

    def __init__(self, pattern: str, at: int) -> None:
        self._pattern = pattern
        self._at = at

    def group(self, *, keeps: bool) -> _Group:
        branches: list[_Node] = []
        parts: list[_Node] = []
        while self._at < len(self._pattern):
            token = _TOKEN.match(self._pattern, self._at)
            if token is None:
                raise ValueError(f"has {self._pattern[self._at : self._at + 3]!r}, which is not taken here")
            self._at = token.end()
            match token.lastgroup:
                case "close":
                    break
                case "bar":
                    branches.append(_Sequence(parts))
                    parts = []
                case "open":
                    parts.append(self._repeated(self.group(keeps=token[0] == "(?>")))
                case kind:
                    parts.append(self._repeated(_Atom(0 if kind == "edge" else 1)))
        return _Group([*branches, _Sequence(parts)], keeps)

    def _repeated(self, node: _Node) -> _Node:
        found = _REPEAT.match(self._pattern, self._at)
        if found is None:
            return node
        self._at = found.end()
        least, most = _COUNTS.get(found[0][0], (int(found["least"] or 0), None))
        if found[0][0] == "{":
            most = int(found["most"]) if found["most"] else None if found["comma"] else least
        return _Repeat(node, least, most, keeps=found["mode"] == "+")


def _cost(node: _Node, *, last: bool) -> _Cost:
    """`last`: nothing comes after it, in whichever way it matches."""
    match node:
        case _Atom(width):
            return _Cost(1, 1, width)
        case _Sequence(parts):
            return _in_turn([_cost(part, last=last and part is parts[-1]) for part in parts])
        case _Group(branches, keeps):
            costs = [_cost(branch, last=last) for branch in branches]
            ways = 1 if keeps else sum(each.ways for each in costs)
            return _Cost(ways, 1 + sum(each.steps for each in costs), min(each.least for each in costs))
        case _Repeat(inner, least, most, keeps):
            if most is None and not last:
                raise ValueError("has `*`, `+` or `{n,}` with something after it; say how many at most, as {1,20}")
            return _repeated_cost(
                _cost(inner, last=last and most == 1), least, least + 1 if most is None else most, keeps
            )


def _in_turn(costs: Sequence[_Cost]) -> _Cost:
    ways, steps, least = 1, 0, 0
    for each in costs:
        steps = _capped(steps + ways * each.steps)
        ways = _capped(ways * each.ways)
        least += each.least
    return _Cost(ways, steps, least)


def _repeated_cost(inner: _Cost, least: int, most: int, keeps: bool) -> _Cost:
    paths, ways, steps = 1, int(least == 0), 0
    for count in range(1, min(most, MOST_STEPS + 1) + 1):
        steps = _capped(steps + paths * inner.steps)
        paths = _capped(paths * inner.ways)
        if count >= least:
            ways = _capped(ways + paths)
    return _Cost(1 if keeps else max(1, ways), steps, least * inner.least)


def _capped(number: int) -> int:
    return min(number, MOST_STEPS + 1)
