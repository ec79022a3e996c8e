"""Takes one request from the door to an engine and its reply back: decide, ask whom the decision names, and the next
one where that fails before the client has had a word. Driver; the verdicts are the domains'.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lumbre.backends.upstream import Outbound
from lumbre.core.errors import (
    CallerError,
    CapacityError,
    ConnectExpired,
    LumbreError,
    NoConnection,
    SwitchClosed,
)
from lumbre.gateway.aliases import Aliases
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.decision import Attempt, Decision
from lumbre.gateway.health import HealthState
from lumbre.gateway.moving_on import judge, next_attempt
from lumbre.gateway.redaction import Finder
from lumbre.ledger.store import Ledger
from lumbre.runtime.attempt import Attempts, Lacking, decision_headers, reply_headers
from lumbre.runtime.call import EMBEDDINGS, Call
from lumbre.runtime.client import Client
from lumbre.runtime.house import House
from lumbre.runtime.lanes import Lane
from lumbre.runtime.passage import Refused
from lumbre.runtime.plan import Plan, Planner, refusal_of
from lumbre.runtime.records import Record, Records
from lumbre.runtime.token_count import LONGEST_S, TokenCounter

__all__ = ["Dispatcher", "Embeddings", "decision_headers"]

_MOST_ATTEMPTS = 6
_MOST_OF_A_TIER = 3
_DEFAULT_RETRY_S = 5


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Who makes embeddings.

    Attributes:
        house: tier A, or lanes of their own, and no other tier: vectors of different models cannot be compared.
        model: what a request gets that leaves the model open; None: each lane's own choice.
        wake: called before a request waits for a place; starts what has to be started.
    """

    house: House
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


class _Desk:
    """Who plans and makes the attempts of one house."""

    __slots__ = ("attempts", "house", "planner")

    def __init__(self, house: House, planner: Planner, attempts: Attempts) -> None:
        self.house = house
        self.planner = planner
        self.attempts = attempts


class Dispatcher:
    """Answers calls.

    Args:
        house: who answers.
        embeddings: who makes embeddings; None: nobody.
        aliases: what the names of models stand for.
        finder: what is hidden from tier C; None: nothing.
        clock: monotonic seconds, the event loop's.
    """

    def __init__(
        self,
        house: House,
        embeddings: Embeddings | None,
        aliases: Aliases,
        outbound: Outbound,
        records: Records,
        ledger: Ledger,
        limits: Deadlines,
        *,
        finder: Finder | None,
        reply_limit_bytes: int,
        clock: Callable[[], float],
    ) -> None:  # shape: it is what the dispatcher is made of
        self._embeddings = embeddings
        self._records = records
        self._limits = limits
        self._clock = clock
        self._counter = TokenCounter(outbound)

        def desk(of: House) -> _Desk:
            planner = Planner(of, aliases, self._counter, clock)
            attempts = Attempts(
                of,
                planner,
                outbound,
                ledger,
                limits,
                finder=finder,
                reply_limit_bytes=reply_limit_bytes,
                clock=clock,
            )
            return _Desk(of, planner, attempts)

        self._desk = desk(house)
        self._embedding_desk = None if embeddings is None else desk(embeddings.house)

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

    async def decide(self, call: Call) -> Decision:
        """What would be done with a call; nobody is asked to answer it.

        Raises:
            CallerError: it makes no sense.
        """
        desk = self._desk_of(call)
        plan = await desk.planner.plan(call)
        await self._look(plan, desk)
        return plan.decision

    def takes(self, model: str) -> bool:
        """Whether a request for chat or embeddings that names this model, and asks for no more, would be taken now."""
        desks = [self._desk] if self._embedding_desk is None else [self._desk, self._embedding_desk]
        return any(desk.planner.takes(model) for desk in desks)

    async def _counted(self, call: Call, record: Record) -> tuple[int, bool]:
        desk = self._desk
        plan = await desk.planner.plan(call)
        record.named, record.reasons = plan.named, plan.decision.reasons
        if plan.decision.refusal is not None:
            raise refusal_of(plan.decision, desk.house.soonest_s(plan.decision.looked, self._clock()))
        attempt = plan.decision.attempts[0]
        tier = desk.house.tier(attempt.tier)
        lanes = [lane for lane in tier.lanes_for(attempt.model) if lane.id in attempt.nodes]
        lane = await tier.reach(lanes, plan.wait_until)
        record.tier, record.node, record.model = attempt.tier, lane.id, lane.target(attempt.model)
        until = min(self._clock() + LONGEST_S, plan.wait_until)
        told = await self._counter.count_or_estimate(lane, call.asked, call.body, attempt.model, until=until)
        record.status, record.finished = 200, True
        return told

    async def _answer(self, call: Call, client: Client, record: Record) -> None:
        desk = self._desk_of(call)
        plan = await desk.planner.plan(call)
        record.named, record.reasons = plan.named, plan.decision.reasons
        if call.asked == EMBEDDINGS and self._embeddings is not None:
            self._embeddings.wake()
        last: LumbreError | None = None
        left = dict.fromkeys(("A", "B", "C"), _MOST_OF_A_TIER)
        for _ in range(_MOST_ATTEMPTS):
            attempt = next_attempt(plan.decision.attempts, plan.tried, plan.full)
            if attempt is None:
                break
            try:
                await self._attempt(plan, attempt, desk, client, record)
                return
            except Lacking:
                self._decide_again(plan, desk, record)
            except SwitchClosed as closed:
                last = closed
                self._decide_again(plan, desk, record)
            except LumbreError as error:
                last = error
                if not self._moves_on(plan, attempt, desk, record, error):
                    break
            left[attempt.tier] -= 1
            if not left[attempt.tier]:
                plan.tried.update(attempt.nodes)
        self._give_up(plan, desk, client, record, last)

    async def _attempt(self, plan: Plan, attempt: Attempt, desk: _Desk, client: Client, record: Record) -> None:
        """One attempt.

        Raises:
            Lacking: nobody there can do the request.
            LumbreError: it failed; `record.spoken` says whether the client has had something of it.
        """
        record.spoken = False
        lanes = await desk.planner.able(plan, attempt)
        if not lanes:
            raise Lacking
        if attempt.model is None and plan.call.asked == EMBEDDINGS and self._embeddings is not None:
            attempt = attempt._replace(model=self._embeddings.model)
        await desk.attempts.make(plan, attempt, lanes, client, record)

    async def _look(self, plan: Plan, desk: _Desk) -> None:
        """Decide with what each tier lacks for the request, as far as that is known before it is asked."""
        for _ in range(_MOST_ATTEMPTS):
            attempt = next_attempt(plan.decision.attempts, ())
            if attempt is None or await desk.planner.able(plan, attempt):
                return
            plan.decision = desk.planner.again(plan.question)

    def _decide_again(self, plan: Plan, desk: _Desk, record: Record) -> None:
        plan.decision = desk.planner.again(plan.question)
        record.reasons = plan.decision.reasons

    def _moves_on(self, plan: Plan, attempt: Attempt, desk: _Desk, record: Record, error: LumbreError) -> bool:
        """Whether somebody else may be asked; and who need not be asked again."""
        if record.spoken or not judge(error).moves_on:
            return False
        if plan.began_at is not None and self._clock() - plan.began_at >= self._limits.total_s:
            return False
        if isinstance(error, CapacityError):
            # Nobody was asked: it is full, or down, or there is no money for it.
            plan.tried.update(attempt.nodes)
            if error.code == "saturated" and plan.full is None:
                plan.full, plan.saturation = attempt.tier, error
            return True
        lane = desk.house.tier(attempt.tier).lanes.get(record.node)
        if lane is not None and not _comes_back(lane, error):
            plan.tried.add(lane.id)
        return True

    def _give_up(self, plan: Plan, desk: _Desk, client: Client, record: Record, last: LumbreError | None) -> None:
        """Tell the client what the last one said, or why nobody was asked."""
        soonest_s = desk.house.soonest_s(plan.tried.union(plan.decision.looked), self._clock())
        if plan.full is not None and plan.saturation is not None and not record.spoken:
            raise plan.saturation  # a tier that is full sends nobody further, whatever became of the one that runs
        if plan.decision.refusal is not None and not record.spoken:
            raise refusal_of(plan.decision, soonest_s)
        if last is None:
            raise CapacityError("nobody can take the request now", retry_after_s=soonest_s or _DEFAULT_RETRY_S)
        if isinstance(last, Refused):
            more = reply_headers(record.tier, record.node, record.decision)
            last.tell(client, record, more, retry_after_s=soonest_s)
            return
        if last.retry_after_s is None and last.status in (429, 502, 503, 504) and not record.spoken:
            last.retry_after_s = soonest_s
        raise last

    def _desk_of(self, call: Call) -> _Desk:
        if call.asked != EMBEDDINGS:
            return self._desk
        if self._embedding_desk is None:
            message = 'embeddings are switched off here ([embeddings] backend = "off")'
            raise CallerError(message, status=404, code="unsupported_endpoint")
        return self._embedding_desk


def _comes_back(lane: Lane, error: LumbreError) -> bool:
    """Nothing was sent, and the engine is being started again: the request waits for it."""
    return isinstance(error, NoConnection | ConnectExpired) and lane.health.state is HealthState.STARTING
