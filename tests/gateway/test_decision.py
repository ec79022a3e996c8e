"""The decision of a house with tier A alone, row by row."""

from typing import Any

import pytest

from lumbre.core.errors import LumbreError
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
