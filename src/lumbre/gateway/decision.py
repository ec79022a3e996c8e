"""Which tier answers a request, and why. Pure; the dispatcher carries it out.

This house has tier A alone so far, so the decision is short: A takes what it may, and what it may not take is refused
with the way out. The tiers that fall back on each other will grow here.
"""

from dataclasses import dataclass

from lumbre.core.errors import CallerError, CapacityError
from lumbre.core.quoting import quoted
from lumbre.gateway.aliases import TIERS, Asked
from lumbre.gateway.hints import MODEL_TIERS, Hints


@dataclass(slots=True)  # not frozen: every request makes one
class Question:
    """What the decision has to know of a request.

    Attributes:
        model: the name to decide by, such as `Asked.model`.
        asked: what the caller's name stands for; None: it stands for itself.
    """

    model: str
    hints: Hints
    strict_json: bool
    asked: Asked | None = None


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
    return Decision("A", named, _reason(question, tier, named))


def _reason(question: Question, tier: str | None, named: str | None) -> str:
    if named is not None:
        reason = f"tier A serves the model {named!r}"
    else:
        reason = "tier A was asked for" if tier else "balanced: tier A is the only tier"
    asked = question.asked
    return (
        reason
        if asked is None or asked.alias is None
        else f"{reason}; asked for through [models.alias] {quoted(asked.alias)}"
    )


def unknown_model(model: str, models: tuple[str, ...]) -> CallerError:
    """The 404 for a model that nobody serves, with the names that can be asked for."""
    return _not_found(f"no model {quoted(model)} here", models)


def _not_found(what: str, models: tuple[str, ...]) -> CallerError:
    valid = ("auto", "tier-a", *models)
    message = f"{what}; there are: {', '.join(valid)}. [models.alias] can give other names to them"
    return CallerError(message, status=404, code="model_not_found", param="model", valid=valid)


def _asked_tier(question: Question, facts: Facts) -> tuple[str | None, str | None]:
    """The tier that is asked for outright, and the model."""
    asked = question.asked or Asked(question.model, question.model)
    if asked.by_tier:
        return _tier_of_table(asked, question.hints, facts)
    hints, model = question.hints, question.model
    if model not in MODEL_TIERS:
        if model not in facts.models:
            raise _unknown(model, asked, facts)
        if hints.tier in ("B", "C") or hints.label:
            raise _disagree(f"{asked.told} is tier A's, and the hint asks for another tier")
        return "A", model
    tier, label = MODEL_TIERS[model]
    if tier is not None and hints.tier not in (None, tier):
        raise _disagree(f"{asked.told} asks for tier {tier}, the hint for {hints.tier}")
    if label is not None and hints.label not in (None, label):
        raise _disagree(f"{asked.told} asks for the label {label}, the hint for {hints.label}")
    return _hinted_tier(hints, tier), None


def _tier_of_table(asked: Asked, hints: Hints, facts: Facts) -> tuple[str | None, str | None]:
    """The same for an alias with a model for each tier: it names no tier, so hints may, and else the first has it."""
    hinted = _hinted_tier(hints, None)
    wanted = hinted or hints.affinity or next(tier for tier in TIERS if tier in asked.by_tier)
    if wanted not in asked.by_tier:
        raise _not_found(f"{asked.told} names no model for tier {wanted}", facts.models)
    if wanted != "A":
        return wanted, None
    model = asked.by_tier["A"]
    if model == "auto":
        return hinted, None
    if model not in facts.models:
        raise _unknown(model, asked, facts)
    return hinted, model


def _hinted_tier(hints: Hints, named: str | None) -> str | None:
    tier = named or hints.tier
    if hints.label and tier not in (None, "B"):
        raise _disagree(f"tier {tier} has no labels, and the hint asks for {hints.label}")
    return tier or ("B" if hints.label else None)


def _unknown(model: str, asked: Asked, facts: Facts) -> CallerError | CapacityError:
    if not facts.complete:
        message = f"no upstream that is up serves {quoted(model)}, and not all are up yet"
        return CapacityError(message, retry_after_s=5)
    if asked.alias is None:
        return unknown_model(model, facts.models)
    return _not_found(f"{asked.told} stands for {quoted(model)}, which tier A does not serve", facts.models)


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
