"""What a request asks for outright: a tier, a label, a model, and what it is bound to. Pure; the decision begins here.

Seed, step 2: an explicit tier wins over every policy. A model that only some tiers serve is an explicit tier too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lumbre.core.errors import CallerError, CapacityError, LumbreError
from lumbre.core.quoting import quoted
from lumbre.gateway.aliases import TIERS, Asked
from lumbre.gateway.facts import Facts, Question
from lumbre.gateway.hints import MODEL_TIERS, Hints


@dataclass(slots=True)  # not frozen: every request makes one
class Target:
    """What is asked for.

    Attributes:
        tier: asked for outright; None: the policy says.
        label: of tier B, asked for outright.
        reason: `explicit_tier`, `explicit_label`, `explicit_model`, `affinity`; None: nothing was asked for.
        text: the same for a person.
        model: asked for by name: whoever answers has to serve it.
        by_tier: a model for each tier that may answer; empty: the alias says nothing of it.
        bound: the one tier that may answer; None: any.
        strict: it needs strict JSON, and tier A is not up to it.
    """

    tier: str | None
    label: str | None
    reason: str | None
    text: str
    model: str | None = None
    by_tier: Mapping[str, str] = field(default_factory=dict)
    bound: str | None = None
    strict: bool = False

    def takes(self, tier: str) -> bool:
        """Whether a tier may be asked at all."""
        return (not self.by_tier or tier in self.by_tier) and not (self.strict and tier == "A")

    def model_on(self, tier: str) -> str | None:
        """The model that a tier has to run; None: its own choice."""
        if self.by_tier:
            model = self.by_tier.get(tier)
            return None if model == "auto" else model
        return self.model


def target_of(question: Question, facts: Facts) -> Target:
    """Read it.

    Raises:
        CallerError: 404 `model_not_found`; 422 `affinity_conflict`; 400 `invalid_hint` when two hints disagree; 403
            `tier_c_not_designated`.
        CapacityError: 503 `no_tier`: it is not known yet whether somebody serves the model.
    """
    target = _asked(question, facts)
    hints = question.hints
    strict = question.strict_json and not facts.a_does_strict_json
    target.strict = strict
    target.bound = hints.affinity
    if strict and "A" in (target.tier, hints.affinity):
        raise _strict_on_a()
    if target.tier is not None and hints.affinity not in (None, target.tier):
        message = f"tier {target.tier} is asked for, and the affinity says that it must be {hints.affinity}"
        raise CallerError(message, status=422, code="affinity_conflict")
    if strict:
        # Tier C may carry it where it is designated; nobody hands it on to A.
        target.bound = "C" if "C" in (target.tier, hints.affinity) else "B"
    if target.tier is None and hints.affinity in ("A", "C"):
        target.tier, target.reason = hints.affinity, "affinity"
        target.text = f"the request is bound to tier {hints.affinity}"
    if target.tier == "C":
        _check_designated(question, target, facts)
    return target


def _asked(question: Question, facts: Facts) -> Target:
    asked, hints, model = question.asked, question.hints, question.model
    if asked is not None and asked.by_tier:
        return _of_table(asked, hints, facts)
    if model not in MODEL_TIERS:
        return _of_model(question, asked or Asked(model, model), facts)
    tier, label = MODEL_TIERS[model]
    if tier is not None or label is not None:
        told = (asked or Asked(model, model)).told
        if tier is not None and hints.tier not in (None, tier):
            raise _disagree(f"{told} asks for tier {tier}, the hint for {hints.tier}")
        if label is not None and hints.label not in (None, label):
            raise _disagree(f"{told} asks for the label {label}, the hint for {hints.label}")
    return _of_hints(hints, tier, label)


def _of_hints(hints: Hints, tier: str | None, label: str | None) -> Target:
    tier, label = tier or hints.tier, label or hints.label
    if label is not None:
        if tier not in (None, "B"):
            raise _disagree(f"tier {tier} has no labels, and the hint asks for {label}")
        return Target("B", label, "explicit_label", f"the label {label} was asked for")
    if tier is not None:
        return Target(tier, None, "explicit_tier", f"tier {tier} was asked for")
    return Target(None, None, None, "no tier was asked for")


def _of_table(asked: Asked, hints: Hints, facts: Facts) -> Target:
    """An alias with a model for each tier: it names no tier, unless it has models for C alone."""
    target = _of_hints(hints, None, None)
    only_c = all(tier == "C" for tier in asked.by_tier)
    wanted = target.tier or hints.affinity or ("C" if only_c else None)
    if wanted is not None and wanted not in asked.by_tier:
        raise _not_found(f"{asked.told} names no model for tier {wanted}", facts)
    if target.tier is None and only_c:
        target = Target("C", None, "explicit_model", f"{asked.told} is tier C's alone")
    model = asked.by_tier.get("A", "auto")
    if model != "auto" and wanted in (None, "A") and not facts.serves("A", model):
        raise _unknown(model, asked, facts)
    target.by_tier = asked.by_tier
    return target


def _of_model(question: Question, asked: Asked, facts: Facts) -> Target:
    hints, model = question.hints, question.model
    serving = [tier for tier in TIERS if facts.serves(tier, model)]
    if not serving:
        raise _unknown(model, asked, facts)
    hinted = _of_hints(hints, None, None)
    if hinted.tier is not None and hinted.tier not in serving:
        raise _disagree(f"{asked.told} is tier {_and(serving)}'s, and the hint asks for another tier")
    if hinted.tier is None:
        able = [tier for tier in serving if tier != "A" or not question.strict_json or facts.a_does_strict_json]
        bound = [tier for tier in able if hints.affinity in (None, tier)]
        tier = (bound or able or serving)[0]  # the first that may take it, else the one to complain about
        hinted = Target(tier, None, "explicit_model", f"tier {tier} serves the model {quoted(model)}")
    hinted.model = model
    return hinted


def _check_designated(question: Question, target: Target, facts: Facts) -> None:
    """Direct work for C is there only where the operator designated it: for a model, a key, or everybody."""
    names = {"*", question.key, question.model, "" if question.asked is None else question.asked.name} - {"auto"}
    model = target.model_on("C")
    names.update((model,) if model is not None else [name for node in facts.c for name in node.models[:1]])
    if facts.c_direct.isdisjoint(names - {""}):
        there = "" if facts.c else "tier C is not configured, and "
        message = (
            f"{there}tier C answers by name only what its operator has designated: name the model, or the key, in "
            "[tier_c] direct. It takes other work when tiers A and B cannot"
        )
        raise CallerError(message, status=403, code="tier_c_not_designated")


def unknown_model(model: str, facts: Facts) -> CallerError:
    """The 404 for a model that nobody serves, with the names that can be asked for."""
    return _not_found(f"no model {quoted(model)} here", facts)


def _not_found(what: str, facts: Facts) -> CallerError:
    c_is_open = any(model in facts.askable for node in facts.c for model in node.models)
    there = {None: True, "A": True, "B": bool(facts.b), "C": c_is_open}
    valid = (*(word for word, (tier, _) in MODEL_TIERS.items() if there[tier]), *facts.askable)
    message = f"{what}; there are: {', '.join(valid)}. [models.alias] can give other names to them"
    return CallerError(message, status=404, code="model_not_found", param="model", valid=valid)


def _unknown(model: str, asked: Asked, facts: Facts) -> LumbreError:
    if not facts.a_is_complete:
        message = f"no upstream that is up serves {quoted(model)}, and not all are up yet"
        return CapacityError(message, retry_after_s=5)
    if asked.alias is None:
        return unknown_model(model, facts)
    who = "tier A does not serve" if asked.by_tier else "nobody here serves"
    return _not_found(f"{asked.told} stands for {quoted(model)}, which {who}", facts)


def _disagree(message: str) -> CallerError:
    return CallerError(message, param="model", code="invalid_hint")


def _strict_on_a() -> CallerError:
    message = (
        "strict JSON does not run on tier A here; leave the tier open, or set [tier_a] strict_json = true "
        "if its model is up to it"
    )
    return CallerError(message, status=422, code="affinity_conflict")


def _and(names: list[str]) -> str:
    return " and ".join(names)
