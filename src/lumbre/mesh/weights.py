"""How much each part of a route's cost counts. Only data; the operator picks, `cost` multiplies."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite

from lumbre.core.quoting import quoted


@dataclass(frozen=True, slots=True)
class RouteWeights:
    """The weights of the seed's section 2, each finite and not negative. With all of them 1.0 its example holds.

    Attributes:
        latency: of a stage's milliseconds.
        load: of a node's load; a load of 1.0 counts as 120 ms.
        capacity: of a node's weakness; a score of 1.0 counts as 100 ms, of 100 as 1.
        hop: of each change of node, 15 ms.
        prompt: of each 1,024 tokens of the prompt, 10 ms, the same on every route.

    Raises:
        ValueError: one is no such number.
    """

    latency: float = 1.0
    load: float = 1.0
    capacity: float = 1.0
    hop: float = 1.0
    prompt: float = 1.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value) not in (int, float) or not value >= 0 or not _is_finite(value):
                raise ValueError(f"{each.name}: a weight is a finite number, 0 or more, not {quoted(value)}")
            object.__setattr__(self, each.name, float(value) + 0.0)  # of the two zeros the one without a sign


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an int that no float holds
        return False


PROFILES: Mapping[str, RouteWeights] = {
    "default": RouteWeights(),
    "fast_lan": RouteWeights(2.0, 1.5, 0.1, 0.05, 0.2),
    "gigabit": RouteWeights(2.0, 1.5, 0.1, 0.4, 0.2),
    "heterogeneous": RouteWeights(1.0, 1.0, 2.5, 1.0, 1.0),
    "bursty": RouteWeights(1.0, 2.5, 1.0, 1.0, 1.0),
}
"""By name: the seed's section 8. `fast_lan` is its own example; the others are its recommendations."""
