"""How money, moments and states read."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.cli.flow_text import breaker_text, moment, place_text, policy_text, state_text, switch_text, usd
from lumbre.cli.words import Words

ENGLISH = Words("en")


@given(st.integers(min_value=0, max_value=10**15))
def test_money_is_written_to_the_last_micro_dollar(microusd: int) -> None:
    number, unit = usd(microusd).split()
    assert unit == "USD"
    assert Fraction(number) * 1_000_000 == microusd
    assert len(number.partition(".")[2]) >= 2


@pytest.mark.parametrize(
    ("microusd", "text"), [(0, "0.00"), (17, "0.000017"), (5_000_000, "5.00"), (1_250_000, "1.25")]
)
def test_money_has_no_needless_zeros(microusd: int, text: str) -> None:
    assert usd(microusd) == f"{text} USD"


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-01-31T14:05:09.123456+00:00", "2026-01-31 14:05:09Z"),
        ("2026-01-31T14:05:09Z", "2026-01-31 14:05:09Z"),
        ("2026-01-31T16:05:09+02:00", "2026-01-31 14:05:09Z"),
        (None, "-"),
        ("soon", "soon"),
    ],
)
def test_a_moment_is_told_in_utc_to_the_second(at: object, text: str) -> None:
    assert moment(at) == text


def test_a_switch_and_a_breaker_are_never_shown_by_the_bare_word() -> None:
    for lang in ("en", "es"):
        words = Words(lang)
        shown = [switch_text({"state": state}, words) for state in ("open", "closed")]
        shown += [breaker_text({"state": state}, words) for state in ("open", "closed")]
        assert len(set(shown)) == 4
        assert all(" (" in text for text in shown)


def test_what_a_newer_gateway_says_is_shown_as_it_is() -> None:
    assert breaker_text({"state": "melted", "shown": "melted (gone)"}, ENGLISH) == "melted (gone)"
    assert breaker_text(None, ENGLISH) == "-"
    assert state_text("hibernating", ENGLISH) == "hibernating"


def test_a_policy_that_ends_says_when_and_which_comes_back() -> None:
    drain = {"policy": "drain-batch", "until": "2026-01-31T14:05:09+00:00"}
    assert policy_text({**drain, "default": "balanced"}, ENGLISH) == (
        "drain-batch until 2026-01-31 14:05:09Z, then balanced"
    )
    assert policy_text(drain, ENGLISH) == "drain-batch until 2026-01-31 14:05:09Z"
    assert policy_text({"policy": "balanced", "until": None, "default": "balanced"}, ENGLISH) == "balanced"


def test_a_place_is_its_tier_its_label_and_its_node() -> None:
    assert place_text({"tier": "B", "label": "express", "node": "gpu-1"}, ENGLISH) == "tier B, label express: gpu-1"
    assert place_text({"tier": "A", "label": None, "node": None}, ENGLISH) == "tier A"
