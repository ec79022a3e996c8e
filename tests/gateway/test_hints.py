"""What callers may say about where a request runs, and what happens when they say it wrong."""

import pytest

from lumbre.core.errors import CallerError
from lumbre.gateway.hints import VALUES, Hints, read


def test_nothing_said_is_nothing_hinted() -> None:
    assert read({}, None) == Hints()
    assert read({"accept": "x"}, {}) == Hints()


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in VALUES.items() for value in values])
def test_every_value_of_every_hint_is_taken_from_either_place(name: str, value: str) -> None:
    by_header = read({f"x-lumbre-{name}": value}, None)
    assert by_header == read({}, {name: value}) == read({f"x-lumbre-{name}": value}, {name: value})
    assert value in (by_header.klass, *(getattr(by_header, each, None) for each in VALUES))


@pytest.mark.parametrize(
    ("headers", "body", "code", "param"),
    [
        ({"x-lumbre-tier": "D"}, None, "unknown_tier", "X-Lumbre-Tier"),
        ({}, {"tier": "a"}, "unknown_tier", "lumbre.tier"),
        ({}, {"label": "gold"}, "unknown_label", "lumbre.label"),
        ({}, {"complexity": 3}, "invalid_hint", "lumbre.complexity"),
        ({"x-lumbre-class": ""}, None, "invalid_hint", "X-Lumbre-Class"),
        ({"x-lumbre-tier": "A"}, {"tier": "B"}, "invalid_hint", "lumbre.tier"),
        ({}, {"colour": "red"}, "invalid_hint", "lumbre.colour"),
        ({}, ["tier"], "invalid_hint", "lumbre"),
        ({}, "A", "invalid_hint", "lumbre"),
    ],
)
def test_a_wrong_hint_is_named(headers: dict[str, str], body: object, code: str, param: str) -> None:
    with pytest.raises(CallerError) as caught:
        read(headers, body)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


def test_a_wrong_value_is_told_the_valid_ones() -> None:
    with pytest.raises(CallerError) as caught:
        read({"x-lumbre-label": "gold"}, None)
    assert caught.value.valid == ("batch", "express")
