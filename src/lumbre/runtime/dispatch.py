"""Takes one request from the door to an engine and its reply back: decide, wait for a place, send, relay, record.
Driver; the verdicts are the domains'.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lumbre.backends.exchange import Opening
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import CallerError, ConnectExpired, LumbreError, NoConnection, UpstreamCut
from lumbre.gateway.aliases import Aliases, Asked
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.decision import Decision, Facts, Question, decide
from lumbre.gateway.health import HealthState
from lumbre.gateway.hints import MODEL_TIERS
from lumbre.gateway.hints import NONE as NO_HINTS
from lumbre.runtime.ability import able_lanes, must_look
from lumbre.runtime.call import EMBEDDINGS, Call
from lumbre.runtime.client import Client
from lumbre.runtime.lanes import Lane
from lumbre.runtime.passage import Passage
from lumbre.runtime.records import Record, Records
from lumbre.runtime.relay_embeddings import relay_embeddings
from lumbre.runtime.relay_json import relay_folded, relay_json
from lumbre.runtime.relay_stream import relay_stream
from lumbre.runtime.speech import Speech, speech
from lumbre.runtime.tier import Permit, Tier
from lumbre.runtime.token_count import LONGEST_S, TokenCounter
from lumbre.wire.openai.embeddings import batches
from lumbre.wire.openai.promise import Promises, is_strict, promises_of
from lumbre.wire.openai.sense import check_sense

_ATTEMPTS = 3
_UNCANCELLABLE_BYTES = 512
"""Of text in one call for embeddings to an engine that works on after its caller has gone."""


class _Lacking(Exception):
    """An upstream that came up only now turns out to lack something that the request needs."""

    def __init__(self, refusal: CallerError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(slots=True)  # not frozen: every request makes one
class _Plan:
    """What is known of a call before anybody is asked.

    Attributes:
        named: what was asked for, for the record: a tier's word, or the alias; never the caller's own words.
    """

    call: Call
    tier: Tier
    decision: Decision
    named: str
    promises: Promises
    answers: int
    deadline_at: float


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Who makes embeddings.

    Attributes:
        model: what a request gets that leaves the model open; None: each lane's own choice.
        wake: called before a request waits for a place; starts what has to be started.
    """

    tier: Tier
    model: str | None
    wake: Callable[[], None]


class _Recording:
    """Sees a request to its end, and has it written down. Not a generator's context manager, which costs more."""

    __slots__ = ("_clock", "_record", "_records")

    def __init__(self, records: Records, record: Record, clock: Callable[[], float]) -> None:
        self._records = records
        self._record = record
        self._clock = clock

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        record = self._record
        if isinstance(error, LumbreError):
            record.status = record.status or error.status
            record.outcome = record.outcome or error.code
            record.param = error.param
        elif isinstance(error, asyncio.CancelledError) and not record.finished:
            record.outcome = str(error.args[0]) if error.args else "client_gone"
        elif error is None or isinstance(error, asyncio.CancelledError):
            record.outcome = record.outcome or "ok"
        record.mark("end", self._clock())
        self._records.write(record)


class Dispatcher:
    """Answers calls.

    Args:
        tier: who answers.
        embeddings: who makes embeddings; None: nobody.
        aliases: what the names of models stand for.
        clock: monotonic seconds, the event loop's.
    """

    def __init__(
        self,
        tier: Tier,
        embeddings: Embeddings | None,
        aliases: Aliases,
        outbound: Outbound,
        records: Records,
        limits: Deadlines,
        *,
        reply_limit_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._tier = tier
        self._embeddings = embeddings
        self._aliases = aliases
        self._outbound = outbound
        self._records = records
        self._limits = limits
        self._reply_limit_bytes = reply_limit_bytes
        self._clock = clock
        self._counter = TokenCounter(outbound)
        self._decided_by: Facts | None = None
        self._decided: dict[str, Decision] = {}

    async def answer(self, call: Call, client: Client) -> None:
        """Answer one call.

        Raises:
            LumbreError: what went wrong; the door tells the client in its API's shape.
        """
        record = Record(call.decision, call.endpoint, call.stream, self._clock())
        with _Recording(self._records, record, self._clock):
            await self._answer(call, client, record)

    async def count_tokens(self, call: Call) -> tuple[int, bool]:
        """How many tokens a call's prompt is for the engine that would answer it, and whether that is an estimate.

        Raises:
            LumbreError: nobody could answer the call.
        """
        record = Record(call.decision, f"{call.endpoint}/count_tokens", stream=False, began_at=self._clock())
        with _Recording(self._records, record, self._clock):
            return await self._counted(call, record)

    def takes(self, model: str) -> bool:
        """Whether a request for chat or embeddings that names this model, and asks for no more, would be taken now."""
        tiers = [self._tier] if self._embeddings is None else [self._tier, self._embeddings.tier]
        return any(self._would_take(tier.facts(), model) for tier in tiers)

    def _would_take(self, facts: Facts, model: str) -> bool:
        asked = self._aliases.resolve(model, facts.models)
        try:
            decide(Question(asked.model, NO_HINTS, strict_json=False, asked=asked), facts)
        except LumbreError:
            return False
        return True

    async def _counted(self, call: Call, record: Record) -> tuple[int, bool]:
        plan = await self._planned(call, self._tier)
        model = plan.decision.model
        record.model, record.reason = model or plan.named, plan.decision.reason
        lane = await self._tier.reach(self._tier.lanes_for(model), plan.deadline_at)
        record.node = lane.id
        until = min(self._clock() + LONGEST_S, plan.deadline_at)
        told = await self._counter.count_or_estimate(lane, call.asked, call.body, model, until=until)
        record.status, record.finished = 200, True
        return told

    async def _answer(self, call: Call, client: Client, record: Record) -> None:
        plan = await self._planned(call, self._tier_of(call))
        record.model = plan.decision.model or plan.named
        record.reason = plan.decision.reason
        lanes = plan.tier.lanes_for(plan.decision.model)
        if must_look(lanes, call, plan.decision.model):
            # Whoever would be turned away all the same has no engine count for it.
            check = partial(plan.tier.refuse_if_full, plan.answers, lanes)
            until = min(self._clock() + LONGEST_S, plan.deadline_at)
            count = partial(self._prompt_tokens, plan, until=until, check=check)
            lanes = await able_lanes(lanes, call, plan.decision.model, count)
        if call.asked == EMBEDDINGS and self._embeddings is not None:
            self._embeddings.wake()
        for left in reversed(range(_ATTEMPTS)):
            # What is not up yet has not said what it can do.
            unsure = not _are_up(lanes)
            try:
                await self._attempt(plan, client, record, lanes, unsure=unsure)
                return
            except _Lacking as lacking:
                lanes = [lane for lane in lanes if lane.id != record.node]
                if not lanes or not left:
                    raise lacking.refusal from None
            except (NoConnection, ConnectExpired):
                # Nothing was sent, so another try is safe: elsewhere, or here once it is up again.
                lanes = [lane for lane in lanes if lane.id != record.node or lane.health.state is HealthState.STARTING]
                if client.started or not lanes or not left:
                    raise

    async def _prompt_tokens(
        self,
        plan: _Plan,
        lane: Lane,
        body: Mapping[str, Any],
        *,
        until: float,
        check: Callable[[], None] | None = None,
    ) -> int | None:
        asked, model = plan.call.asked, plan.decision.model
        return await self._counter.count(lane, asked, body, model, until=until, check=check)

    def _tier_of(self, call: Call) -> Tier:
        if call.asked != EMBEDDINGS:
            return self._tier
        if self._embeddings is None:
            message = 'embeddings are switched off here ([embeddings] backend = "off")'
            raise CallerError(message, status=404, code="unsupported_endpoint")
        return self._embeddings.tier

    async def _planned(self, call: Call, tier: Tier) -> _Plan:
        if call.is_large:
            await asyncio.to_thread(check_sense, call.body)
        else:
            check_sense(call.body)
        deadline_at = self._clock() + tier.wait_s
        facts = tier.facts()
        model = str(call.body.get("model") or "auto")
        asked: Asked | None = None
        if model not in MODEL_TIERS and model not in facts.models:
            await tier.settle(deadline_at)
            facts = tier.facts()
            asked = self._aliases.resolve(model, facts.models)
            model = asked.model
        decision = self._decision(Question(model, call.hints, is_strict(call.body), asked), facts)
        if call.asked == EMBEDDINGS and decision.model is None and self._embeddings is not None:
            decision = replace(decision, model=self._embeddings.model)
        answers = call.answers
        named = asked.alias if asked is not None and asked.alias is not None else model
        return _Plan(call, tier, decision, named, promises_of(call.body, answers), answers, deadline_at)

    def _decision(self, question: Question, facts: Facts) -> Decision:
        """Decide; what is asked in the usual way is decided once for all the time in which nothing changes."""
        if question.asked is not None or question.strict_json or question.hints is not NO_HINTS:
            return decide(question, facts)
        if self._decided_by is not facts:
            self._decided_by, self._decided = facts, {}
        decision = self._decided.get(question.model)
        if decision is None:
            decision = self._decided[question.model] = decide(question, facts)
        return decision

    async def _attempt(self, plan: _Plan, client: Client, record: Record, lanes: list[Lane], *, unsure: bool) -> None:
        call = plan.call
        with await plan.tier.permit(call.decision, plan.answers, lanes, plan.deadline_at) as permit:
            lane = permit.lane
            record.node = lane.id
            record.mark("admitted", self._clock())
            if unsure:
                await self._check_again(plan, lane)
            said = speech(call, lane, plan.decision.model)
            passage = self._passage(plan, client, record, lane, said)
            try:
                await self._relay(passage, permit, call, said)
            except (NoConnection, ConnectExpired, UpstreamCut):
                plan.tier.suspect(lane)
                raise

    async def _check_again(self, plan: _Plan, lane: Lane) -> None:
        count = partial(self._prompt_tokens, plan, until=self._clock() + LONGEST_S)
        try:
            await able_lanes([lane], plan.call, plan.decision.model, count)
        except CallerError as error:
            raise _Lacking(error) from error

    async def _relay(self, passage: Passage, permit: Permit, call: Call, said: Speech) -> None:
        traits = permit.lane.traits
        if call.asked == EMBEDDINGS:
            most_bytes = _UNCANCELLABLE_BYTES if traits.needs_stream else self._reply_limit_bytes
            parts = batches(said.body, most_bytes)
            await relay_embeddings(passage, said.body, parts, lambda part: self._post(permit, call, said.part(part)))
            return
        opening = self._post(permit, call, said)
        relay = relay_stream if call.stream else relay_folded if traits.needs_stream else relay_json
        try:
            await relay(passage, opening)
        finally:
            opening.close()

    def _post(self, permit: Permit, call: Call, said: Speech) -> Opening:
        reuse = permit.lane.traits.keeps_connections
        return self._outbound.post(
            permit.address, said.endpoint, said.encoded(), call.headers, self._limits, reuse=reuse
        )

    def _passage(self, plan: _Plan, client: Client, record: Record, lane: Lane, said: Speech) -> Passage:
        call = plan.call
        return Passage(
            client=client,
            record=record,
            limits=self._limits,
            promises=plan.promises,
            headers=[
                ("x-lumbre-tier", plan.decision.tier),
                ("x-lumbre-node", lane.id),
                *decision_headers(call.decision),
            ],
            dialect=said.dialect,
            model=str(said.body["model"]),
            translation=said.translation,
            openai_errors=call.retelling is None or call.retelling.openai_errors,
            blame=None if call.retelling is None else call.retelling.blame,
            keep=None if call.retelling is None else call.retelling.keep,
            choices=plan.answers,
            own_progress=said.adds_progress,
            sends_nulls=lane.traits.sends_nulls,
            reply_limit_bytes=self._reply_limit_bytes,
            clock=self._clock,
            began_at=self._clock(),
        )


def _are_up(lanes: list[Lane]) -> bool:
    for lane in lanes:  # noqa: SIM110 a generator costs twice the loop, for every request
        if lane.health.state is not HealthState.READY:
            return False
    return True


def decision_headers(decision: str) -> list[tuple[str, str]]:
    """The headers by which a reply, or an error, can be found again."""
    return [("x-lumbre-decision", decision), ("x-request-id", decision)]
