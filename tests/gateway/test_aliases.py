"""What a name stands for: itself, an exact alias, the closest pattern."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.gateway.aliases import Aliases, Asked
from lumbre.gateway.hints import MODEL_TIERS

ALIASES = Aliases(
    {
        "*": "last-resort",
        "gpt-*": "auto",
        "gpt-4*": "four",
        "gpt-?o": "tier-a",
        "gpt-4o": "exact",
        "o[13]-*": "thinker",
        "both": {"A": "small", "C": "large"},
        "smollm2": "something-else",
        "exact": "chained",
    }
)

names = st.text(alphabet="gpt-4o*?[]!", max_size=8)


@pytest.mark.parametrize(
    ("model", "target", "alias"),
    [
        ("gpt-4o", "exact", "gpt-4o"),
        ("gpt-4-turbo", "four", "gpt-4*"),
        ("gpt-3.5", "auto", "gpt-*"),
        ("gpt-5o", "tier-a", "gpt-?o"),  # five literal characters against the four of `gpt-*`
        ("o1-mini", "thinker", "o[13]-*"),
        ("o2-mini", "last-resort", "*"),
        ("GPT-4o", "last-resort", "*"),
    ],
)
def test_the_name_itself_wins_and_then_the_pattern_with_the_most_literal_characters(
    model: str, target: str, alias: str
) -> None:
    assert ALIASES.resolve(model, ("smollm2",)) == Asked(model, target, alias=alias)


def test_patterns_that_say_as_much_are_taken_in_the_order_of_their_text() -> None:
    assert Aliases({"b*": "x", "*b": "y"}).resolve("bb", ()).alias == "*b"
    assert Aliases({"*b": "y", "b*": "x"}).resolve("bb", ()).alias == "*b"


@pytest.mark.parametrize("model", ["smollm2", *MODEL_TIERS])
def test_a_served_model_and_the_words_for_tiers_stand_for_themselves(model: str) -> None:
    table = {"*": "x", "smollm2": "x", "auto": "x", "tier-a": "x"}
    assert Aliases(table).resolve(model, ("smollm2",)) == Asked(model, model)


def test_what_an_alias_stands_for_is_not_looked_up_again() -> None:
    assert ALIASES.resolve("gpt-4o", ()).model == "exact"


def test_a_table_keeps_the_callers_name_and_says_the_models() -> None:
    asked = ALIASES.resolve("both", ())
    assert (asked.model, dict(asked.by_tier), asked.alias) == ("both", {"A": "small", "C": "large"}, "both")


def test_a_message_names_the_alias_that_a_name_came_through() -> None:
    assert ALIASES.resolve("gpt-3.5", ()).told == "the model 'gpt-3.5' ([models.alias] 'gpt-*')"
    assert Asked("x", "x").told == "the model 'x'"


def test_only_names_without_wildcards_can_be_listed() -> None:
    assert ALIASES.names == ("gpt-4o", "both", "smollm2", "exact")


@given(st.dictionaries(names.filter(bool), st.sampled_from(["auto", "m"]), max_size=6), names)
def test_a_pattern_is_found_exactly_when_fnmatch_finds_one(table: dict[str, str], model: str) -> None:
    found = Aliases(table).resolve(model, ()).alias
    assert (found is not None) == any(fnmatch.fnmatchcase(model, pattern) or pattern == model for pattern in table)
    if found is not None:
        assert fnmatch.fnmatchcase(model, found) or found == model


@given(st.lists(names.filter(bool), unique=True, max_size=6), names)
def test_the_order_of_the_table_decides_nothing(patterns: list[str], model: str) -> None:
    forwards = Aliases({pattern: pattern for pattern in patterns}).resolve(model, ())
    backwards = Aliases({pattern: pattern for pattern in reversed(patterns)}).resolve(model, ())
    assert forwards == backwards
