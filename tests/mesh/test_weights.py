"""The weights: what they are when nobody says, the named ones, and what is no weight."""

from dataclasses import asdict, fields
from math import inf, nan
from typing import Any

import pytest

from lumbre.mesh import PROFILES, RouteWeights

NAMES = ("latency", "load", "capacity", "hop", "prompt")


def test_every_weight_is_one_unless_it_is_said() -> None:
    assert asdict(RouteWeights()) == dict.fromkeys(NAMES, 1.0)


def test_the_weights_are_the_five_of_the_seed_in_its_order() -> None:
    assert tuple(each.name for each in fields(RouteWeights)) == NAMES


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("fast_lan", (2.0, 1.5, 0.1, 0.05, 0.2)),
        ("gigabit", (2.0, 1.5, 0.1, 0.4, 0.2)),
        ("heterogeneous", (1.0, 1.0, 2.5, 1.0, 1.0)),
        ("bursty", (1.0, 2.5, 1.0, 1.0, 1.0)),
    ],
)
def test_a_profile_has_these_numbers(name: str, numbers: tuple[float, ...]) -> None:
    assert PROFILES[name] == RouteWeights(**dict(zip(NAMES, numbers, strict=True)))


def test_the_default_profile_is_the_default() -> None:
    assert PROFILES["default"] == RouteWeights()
    assert set(PROFILES) == {"default", "fast_lan", "gigabit", "heterogeneous", "bursty"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-0.1, -1, nan, inf, -inf, 10**400, "1", None, True, [1.0]])
def test_what_is_no_weight_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        RouteWeights(**{name: value})


def test_a_weight_of_thousands_of_digits_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"\bhop\b"):
        RouteWeights(hop=10**5000)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0, 0.0, 1, 0.05, 1e9])
def test_zero_and_everything_up_to_a_thousand_million_is_a_weight(name: str, value: float) -> None:
    assert getattr(RouteWeights(**{name: value}), name) == value
