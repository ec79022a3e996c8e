"""Which tiers a request may be sent to, in which order, and why: the four steps of the seed. Pure; the dispatcher
carries the decision out, `POST /v1/flow/explain` shows it.

1. A closed switch of the requested tier: the request is refused or falls.
2. An explicit tier wins.
3. Without one the policy chooses.
4. A tier that is not available hands on to the next, unless the request is bound to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lumbre.core.errors import CapacityError, LumbreError
from lumbre.gateway.facts import AVAILABLE, Facts, Node, NodeState, Question
from lumbre.gateway.policy import label_by_class, label_for
from lumbre.gateway.switches import covering, first_closed
from lumbre.gateway.target import Target, target_of
from lumbre.gateway.unfit import (
    RETRY_SWITCH_S,
    Unfit,
    nothing_left,
    stopped_by,
    strict_json_needs_b,
    switch_refusal,
    told_switch,
)

NEXT = {"A": ("A", "B", "C"), "B": ("B", "A", "C"), "C": ("C", "A")}
"""Whom a tier falls to: the cheapest that can, the outside last."""

Verdict = Literal["pass", "take", "fall", "refuse"]


class Step(NamedTuple):
    """One step of the sequence, as far as it went.

    Attributes:
        step: 1 to 4, the seed's.
        tier: the one it is about; None where it is about none.
        reason: a stable word; `text` says it to a person.
    """

    step: int
    tier: str | None
    verdict: Verdict
    reason: str
    text: str


class Attempt(NamedTuple):
    """One tier that may be asked.

    Attributes:
        nodes: the ids of its upstreams that may run it.
        model: the one they have to run; None: their own choice.
        starts: none of them runs: a machine has to be started first, or is just starting.
    """

    tier: str
    label: str | None
    nodes: tuple[str, ...]
    model: str | None
    starts: bool = False


@dataclass(slots=True)  # not frozen: it costs a request half a microsecond more
class Decision:
    """What is to be done with a request.

    Attributes:
        outcome: `dispatch`; `start` a machine first; `wait` for a switch in the queue; `reject`.
        attempts: whom to ask, in this order; empty when it is rejected.
        refusal: why it is rejected.
        looked: the nodes that were looked at for it, fit or not.
        bound: the tier that it must run on.
        strict_json: it needs strict JSON, or is bound to tier B as such work is.
    """

    outcome: Literal["dispatch", "start", "wait", "reject"]
    steps: tuple[Step, ...]
    attempts: tuple[Attempt, ...]
    policy: str
    complexity: str
    klass: str
    strict_json: bool
    bound: str | None
    refusal: LumbreError | None = None
    looked: tuple[str, ...] = ()
    _reasons: tuple[str, ...] | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The steps, for the record; made once. What is refused may quote the caller, and is told by its code alone."""
        if self._reasons is None:
            self._reasons = tuple(map(_told, self.steps))
        return self._reasons


def decide(question: Question, facts: Facts) -> Decision:
    """Decide; a request that cannot be served is a decision too."""
    return _Making(question, facts).decision()


class _Making:
    """A decision on its way."""

    __slots__ = ("_facts", "_hints", "_klass", "_looked", "_question", "_steps", "_unfit")

    def __init__(self, question: Question, facts: Facts) -> None:
        self._question = question
        self._facts = facts
        self._hints = question.hints
        self._klass = question.hints.klass or "interactive"
        self._steps: list[Step] = []
        self._unfit: list[tuple[str, Unfit]] = []
        self._looked: list[str] = []

    def decision(self) -> Decision:
        """Go through the steps."""
        try:
            target = target_of(self._question, self._facts)
        except LumbreError as error:
            self._note(2, self._hints.tier, "refuse", error.code, error.message)
            return self._made("reject", None, refusal=error)
        tier, label = target.tier, target.label
        if tier is None:
            if (refusal := self._bound_against_policy(target)) is not None:
                self._note(3, "B", "refuse", "strict_json_needs_b", refusal.message)
                return self._made("reject", target, refusal=refusal)
            tier, label = self._by_policy(target)
        elif tier == "B" and label is None:
            label = self._label_serving(target)
        chain = (target.bound,) if target.bound is not None else self._chain(target, tier)
        switch = self._closed(tier, label)
        if switch is None:
            self._note(1, tier, "pass", "switch_open", f"no switch stands before {_name(tier, label)}")
        elif (stopped := self._stopped(target, tier, switch)) is not None:
            return stopped
        self._note_choice(target, tier, label)
        attempts = []
        for each in chain:
            attempt = self._look(target, each, label if each == tier else None)
            if attempt is not None:
                attempts.append(attempt)
        if self._waits(target, tier):
            return self._made("wait", target)
        if not attempts:
            refusal = self._nothing_left(target)
            self._note(4, tier, "refuse", refusal.code, refusal.message)
            return self._made("reject", target, refusal=refusal)
        return self._made("start" if attempts[0].starts else "dispatch", target, tuple(attempts))

    def _by_policy(self, target: Target) -> tuple[str, str | None]:
        complexity = self._hints.complexity or "medium"
        if target.bound == "B":
            # Strict JSON goes where complex work would: it is tier B's, whatever its complexity.
            label = label_for(self._facts.policy, "high", self._klass)
            return "B", label
        if self._facts.policy == "local-only":
            target.bound = "A"
        label = label_for(self._facts.policy, complexity, self._klass)
        return ("A", None) if label is None else ("B", label)

    def _bound_against_policy(self, target: Target) -> LumbreError | None:
        if target.bound != "B" or self._facts.policy != "local-only":
            return None
        message = (
            "strict JSON needs tier B, and the policy local-only keeps all work on tier A. Ask for tier B by name, or "
            "change the policy"
        )
        return CapacityError(message, code="strict_json_needs_b", retry_after_s=RETRY_SWITCH_S)

    def _label_serving(self, target: Target) -> str:
        """The label for work that asks for B and names none: by its class, unless only the other serves its model."""
        usual = label_by_class(self._klass)
        model = target.model_on("B")
        if model is None or any(model in node.models for node in self._of_label(usual)):
            return usual
        return next((node.labels[0] for node in self._facts.b if model in node.models and node.labels), usual)

    def _waits(self, target: Target, tier: str) -> bool:
        """Whether work for a node whose breaker is open is kept for it: what is bound to it, and background work."""
        if not self._facts.holds_work or tier != "B" or not self._unfit:
            return False
        first, unfit = self._unfit[0]
        kept = target.bound == "B" or self._klass == "background"
        return first == "B" and unfit.reason == "breaker_open" and kept

    def _chain(self, target: Target, tier: str) -> tuple[str, ...]:
        return tuple(each for each in NEXT[tier] if each == tier or target.takes(each))

    def _closed(self, tier: str, label: str | None) -> str | None:
        """The closed switch that stops all of a tier, or of a label."""
        closed = self._facts.closed
        if not closed:
            return None
        whole = first_closed(covering(tier, label), closed)
        if whole is not None or tier != "B":
            return whole
        stopped = [first_closed(covering("B", label, node.id, node.labels), closed) for node in self._of_label(label)]
        return stopped[0] if stopped and all(stopped) else None

    def _of_label(self, label: str | None) -> Sequence[Node]:
        """A label's nodes; a label without any borrows the other's."""
        own = [node for node in self._facts.b if label in node.labels]
        return own or self._facts.b

    def _stopped(self, target: Target, tier: str, switch: str) -> Decision | None:
        """Step 1 for a closed switch: None if the request falls to the next tier."""
        mode = self._hints.closed or self._facts.on_closed
        told = told_switch(switch)
        background = self._klass == "background" and mode == "auto"
        falls = mode == "fall" or (mode == "auto" and target.tier is None and not background)
        if falls and target.bound is None:
            self._note(1, tier, "fall", "switch_closed", told)
            return None
        if background and self._facts.holds_work:
            self._note(1, tier, "pass", "switch_closed", f"{told}; background work waits for it")
            return self._made("wait", target)
        self._note(1, tier, "refuse", "switch_closed", told)
        return self._made("reject", target, refusal=switch_refusal(switch))

    def _note_choice(self, target: Target, tier: str, label: str | None) -> None:
        if target.tier is not None:
            self._note(2, tier, "take", target.reason or "explicit_tier", self._through_alias(target.text))
            return
        policy = self._facts.policy
        self._note(2, None, "pass", "no_label", target.text)
        if target.bound == "B":
            text = f"{policy}: strict JSON, or affinity B, goes to {_name(tier, label)}"
            reason = "strict_json" if target.strict else "affinity"
        else:
            complexity = self._hints.complexity or "medium"
            by = f"{policy}: complexity {complexity}" if policy == "balanced" else policy
            text, reason = f"{by} goes to {_name(tier, label)}", policy
        self._note(3, tier, "take", reason, self._through_alias(text))

    def _through_alias(self, text: str) -> str:
        asked = self._question.asked
        if asked is None or asked.alias is None:
            return text
        return f"{text}; asked for through [models.alias] {asked.alias!r}"

    def _look(self, target: Target, tier: str, label: str | None) -> Attempt | None:
        """Step 4 for one tier."""
        if tier == "B":
            label = label or label_by_class(self._klass)
        nodes, unfit = self._fit(target, tier, label)
        if unfit is not None:
            self._unfit.append((tier, unfit))
            self._note(4, tier, "fall", unfit.reason, unfit.text)
            return None
        starts = tier == "B" and not any(node.state is NodeState.READY for node in nodes)
        reason = "starts" if starts else "available"
        self._note(
            4, tier, "take", reason, f"{_name(tier, label)} is available{' once it is started' if starts else ''}"
        )
        return Attempt(tier, label, tuple(node.id for node in nodes), target.model_on(tier), starts)

    def _fit(self, target: Target, tier: str, label: str | None) -> tuple[Sequence[Node], Unfit | None]:
        """The nodes of a tier that can take it, or why none can."""
        facts = self._facts
        if (barred := self._barred(target, tier, label)) is not None:
            return (), barred
        model = target.model_on(tier)
        nodes = self._of_label(label) if tier == "B" else facts.nodes(tier)
        if model is not None:
            nodes = [node for node in nodes if model in node.models]
            if not nodes:
                return (), Unfit("lacks_model", f"tier {tier} does not serve the model {model!r}", passes=False)
        self._looked += [node.id for node in nodes]
        plain = not self._question.lacks and not (facts.closed and tier == "B")
        if plain and (fit := [node for node in nodes if node.state in AVAILABLE]):
            why = None
        else:
            fit, why = self._fitting(nodes, tier, label)
        running = [node for node in fit if node.state is NodeState.READY] if tier == "B" else fit
        return running or fit, None if fit else why

    def _fitting(self, nodes: Sequence[Node], tier: str, label: str | None) -> tuple[list[Node], Unfit | None]:
        fit, why = [], None
        for node in nodes:
            unfit = self._node_unfit(node, tier, label)
            if unfit is None:
                fit.append(node)
            elif why is None or unfit.weight > why.weight:
                why = unfit
        return fit, why

    def _barred(self, target: Target, tier: str, label: str | None) -> Unfit | None:
        """What keeps a request from the whole of a tier."""
        facts = self._facts
        if not target.takes(tier):
            return Unfit("lacks_model", f"the alias names no model for tier {tier}", passes=False)
        if not facts.nodes(tier):
            return Unfit("not_configured", f"tier {tier} is not configured", passes=False)
        if tier == "C" and not facts.c_has_key:
            return Unfit("no_key", "tier C has no key", passes=False)
        if tier == "C" and self._hints.external == "never":
            return Unfit("external_never", "the request must not leave the house", passes=False)
        if (switch := self._closed(tier, label)) is not None:
            return stopped_by(switch)
        if tier in facts.over_budget:
            return Unfit("over_budget", f"today's budget leaves too little for tier {tier}")
        return None

    def _node_unfit(self, node: Node, tier: str, label: str | None) -> Unfit | None:
        facts = self._facts
        if (lack := self._question.lacks.get(node.id)) is not None:
            return Unfit(lack.code, lack.message, passes=False, error=lack)
        if facts.closed and tier == "B":
            switch = first_closed(covering("B", label, node.id, node.labels), facts.closed)
            if switch is not None:
                return stopped_by(switch)
        if node.state not in AVAILABLE:
            reason = "breaker_open" if node.state is NodeState.TRIPPED else str(node.state)
            return Unfit(reason, f"{node.id}: {node.reason or 'not up yet'}")
        return None

    def _nothing_left(self, target: Target) -> LumbreError:
        """The error for a request that nobody can take."""
        if target.bound == "B" and not self._facts.b and not self._facts.a_does_strict_json:
            return strict_json_needs_b()
        return nothing_left(self._unfit)

    def _note(self, step: int, tier: str | None, verdict: Verdict, reason: str, text: str) -> None:
        self._steps.append(Step(step, tier, verdict, reason, text))

    def _made(
        self,
        outcome: Literal["dispatch", "start", "wait", "reject"],
        target: Target | None,
        attempts: tuple[Attempt, ...] = (),
        *,
        refusal: LumbreError | None = None,
    ) -> Decision:
        bound = self._hints.affinity if target is None else target.bound
        return Decision(
            outcome,
            tuple(self._steps),
            attempts,
            self._facts.policy,
            self._hints.complexity or "medium",
            self._klass,
            self._question.strict_json or self._hints.affinity == "B",
            bound,
            refusal,
            tuple(self._looked),
        )


def _name(tier: str, label: str | None) -> str:
    return f"tier {tier}" if label is None else f"tier {tier}, label {label}"


def _told(step: Step) -> str:
    return f"{step.step} {step.tier or '-'} {step.verdict}: {step.reason if step.verdict == 'refuse' else step.text}"
