"""Which layers are covered and which boundaries can be reached, whatever it costs. Pure."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice

Fragment = tuple[int, int]
"""Its first and last layer, both ends included. It always runs whole."""

Window = tuple[int, int]
"""The first and last layer that are wanted."""

LISTED_LAYERS = 10_000
_NAMED_RUNS = 8


def missing_layers(fragments: Iterable[Fragment], window: Window) -> tuple[Fragment, ...]:
    """The layers of a window that no fragment covers, as runs."""
    missing = []
    low, high = window
    for first, last in sorted(fragments):
        if first > low:
            missing.append((low, min(first - 1, high)))
        low = max(low, last + 1)
        if low > high:
            break
    if low <= high:
        missing.append((low, high))
    return tuple(missing)


def listed(runs: Iterable[Fragment]) -> tuple[int, ...]:
    """The layers of runs one by one, the first 10,000 of them: a window may have a billion."""
    return tuple(islice(chain.from_iterable(range(first, last + 1) for first, last in runs), LISTED_LAYERS))


def layers(runs: Sequence[Fragment]) -> str:
    """Runs of layers in words, the first few of them."""
    named = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:_NAMED_RUNS]]
    more = " and others" if len(runs) > _NAMED_RUNS else ""
    single = len(runs) == 1 and runs[0][0] == runs[0][1]
    return f"{'layer' if single else 'layers'} {', '.join(named)}{more}"


def reachable(fragments: Iterable[Fragment], window: Window) -> set[int]:
    """The boundaries that whole fragments lead to from the window's head, itself among them."""
    low, high = window
    reached = {low}
    for first, last in sorted(fragments):
        if first in reached and last <= high:
            reached.add(last + 1)
    return reached


def dead_ends(fragments: Iterable[Fragment], window: Window) -> tuple[int, ...]:
    """The boundaries that can be reached and at which no fragment begins that ends inside the window."""
    every = list(fragments)
    leaving = {first for first, last in every if last <= window[1]}
    return tuple(sorted(reachable(every, window) - leaving - {window[1] + 1}))


def leading_on(fragments: Iterable[Fragment], window: Window) -> set[int]:
    """The boundaries from which whole fragments lead to the window's end, itself among them."""
    low, high = window
    leading = {high + 1}
    for first, last in sorted(fragments, reverse=True):
        if first >= low and last + 1 in leading:
            leading.add(first)
    return leading


def usable(fragments: Iterable[Fragment], window: Window) -> set[Fragment]:
    """The fragments that some route through the window runs."""
    every = list(fragments)
    reached, leading = reachable(every, window), leading_on(every, window)
    return {(first, last) for first, last in every if first in reached and last + 1 in leading}
