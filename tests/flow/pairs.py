"""Rows in which every two values that may stand together do so at least once. Pure, and the same rows each time.

A value that the row does not have to have is the first of its dimension, so that a row says as little as it can and
nothing hides what it is there for.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

Row = dict[str, str]


class Value(NamedTuple):
    """A dimension's name and one of its values."""

    name: str
    value: str


Pair = frozenset[Value]
Allowed = Callable[[Mapping[str, str]], bool]
"""Whether some values, of two dimensions or of all, may stand together."""


def pairs_of(row: Mapping[str, str]) -> set[Pair]:
    """Every two values of a row."""
    return {frozenset(pair) for pair in combinations([Value(*item) for item in row.items()], 2)}


def all_pairs(dimensions: Mapping[str, Sequence[str]], allowed: Allowed) -> list[Pair]:
    """Every two values of two dimensions that may stand together, in order."""
    found = []
    for one, other in combinations(dimensions, 2):
        for first in dimensions[one]:
            found += [
                frozenset({Value(one, first), Value(other, second)})
                for second in dimensions[other]
                if allowed({one: first, other: second})
            ]
    return found


class Covering:
    """Makes the rows.

    Args:
        dimensions: the values of each; with its first value every other may stand together.
        allowed: whether two values may stand together.
        bundles: values of further dimensions, of which a row has one bundle as it is.
        wanted: whether a row is good for anything.
    """

    def __init__(
        self,
        dimensions: Mapping[str, Sequence[str]],
        allowed: Allowed,
        bundles: Sequence[Mapping[str, str]] = ({},),
        wanted: Callable[[Row], bool] = lambda _row: True,
    ) -> None:
        self._dimensions = dimensions
        self._allowed = allowed
        self._bundles = bundles
        self._wanted = wanted
        self._usual = {name: values[0] for name, values in dimensions.items()}
        theirs = {name: tuple(dict.fromkeys(bundle[name] for bundle in bundles)) for name in bundles[0]}
        self._left = dict.fromkeys(all_pairs({**theirs, **dimensions}, allowed))

    def rows(self) -> list[Row]:
        """Rows that have all of `all_pairs`, greedily few.

        A pair that stands in no row that is wanted, all else being usual, is left out.
        """
        rows = []
        while self._left:
            pair = next(iter(self._left))
            row = self._row({value.name: value.value for value in pair})
            del self._left[pair]
            if row is not None:
                rows.append(row)
                for each in pairs_of(row):
                    self._left.pop(each, None)
        return rows

    def _row(self, fixed: Row) -> Row | None:
        """A row with these values, and as many pairs that are left as a look at one dimension after another finds."""
        fitting = [{**bundle, **fixed} for bundle in self._bundles if bundle.items() <= {**bundle, **fixed}.items()]
        starts = [row for row in fitting if self._goes(row)]
        if not starts:
            return None
        row = max(starts, key=self._worth)
        for name, values in self._dimensions.items():
            if name not in row:
                choices = [{**row, name: value} for value in values]
                row = max((each for each in choices if self._goes(each)), key=self._worth)
        return row

    def _worth(self, row: Row) -> int:
        return sum(pair in self._left for pair in pairs_of(row))

    def _goes(self, part: Row) -> bool:
        row = {**self._usual, **part}
        pairs = ({one: row[one], other: row[other]} for one, other in combinations(row, 2))
        return all(map(self._allowed, pairs)) and self._wanted(row)
