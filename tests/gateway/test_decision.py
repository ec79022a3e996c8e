"""The decision of a house with tier A alone, row by row."""

from typing import Any

import pytest

from lumbre.core.errors import LumbreError
from lumbre.gateway.aliases import Aliases
from lumbre.gateway.decision import Facts, Question, decide
from lumbre.gateway.hints import Hints

MODELS = ("smollm2", "qwen")


def ask(model: str = "auto", strict: bool = False, a_does: bool = False, **hints: Any) -> Any:
    return decide(Question(model, Hints(**hints), strict), Facts(a_does, MODELS))


@pytest.mark.parametrize(
    ("asked", "model"),
    [
        ({}, None),
        ({"model": "tier-a"}, None),
        ({"model": "qwen"}, "qwen"),
        ({"tier": "A"}, None),
        ({"affinity": "A"}, None),
        ({"model": "qwen", "tier": "A"}, "qwen"),
        ({"complexity": "high", "klass": "background", "external": "never", "closed": "fall"}, None),
        ({"strict": True, "a_does": True}, None),
        ({"strict": True, "a_does": True, "tier": "A"}, None),
    ],
)
def test_tier_a_takes_what_it_may(asked: dict[str, Any], model: str | None) -> None:
    decision = ask(**asked)
    assert (decision.tier, decision.model) == ("A", model)
    assert decision.reason


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        # section 5.5: strict JSON never runs on A unless the operator says that A's model can
        ({"strict": True}, 503, "strict_json_needs_b"),
        ({"strict": True, "model": "tier-b"}, 503, "strict_json_needs_b"),
        ({"strict": True, "tier": "A"}, 422, "affinity_conflict"),
        ({"strict": True, "model": "tier-a"}, 422, "affinity_conflict"),
        ({"strict": True, "model": "qwen"}, 422, "affinity_conflict"),
        ({"strict": True, "affinity": "A"}, 422, "affinity_conflict"),
        ({"affinity": "B"}, 503, "strict_json_needs_b"),
        # with strict_json = true it is ordinary work, but affinity B still needs a B
        ({"affinity": "B", "a_does": True}, 503, "no_tier"),
        ({"tier": "B"}, 503, "no_tier"),
        ({"label": "express"}, 503, "no_tier"),
        ({"model": "tier-b/express"}, 503, "no_tier"),
        ({"model": "tier-c"}, 503, "no_tier"),
        ({"affinity": "C"}, 503, "no_tier"),
        ({"model": "gpt-4"}, 404, "model_not_found"),
        # section 1: affinity never falls to another tier
        ({"tier": "A", "affinity": "B", "a_does": True}, 422, "affinity_conflict"),
        ({"model": "tier-a", "affinity": "C"}, 422, "affinity_conflict"),
        ({"model": "qwen", "affinity": "B"}, 422, "affinity_conflict"),
        ({"tier": "A", "label": "batch"}, 400, "invalid_hint"),
        ({"model": "qwen", "label": "batch"}, 400, "invalid_hint"),
        ({"model": "tier-b/express", "label": "batch"}, 400, "invalid_hint"),
        ({"model": "qwen", "tier": "B"}, 400, "invalid_hint"),
        ({"model": "tier-a", "tier": "B"}, 400, "invalid_hint"),
        ({"model": "tier-c", "tier": "A"}, 400, "invalid_hint"),
    ],
)
def test_what_tier_a_may_not_take_is_refused_with_the_way_out(asked: dict[str, Any], status: int, code: str) -> None:
    with pytest.raises(LumbreError) as caught:
        ask(**asked)
    assert (caught.value.status, caught.value.code) == (status, code)


def test_strict_json_without_b_names_both_ways_out() -> None:
    with pytest.raises(LumbreError, match=r"tier_b.*strict_json = true"):
        ask(strict=True)


def test_an_unknown_model_is_told_the_known_ones() -> None:
    with pytest.raises(LumbreError) as caught:
        ask(model="gpt-4")
    assert caught.value.valid == ("auto", "tier-a", *MODELS)


def test_a_model_is_not_said_to_be_unknown_before_every_upstream_has_spoken() -> None:
    with pytest.raises(LumbreError) as caught:
        decide(Question("gpt-4", Hints(), strict_json=False), Facts(False, MODELS, complete=False))
    assert (caught.value.status, caught.value.code, caught.value.retry_after_s) == (503, "no_tier", 5)


def test_a_model_name_of_any_length_makes_a_short_message() -> None:
    with pytest.raises(LumbreError) as caught:
        ask(model="x" * 3_000_000)
    assert len(caught.value.message) < 400


ALIASES = Aliases(
    {
        "gpt-*": "auto",
        "gpt-4o": "qwen",
        "burst": "tier-b/express",
        "lost": "gone",
        "both": {"A": "qwen", "C": "large"},
        "own": {"A": "auto", "B": "x"},
        "cloud": {"C": "large"},
        "torn": {"A": "gone"},
    }
)


def ask_as(model: str, strict: bool = False, a_does: bool = False, complete: bool = True, **hints: Any) -> Any:
    asked = ALIASES.resolve(model, MODELS)
    return decide(Question(asked.model, Hints(**hints), strict, asked), Facts(a_does, MODELS, complete))


@pytest.mark.parametrize(
    ("asked", "model"),
    [
        ({"model": "gpt-3.5"}, None),
        ({"model": "gpt-4o"}, "qwen"),
        ({"model": "both"}, "qwen"),
        ({"model": "both", "tier": "A"}, "qwen"),
        ({"model": "both", "affinity": "A"}, "qwen"),
        ({"model": "own"}, None),
        ({"model": "own", "strict": True, "a_does": True}, None),
    ],
)
def test_an_alias_goes_where_it_says(asked: dict[str, Any], model: str | None) -> None:
    decision = ask_as(**asked)
    assert (decision.tier, decision.model) == ("A", model)
    # The pattern and never the caller's own words: the reason stands in the log.
    assert decision.reason.endswith(f"asked for through [models.alias] {ALIASES.resolve(asked['model'], ()).alias!r}")


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"model": "lost"}, 404, "model_not_found"),
        ({"model": "torn"}, 404, "model_not_found"),
        ({"model": "lost", "complete": False}, 503, "no_tier"),
        ({"model": "burst"}, 503, "no_tier"),
        ({"model": "cloud"}, 503, "no_tier"),
        ({"model": "both", "tier": "C"}, 503, "no_tier"),
        ({"model": "own", "label": "batch"}, 503, "no_tier"),
        ({"model": "both", "tier": "B"}, 404, "model_not_found"),
        ({"model": "both", "affinity": "B"}, 404, "model_not_found"),
        ({"model": "cloud", "tier": "A"}, 404, "model_not_found"),
        ({"model": "gpt-4o", "tier": "B"}, 400, "invalid_hint"),
        ({"model": "burst", "tier": "A"}, 400, "invalid_hint"),
        ({"model": "own", "tier": "A", "label": "batch"}, 400, "invalid_hint"),
        ({"model": "own", "tier": "A", "affinity": "B"}, 422, "affinity_conflict"),
        # a table asks for no tier, so strict JSON may go elsewhere; an alias to a model asks for tier A
        ({"model": "both", "strict": True}, 503, "strict_json_needs_b"),
        ({"model": "gpt-4o", "strict": True}, 422, "affinity_conflict"),
    ],
)
def test_an_alias_that_leads_nowhere_is_refused(asked: dict[str, Any], status: int, code: str) -> None:
    with pytest.raises(LumbreError) as caught:
        ask_as(**asked)
    assert (caught.value.status, caught.value.code) == (status, code)


def test_an_alias_to_a_model_that_nobody_serves_is_told_with_its_target() -> None:
    with pytest.raises(LumbreError, match=r"'lost' \(\[models.alias\] 'lost'\) stands for 'gone'"):
        ask_as("lost")
    with pytest.raises(LumbreError, match=r"'torn' .* stands for 'gone'"):
        ask_as("torn")


def test_an_unknown_model_is_told_of_aliases() -> None:
    with pytest.raises(LumbreError, match=r"\[models.alias\]"):
        ask(model="gpt-4")
