"""Which layers are covered and which boundaries can be reached, whatever it costs. Pure."""

from collections.abc import Iterable

from lumbre.mesh.telemetry import Fragment

Window = tuple[int, int]


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


def reachable(fragments: Iterable[Fragment], window: Window) -> set[int]:
    """The boundaries that whole fragments lead to from the window's head, itself among them."""
    low, high = window
    reached = {low}
    for first, last in sorted(fragments):
        if first in reached and last <= high:
            reached.add(last + 1)
    return reached


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
