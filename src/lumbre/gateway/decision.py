"""Which tier answers a request, and why. Pure; the dispatcher carries it out.

This house has tier A alone so far, so the decision is short: A takes what it may, and what it may not take is refused
with the way out. The tiers that fall back on each other will grow here.
"""

from dataclasses import dataclass

from lumbre.core.errors import CallerError, CapacityError
from lumbre.gateway.hints import MODEL_TIERS, Hints


@dataclass(frozen=True)
class Question:
    """What the decision has to know of a request."""

    model: str
    hints: Hints
    strict_json: bool


@dataclass(frozen=True)
class Facts:
    """What it has to know of the house."""

    a_does_strict_json: bool
    models: tuple[str, ...]
    """Every model that tier A serves by name."""


@dataclass(frozen=True)
class Decision:
    """Run on tier A.

    Attributes:
        model: the model asked for by name; None for the tier's own choice.
        reason: why, for a person.
    """

    tier: str
    model: str | None
    reason: str


def decide(question: Question, facts: Facts) -> Decision:
    """Decide.

    Raises:
        CallerError: 404 `model_not_found`; 422 `affinity_conflict`; 400 `invalid_hint` when model and hint disagree.
        CapacityError: 503 `strict_json_needs_b` or `no_tier`.
    """
    tier, named = _asked_tier(question, facts)
    if question.strict_json and not facts.a_does_strict_json:
        _refuse_strict_json(tier, question.hints)
    if question.hints.affinity == "B" and not facts.a_does_strict_json:
        _refuse_strict_json(tier, question.hints)
    wanted = tier or question.hints.affinity
    if wanted in ("B", "C"):
        raise CapacityError(f"tier {wanted} is not configured on this gateway; only tier A is", valid=("A",))
    if named is not None:
        return Decision("A", named, f"tier A serves the model {named!r}")
    return Decision("A", None, "tier A was asked for" if tier else "balanced: tier A is the only tier")


def _asked_tier(question: Question, facts: Facts) -> tuple[str | None, str | None]:
    if question.model not in MODEL_TIERS:
        if question.model not in facts.models:
            raise _unknown_model(question.model, facts)
        if question.hints.tier in ("B", "C"):
            message = f"the model {question.model!r} is served by tier A, and the hint asks for {question.hints.tier}"
            raise CallerError(message, param="model", code="invalid_hint")
        return "A", question.model
    tier, _ = MODEL_TIERS[question.model]
    if tier is not None and question.hints.tier not in (None, tier):
        message = f"the model name {question.model!r} asks for tier {tier}, the hint for {question.hints.tier}"
        raise CallerError(message, param="model", code="invalid_hint")
    return tier or question.hints.tier or ("B" if question.hints.label else None), None


def _unknown_model(model: str, facts: Facts) -> CallerError:
    valid = ("auto", "tier-a", *facts.models)
    message = f"no model {model!r} here; there are: {', '.join(valid)}"
    return CallerError(message, status=404, code="model_not_found", param="model", valid=valid)


def _refuse_strict_json(tier: str | None, hints: Hints) -> None:
    if tier == "A" or hints.affinity == "A":
        raise CallerError(
            "strict JSON does not run on tier A here; leave the tier open, or set [tier_a] strict_json = true "
            "if its model is up to it",
            status=422,
            code="affinity_conflict",
        )
    raise CapacityError(
        "strict JSON needs tier B, and none is configured. Two ways out: configure a node under [[tier_b.nodes]], "
        "or set [tier_a] strict_json = true if tier A's model is up to it",
        code="strict_json_needs_b",
    )
