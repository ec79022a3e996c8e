"""The kill switches: what each covers, row by row, and what the words for them are."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.gateway.switches import (
    GLOBAL,
    LABEL_SWITCHES,
    PAID,
    RESERVED,
    TIER_SWITCHES,
    Switch,
    covering,
    first_closed,
    kind_of,
)


@pytest.mark.parametrize(
    ("place", "names"),
    [
        # `global`, which closes B and C and never A
        (("A",), ("A",)),
        (("A", None, "one"), ("A",)),
        (("C",), ("global", "C")),
        (("C", None, "tier-c"), ("global", "C")),
        (("B",), ("global", "B")),
        (("B", "express"), ("global", "B", "express")),
        (("B", "express", "g", ("express",)), ("global", "B", "express", "g")),
        # of a node with both labels only the label that the work goes by is asked
        (("B", "express", "g", ("batch", "express")), ("global", "B", "express", "g")),
        # when a label borrows the other's node, both switches are checked
        (("B", "express", "g", ("batch",)), ("global", "B", "express", "batch", "g")),
    ],
)
def test_a_place_is_covered_by_these_switches_the_widest_first(place: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert covering(*place) == names


@pytest.mark.parametrize("label", LABEL_SWITCHES)
def test_no_switch_of_tier_b_or_c_ever_covers_a(label: str) -> None:
    for place in itertools.product([None, label], [None, "n"], [(), (label,)]):
        assert covering("A", *place) == ("A",)


@given(st.lists(st.sampled_from(["global", "B", "express", "g"])), st.sets(st.sampled_from(["global", "B", "g", "A"])))
def test_the_first_closed_is_the_widest_and_there_is_none_where_none_is_closed(
    names: list[str], closed: set[str]
) -> None:
    found = first_closed(names, closed)
    if found is None:
        assert closed.isdisjoint(names)
    else:
        assert found in closed
        assert closed.isdisjoint(names[: names.index(found)])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("A", "tier"), ("B", "tier"), ("C", "tier"), ("batch", "label"), ("express", "label")),
        *(("global", "global"), ("gpu-1", "node"), ("a", "node")),
    ],
)
def test_a_switch_is_of_a_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_a_switch_is_never_shown_by_the_bare_word() -> None:
    assert (Switch("B", True).state, Switch("B", True).shown) == ("closed", "closed (stopped)")
    assert (Switch("B").state, Switch("B").shown) == ("open", "open (flowing)")


def test_the_names_of_tiers_labels_and_global_are_no_nodes_to_have() -> None:
    assert sorted(RESERVED) == sorted([*TIER_SWITCHES, *LABEL_SWITCHES, GLOBAL])
    assert sorted(PAID) == ["B", "C"]
