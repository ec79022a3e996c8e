"""What a decision makes of names: models, tiers, aliases, what both disagree about, and how it says so.

Where work goes that names nothing is `test_decision_rows`' to say.
"""

from typing import Any

import pytest

from lumbre.core.errors import LumbreError
from lumbre.gateway.aliases import Aliases
from lumbre.gateway.decision import Attempt, Decision, decide
from lumbre.gateway.facts import Facts, Node, NodeState, Question
from lumbre.gateway.hints import Hints

MODELS = ("smollm2", "qwen")
A = Node("a", models=MODELS)
B = Node("b", labels=("express",), models=("qwen", "gemma"))
C = Node("c", models=("large",))

ALONE = Facts(a=(A,))
WHOLE = Facts(a=(A,), b=(B,), c=(C,), c_has_key=True, c_direct=frozenset({"large"}))

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


def ask(model: str = "auto", strict: bool = False, facts: Facts = ALONE, **hints: Any) -> Decision:
    asked = ALIASES.resolve(model, facts.models)
    asked_for = asked if asked.alias is not None or model not in facts.models else None
    return decide(Question(asked.model, Hints(**hints), strict, asked_for), facts)


def refused(*args: Any, **asked: Any) -> LumbreError:
    decision = ask(*args, **asked)
    assert (decision.outcome, decision.attempts) == ("reject", ())
    assert decision.refusal is not None
    return decision.refusal


@pytest.mark.parametrize(
    ("asked", "model"),
    [
        ({}, None),
        ({"model": "tier-a"}, None),
        ({"model": "qwen"}, "qwen"),
        ({"tier": "A"}, None),
        ({"affinity": "A"}, None),
        ({"model": "qwen", "tier": "A"}, "qwen"),
        ({"model": "qwen", "affinity": "A"}, "qwen"),
    ],
)
def test_tier_a_is_asked_for_the_model_that_was_named(asked: dict[str, Any], model: str | None) -> None:
    decision = ask(**asked)
    assert decision.attempts == (Attempt("A", None, ("a",), model),)
    assert decision.refusal is None
    assert decision.reasons


@pytest.mark.parametrize(
    ("asked", "tiers", "model"),
    [
        # the cheapest tier that serves it; the others that do are asked after it
        ({"model": "qwen"}, ["A", "B"], "qwen"),
        ({"model": "smollm2"}, ["A"], "smollm2"),
        ({"model": "gemma"}, ["B"], "gemma"),
        ({"model": "large"}, ["C"], "large"),
        ({"model": "qwen", "tier": "B"}, ["B", "A"], "qwen"),
        ({"model": "qwen", "affinity": "B"}, ["B"], "qwen"),
        ({"model": "qwen", "strict": True}, ["B"], "qwen"),
        ({"model": "gemma", "label": "express"}, ["B"], "gemma"),
        ({"model": "tier-b"}, ["B", "A", "C"], None),
    ],
)
def test_a_model_goes_to_the_tiers_that_serve_it(asked: dict[str, Any], tiers: list[str], model: str | None) -> None:
    decision = ask(facts=WHOLE, **asked)
    assert [(each.tier, each.model) for each in decision.attempts] == [(tier, model) for tier in tiers]


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"model": "gpt4"}, 404, "model_not_found"),
        ({"model": "tier-a", "affinity": "C"}, 422, "affinity_conflict"),
        ({"model": "qwen", "strict": True, "tier": "A"}, 422, "affinity_conflict"),
        ({"model": "tier-a", "strict": True}, 422, "affinity_conflict"),
        ({"tier": "A", "label": "batch"}, 400, "invalid_hint"),
        ({"model": "smollm2", "label": "batch"}, 400, "invalid_hint"),
        ({"model": "tier-b/express", "label": "batch"}, 400, "invalid_hint"),
        ({"model": "smollm2", "tier": "B"}, 400, "invalid_hint"),
        ({"model": "gemma", "tier": "A"}, 400, "invalid_hint"),
        ({"model": "tier-a", "tier": "B"}, 400, "invalid_hint"),
        ({"model": "tier-c", "tier": "A"}, 400, "invalid_hint"),
        ({"model": "smollm2", "affinity": "B"}, 422, "affinity_conflict"),
    ],
)
def test_names_and_hints_that_disagree_are_refused(asked: dict[str, Any], status: int, code: str) -> None:
    error = refused(facts=WHOLE, **asked)
    assert (error.status, error.code) == (status, code)


def test_strict_json_without_b_names_both_ways_out() -> None:
    message = refused(strict=True).message
    assert "[[tier_b.nodes]]" in message
    assert "strict_json = true" in message


def test_an_unknown_model_is_told_the_known_ones_and_the_way_to_more() -> None:
    error = refused("gpt4")
    assert error.valid == ("auto", "tier-a", *MODELS)
    assert "[models.alias]" in error.message
    assert error.param == "model"


def test_what_everybody_may_not_ask_of_c_is_not_offered() -> None:
    closed = Facts(a=(A,), c=(C,), c_has_key=True)
    assert refused("gpt4", facts=closed).valid == ("auto", "tier-a", *MODELS)
    words = ("auto", "tier-a", "tier-b", "tier-b/batch", "tier-b/express", "tier-c")
    assert refused("gpt4", facts=WHOLE).valid == (*words, *MODELS, "gemma", "large")


def test_a_model_is_not_said_to_be_unknown_before_every_upstream_has_spoken() -> None:
    error = refused("gpt4", facts=Facts(a=(A,), a_is_complete=False))
    assert (error.status, error.code, error.retry_after_s) == (503, "no_tier", 5)


def test_a_name_of_any_length_makes_a_short_message() -> None:
    assert len(refused("x" * 3_000_000).message) < 400


@pytest.mark.parametrize(
    ("asked", "attempts"),
    [
        ({"model": "gpt-3.5"}, [("A", None)]),
        ({"model": "gpt-4o"}, [("A", "qwen")]),
        ({"model": "both"}, [("A", "qwen")]),
        ({"model": "both", "tier": "A"}, [("A", "qwen")]),
        ({"model": "both", "affinity": "A"}, [("A", "qwen")]),
        ({"model": "own"}, [("A", None)]),
        ({"model": "gpt-3.5", "facts": WHOLE}, [("A", None), ("B", None), ("C", None)]),
        ({"model": "gpt-4o", "facts": WHOLE}, [("A", "qwen"), ("B", "qwen")]),
        ({"model": "gpt-4o", "facts": WHOLE, "tier": "B"}, [("B", "qwen"), ("A", "qwen")]),
        ({"model": "both", "facts": WHOLE}, [("A", "qwen"), ("C", "large")]),
        ({"model": "burst", "facts": WHOLE}, [("B", None), ("A", None), ("C", None)]),
        ({"model": "cloud", "facts": WHOLE}, [("C", "large")]),
    ],
)
def test_an_alias_goes_where_it_says(asked: dict[str, Any], attempts: list[tuple[str, str | None]]) -> None:
    decision = ask(**asked)
    assert [(each.tier, each.model) for each in decision.attempts] == attempts
    # The pattern and never the caller's own words: the reason stands in the log.
    alias = ALIASES.resolve(asked["model"], ()).alias
    assert any(reason.endswith(f"asked for through [models.alias] {alias!r}") for reason in decision.reasons)


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"model": "lost"}, 404, "model_not_found"),
        ({"model": "torn"}, 404, "model_not_found"),
        ({"model": "lost", "facts": Facts(a=(A,), a_is_complete=False)}, 503, "no_tier"),
        ({"model": "cloud", "facts": Facts(a=(A,), c=(C,), c_has_key=True)}, 403, "tier_c_not_designated"),
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
    error = refused(**asked)
    assert (error.status, error.code) == (status, code)


@pytest.mark.parametrize("alias", ["lost", "torn"])
def test_an_alias_to_a_model_that_nobody_serves_is_told_with_its_target(alias: str) -> None:
    message = refused(alias).message
    assert f"'{alias}' ([models.alias] '{alias}') stands for 'gone'" in message


def test_every_refusal_is_an_error_of_its_own() -> None:
    assert refused("gpt4") is not refused("gpt4")


def test_the_reason_tells_of_every_tier_that_was_passed_over() -> None:
    down = Node("a", NodeState.DOWN, "no answer", models=MODELS)
    decision = ask(facts=Facts(a=(down,), b=(B,)))
    assert [each.tier for each in decision.attempts] == ["B"]
    assert any("a: no answer" in reason for reason in decision.reasons)
    assert any("medium" in reason for reason in decision.reasons)
    assert decision.reasons == tuple(
        f"{step.step} {step.tier or '-'} {step.verdict}: {step.text}" for step in decision.steps
    )


def test_a_refusal_tells_why_each_tier_could_not() -> None:
    down = Node("a", NodeState.DOWN, "no answer")
    tripped = Node("b", NodeState.TRIPPED, "its breaker is open (tripped): it failed", labels=("express",))
    error = refused(facts=Facts(a=(down,), b=(tripped,), c=(C,), c_has_key=True, closed=frozenset({"C"})))
    assert (error.status, error.code) == (503, "no_tier")
    for told in ("A: a: no answer", "B: b: its breaker is open (tripped)", "the switch C is closed (stopped)"):
        assert told in error.message
