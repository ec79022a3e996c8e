"""Which tier answers a request, and why. Pure; the dispatcher carries it out.

This house has tier A alone so far, so the decision is short: A takes what it may, and what it may not take is refused
with the way out. The tiers that fall back on each other will grow here.
"""

from dataclasses import dataclass

from lumbre.core.errors import CallerError, CapacityError
from lumbre.core.quoting import quoted
from lumbre.gateway.hints import MODEL_TIERS, Hints


@dataclass(frozen=True)
class Question:
    """What the decision has to know of a request."""

    model: str
    hints: Hints
    strict_json: bool


@dataclass(frozen=True)
class Facts:
    """What it has to know of the house.

    Attributes:
        models: every model that tier A serves by name.
        complete: each upstream has said what it serves, so a model that is not among them does not exist.
    """

    a_does_strict_json: bool
    models: tuple[str, ...]
    complete: bool = True


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
        CallerError: 404 `model_not_found`; 422 `affinity_conflict`; 400 `invalid_hint` when two hints disagree.
        CapacityError: 503 `strict_json_needs_b` or `no_tier`.
    """
    tier, named = _asked_tier(question, facts)
    hints = question.hints
    if tier == "A" and hints.affinity in ("B", "C"):
        message = f"tier A is asked for, and the affinity says that it must be {hints.affinity}"
        raise CallerError(message, status=422, code="affinity_conflict")
    needs_strict = question.strict_json or hints.affinity == "B"
    if needs_strict and not facts.a_does_strict_json:
        _refuse_strict_json(tier, hints)
    wanted = tier or hints.affinity
    if wanted in ("B", "C"):
        raise CapacityError(f"tier {wanted} is not configured on this gateway; only tier A is", valid=("A",))
    if named is not None:
        return Decision("A", named, f"tier A serves the model {named!r}")
    return Decision("A", None, "tier A was asked for" if tier else "balanced: tier A is the only tier")


def unknown_model(model: str, models: tuple[str, ...]) -> CallerError:
    """The 404 for a model that nobody serves, with the names that can be asked for."""
    valid = ("auto", "tier-a", *models)
    message = f"no model {quoted(model)} here; there are: {', '.join(valid)}"
    return CallerError(message, status=404, code="model_not_found", param="model", valid=valid)


def _asked_tier(question: Question, facts: Facts) -> tuple[str | None, str | None]:
    hints, model = question.hints, question.model
    if model not in MODEL_TIERS:
        if model not in facts.models:
            raise _unknown(model, facts)
        if hints.tier in ("B", "C") or hints.label:
            raise _disagree(f"the model {quoted(model)} is tier A's, and the hint asks for another tier")
        return "A", model
    tier, label = MODEL_TIERS[model]
    if tier is not None and hints.tier not in (None, tier):
        raise _disagree(f"the model name {model!r} asks for tier {tier}, the hint for {hints.tier}")
    if label is not None and hints.label not in (None, label):
        raise _disagree(f"the model name {model!r} asks for the label {label}, the hint for {hints.label}")
    asked = tier or hints.tier
    if hints.label and asked not in (None, "B"):
        raise _disagree(f"tier {asked} has no labels, and the hint asks for {hints.label}")
    return asked or ("B" if hints.label else None), None


def _unknown(model: str, facts: Facts) -> CallerError | CapacityError:
    if facts.complete:
        return unknown_model(model, facts.models)
    message = f"no upstream that is up serves {quoted(model)}, and not all are up yet"
    return CapacityError(message, retry_after_s=5)


def _disagree(message: str) -> CallerError:
    return CallerError(message, param="model", code="invalid_hint")


def _refuse_strict_json(tier: str | None, hints: Hints) -> None:
    if tier == "A" or hints.affinity == "A":
        raise CallerError(
            "strict JSON does not run on tier A here; leave the tier open, or set [tier_a] strict_json = true "
            "if its model is up to it",
            status=422,
            code="affinity_conflict",
        )
    raise CapacityError(
        "strict JSON needs tier B, and none is configured. Two ways out: a node under [[tier_b.nodes]] (which this "
        "version does not have yet), or [tier_a] strict_json = true if tier A's model is up to it",
        code="strict_json_needs_b",
    )
