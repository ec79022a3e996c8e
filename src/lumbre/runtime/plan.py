"""What is known of a call before anybody is asked: what it asks for, who may be asked, and which of them can do it.
Driver; the decision is `gateway.decision`'s.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lumbre.core.errors import CallerError, CapacityError, LumbreError
from lumbre.gateway.aliases import Aliases, Asked
from lumbre.gateway.decision import Attempt, Decision, decide
from lumbre.gateway.facts import Facts, Question
from lumbre.gateway.hints import MODEL_TIERS
from lumbre.gateway.hints import NONE as NO_HINTS
from lumbre.gateway.target import target_of
from lumbre.runtime.ability import able_lanes, must_look
from lumbre.runtime.call import Call
from lumbre.runtime.house import House
from lumbre.runtime.lanes import Lane
from lumbre.runtime.token_count import LONGEST_S, TokenCounter
from lumbre.wire.openai.promise import Promises, is_strict, promises_of
from lumbre.wire.openai.sense import check_sense


@dataclass(slots=True)  # not frozen: every request makes one
class Plan:
    """A call, and what has been decided about it.

    Attributes:
        named: what was asked for, for the record: a tier's word, a model, or the alias; never the caller's own words.
        answers: how many are asked for, each of which fills a slot.
        wait_until: until when it may wait for a place, on the loop's clock.
        began_at: when it was first dispatched; None before.
        lacks: see `Question`.
        tried: the nodes that have been asked.
        full: the tier that was full; `saturation` is what it said.
    """

    call: Call
    question: Question
    decision: Decision
    named: str
    promises: Promises
    answers: int
    wait_until: float
    began_at: float | None = None
    lacks: dict[str, CallerError] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    full: str | None = None
    saturation: CapacityError | None = None


class Planner:
    """Makes plans.

    Args:
        house: whose tiers are decided about; for embeddings, a house of their own.
        aliases: what the names of models stand for.
        clock: monotonic seconds, the event loop's.
    """

    def __init__(self, house: House, aliases: Aliases, counter: TokenCounter, clock: Callable[[], float]) -> None:
        self.house = house
        self._aliases = aliases
        self._counter = counter
        self._clock = clock
        self._decided_by: Facts | None = None
        self._decided: dict[str, Decision] = {}

    async def plan(self, call: Call) -> Plan:
        """Decide about a call.

        Raises:
            CallerError: it makes no sense, or promises what nobody can check.
        """
        if call.is_large:
            await asyncio.to_thread(check_sense, call.body)
        else:
            check_sense(call.body)
        wait_until = self._clock() + self.house.a.wait_s
        question = await self._question(call, wait_until)
        decision = self.again(question)
        if decision.outcome == "start" and self.house.b is not None:
            # A node that somebody else keeps up has not been looked at yet.
            await self.house.b.settle(wait_until)
            decision = self.again(question)
        answers = call.answers
        asked = question.asked
        named = asked.alias if asked is not None and asked.alias is not None else question.model
        served = asked is None or asked.alias is not None or question.model in self.house.facts().models
        promises = promises_of(call.body, answers)
        return Plan(call, question, decision, named if served else "", promises, answers, wait_until)

    def takes(self, model: str) -> bool:
        """Whether a request may name this model, and ask for no more."""
        facts = self.house.facts()
        asked = self._aliases.resolve(model, facts.models)
        try:
            target_of(Question(asked.model, NO_HINTS, asked=asked), facts)
        except LumbreError:
            return False
        return True

    def again(self, question: Question) -> Decision:
        """Decide by what is known now; what is asked in the usual way is decided once while nothing changes."""
        facts = self.house.facts()
        usual = question.asked is None and not question.strict_json and question.hints is NO_HINTS
        if not usual or question.lacks or question.key:
            return decide(question, facts)
        if self._decided_by is not facts:
            self._decided_by, self._decided = facts, {}
        decision = self._decided.get(question.model)
        if decision is None:
            decision = decide(question, facts)
            if decision.refusal is None:
                self._decided[question.model] = decision
        return decision

    async def able(self, plan: Plan, attempt: Attempt) -> list[Lane]:
        """The lanes of an attempt that can do all of a request; what the others lack, the plan then says.

        Raises:
            LumbreError: it could not even wait there.
        """
        tier = self.house.tier(attempt.tier)
        lanes = [lane for lane in tier.lanes_for(attempt.model) if lane.id in attempt.nodes]
        lanes = [lane for lane in lanes if lane.id not in plan.tried and lane.id not in plan.lacks]
        if not lanes or not must_look(lanes, plan.call, attempt.model):
            return lanes
        # Whoever would be turned away all the same has no engine count for it.
        check = partial(tier.refuse_if_full, plan.answers, lanes)
        until = min(self._clock() + LONGEST_S, plan.wait_until)
        able, lacks = await able_lanes(lanes, plan.call, attempt.model, self._count(plan, attempt, until, check))
        self._note(plan, lacks)
        return able

    async def lacks_now(self, plan: Plan, attempt: Attempt, lane: Lane) -> CallerError | None:
        """What a lane lacks that came up only now; None if nothing."""
        count = self._count(plan, attempt, self._clock() + LONGEST_S, None)
        _, lacks = await able_lanes([lane], plan.call, attempt.model, count)
        self._note(plan, lacks)
        return lacks.get(lane.id)

    def _note(self, plan: Plan, lacks: Mapping[str, CallerError]) -> None:
        if lacks:
            plan.lacks.update(lacks)
            plan.question.lacks = plan.lacks

    def _count(
        self, plan: Plan, attempt: Attempt, until: float, check: Callable[[], None] | None
    ) -> Callable[[Lane, Mapping[str, Any]], Any]:
        asked, model = plan.call.asked, attempt.model

        async def count(lane: Lane, body: Mapping[str, Any]) -> int | None:
            if lane.outside:
                return None  # nothing leaves the house only to be counted
            stops = self.house.checks(attempt)(lane)
            return await self._counter.count(lane, asked, body, model, until=until, check=check, stops=stops)

        return count

    async def _question(self, call: Call, wait_until: float) -> Question:
        facts = self.house.facts()
        model = str(call.body.get("model") or "auto")
        asked: Asked | None = None
        if model not in MODEL_TIERS and model not in facts.models:
            for tier in self.house.tiers:
                await tier.settle(wait_until)
            facts = self.house.facts()
            asked = self._aliases.resolve(model, facts.models)
            model = asked.model
        return Question(model, call.hints, is_strict(call.body), asked, call.key)


def refusal_of(decision: Decision, retry_after_s: int | None) -> LumbreError:
    """The error for a request that was not taken.

    Args:
        retry_after_s: when somebody may be asked again, if that is known.
    """
    said = decision.refusal
    if said is None:
        raise ValueError("the request was taken")
    if said.code == "no_tier" and retry_after_s is not None:
        said.retry_after_s = retry_after_s
    return said
