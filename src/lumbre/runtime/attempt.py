"""One attempt to have a call answered by one tier: a place, money, the passage there and back, and what it was found to
mean for the node. Driver; `gateway.moving_on` says what a failure means.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

import orjson

from lumbre.backends.exchange import Opening
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import CapacityError, ConnectExpired, DeadlineError, LumbreError, NoConnection, UpstreamCut
from lumbre.gateway.breaker import BreakerState
from lumbre.gateway.capability import need_of
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.decision import Attempt
from lumbre.gateway.health import HealthState
from lumbre.gateway.moving_on import UpstreamRefusal, judge
from lumbre.gateway.redaction import Finder, Redaction
from lumbre.ledger import records as entries
from lumbre.ledger.store import Ledger
from lumbre.runtime.call import EMBEDDINGS, Call
from lumbre.runtime.client import Client, Headers
from lumbre.runtime.house import House
from lumbre.runtime.lanes import Lane
from lumbre.runtime.passage import Passage
from lumbre.runtime.plan import Plan, Planner
from lumbre.runtime.purse import Hold
from lumbre.runtime.records import NOTHING, Record
from lumbre.runtime.relay_embeddings import relay_embeddings
from lumbre.runtime.relay_json import EngineFailed, relay_folded, relay_json
from lumbre.runtime.relay_stream import relay_stream
from lumbre.runtime.speech import Speech, longest_answer, speech
from lumbre.runtime.tier import Permit, Tier
from lumbre.runtime.token_count import IMAGE_TOKENS, images_in
from lumbre.wire.openai.embeddings import batches
from lumbre.wire.openai.story import Usage

_UNCANCELLABLE_BYTES = 512
"""Of text in one call for embeddings to an engine that works on after its caller has gone."""

_BROKE = "it failed in the middle of its answer"


class Lacking(Exception):
    """An upstream that came up only now turns out to lack something that the request needs."""


@dataclass(slots=True)
class Run:
    """One attempt as it goes.

    Attributes:
        number: 1 for the request's first.
        hold: the money that is set aside; None before it is, and where nothing costs.
    """

    plan: Plan
    attempt: Attempt
    number: int
    began_at: float
    hold: Hold | None = None


class Attempts:
    """Makes attempts.

    Args:
        finder: what is hidden from tier C; None: nothing.
        clock: monotonic seconds, the event loop's.
    """

    def __init__(
        self,
        house: House,
        planner: Planner,
        outbound: Outbound,
        ledger: Ledger,
        limits: Deadlines,
        *,
        finder: Finder | None,
        reply_limit_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._house = house
        self._planner = planner
        self._outbound = outbound
        self._ledger = ledger
        self._limits = limits
        self._finder = finder
        self._reply_limit_bytes = reply_limit_bytes
        self._clock = clock

    async def make(self, plan: Plan, attempt: Attempt, lanes: list[Lane], client: Client, record: Record) -> None:
        """Ask one of the lanes, and see its answer to the client.

        Raises:
            Lacking: the upstream lacks something; the plan says what.
            LumbreError: it failed; `record.spoken` says whether the client has had something of it.
        """
        tier, call = self._house.tier(attempt.tier), plan.call
        # What is not up yet has not said what it can do.
        unsure = not _are_up(lanes)
        # A tier that others fall to because theirs is full is not waited for.
        until = plan.wait_until if plan.full is None else self._clock()
        checks = self._house.checks(attempt)
        with await tier.permit(call.decision, plan.answers, lanes, until, checks) as permit:
            lane = permit.lane
            record.tier, record.label, record.node = attempt.tier, attempt.label, lane.id
            record.model = lane.target(attempt.model)
            record.mark("admitted", self._clock())
            if unsure and await self._planner.lacks_now(plan, attempt, lane) is not None:
                raise Lacking
            now = self._clock()
            if plan.began_at is None:
                plan.began_at = now
            record.attempts += 1
            record.usage, record.outcome, record.refused = NOTHING, "", False
            run = Run(plan, attempt, record.attempts, now)
            try:
                await self._carry(run, permit, client, record)
            except BaseException as error:
                self._failed(run, tier, lane, record, error)
                raise
            tier.saw(lane, call.decision, failed=_BROKE if record.outcome == "engine_failed" else None)
            self._settle(run, lane, record, record.outcome or "ok", record.usage, status=record.status)

    async def _carry(self, run: Run, permit: Permit, client: Client, record: Record) -> None:
        call, lane = run.plan.call, permit.lane
        body: bytes | None = None
        if lane.outside:
            redaction = None if self._finder is None else Redaction(self._finder)
            # To hide and to hash what is large takes seconds, in which others go on.
            put = partial(_put_outside, call, lane, run.attempt.model, redaction)
            letter = await asyncio.to_thread(put) if call.is_large else put()
            self._cross(run, permit, letter, redaction)
            said, body = letter.said, letter.body
        else:
            said = speech(call, lane, run.attempt.model)
            if run.attempt.tier == "B":
                run.hold = self._house.purse.for_time(lane.id, call.decision)
        tier = self._house.tier(run.attempt.tier)
        works = partial(_speaks, tier, lane, call.decision)
        await self._relay(self._passage(run, client, record, lane, said, works), permit, call, said, body)

    def _cross(self, run: Run, permit: Permit, letter: "_Letter", redaction: Redaction | None) -> None:
        """Set money aside for a request that leaves the house, and write down that it does.

        Raises:
            CapacityError: the money is not there, or it cannot be written down.
            SwitchClosed: it may not leave any more.
        """
        permit.check()
        call = run.plan.call
        key = f"{call.decision}/{run.number}"
        run.hold = self._house.purse.for_tokens(key, letter.most_tokens, longest_answer(call, permit.lane))
        parcel = entries.Parcel(
            urlsplit(permit.address.base_url).netloc.rpartition("@")[2],
            len(letter.body),
            letter.sha256,
            len(call.body.get("messages") or ()) or 1,
            {} if redaction is None else redaction.counts,
            run.hold.reserved,
        )
        place = entries.Place("C", None, permit.lane.id, permit.lane.target(run.attempt.model))
        try:
            self._ledger.add_now(
                entries.crossing(call.decision, datetime.now(UTC), place, parcel, run.plan.decision.reasons)
            )
        except OSError as error:
            why = error.strerror or "unknown error"
            message = f"nothing may leave the house that cannot be written down: the ledger: {why}"
            raise CapacityError(message) from error

    def _failed(self, run: Run, tier: Tier, lane: Lane, record: Record, error: BaseException) -> None:
        """Tell everybody concerned of a failure; whoever went away says nothing about the node."""
        if not isinstance(error, LumbreError):
            gone = isinstance(error, asyncio.CancelledError)
            outcome = (str(error.args[0]) if error.args else "client_gone") if gone else "internal"
            self._settle(run, lane, record, outcome, record.usage)
            return
        verdict = judge(error)
        if verdict.counts:
            tier.saw(lane, run.plan.call.decision, failed=_why(error))
        elif isinstance(error, UpstreamRefusal):
            tier.breakers.doubt(lane)
        if verdict.rest_s:
            tier.breakers.rest(lane, verdict.rest_s)
        if isinstance(error, NoConnection | ConnectExpired | UpstreamCut):
            tier.suspect(lane)
        if isinstance(error, CapacityError):
            # Nothing was sent: no money, or a switch was closed meanwhile. That is no attempt on the node, unless the
            # ledger has a crossing or a hold already, which has to end.
            if run.hold is None:
                record.attempts -= 1
            else:
                self._settle(run, lane, record, error.code, NOTHING, free=True)
            return
        # What an upstream calls its own refusal is its own text.
        own = isinstance(error, UpstreamRefusal) or record.outcome == "upstream_refused"
        # Nobody charges for what was never sent, or was refused. What was sent and not answered may be charged for.
        unsent = isinstance(error, NoConnection | ConnectExpired)
        free = unsent or record.refused or (isinstance(error, EngineFailed) and not record.spoken)
        outcome = "upstream_refused" if own else error.code
        self._settle(run, lane, record, outcome, record.usage, status=_status_of(error), free=free)

    def _settle(
        self,
        run: Run,
        lane: Lane,
        record: Record,
        outcome: str,
        usage: Usage,
        *,
        status: int | None = None,
        free: bool = False,
    ) -> None:
        hold = run.hold
        cost = 0 if hold is None else hold.settle(usage, free=free or record.refused)
        record.cost_microusd += cost
        attempt = run.attempt
        place = entries.Place(attempt.tier, attempt.label, lane.id, lane.target(attempt.model))
        idle = None if hold is None else hold.idle
        tried = entries.Tried(run.number, outcome, status, round(self._clock() - run.began_at, 6), cost, idle)
        self._ledger.add(entries.attempt(run.plan.call.decision, datetime.now(UTC), place, tried))

    async def _relay(self, passage: Passage, permit: Permit, call: Call, said: Speech, body: bytes | None) -> None:
        traits = permit.lane.traits
        if call.asked == EMBEDDINGS:
            most_bytes = _UNCANCELLABLE_BYTES if traits.needs_stream else self._reply_limit_bytes
            parts = batches(said.body, most_bytes)
            await relay_embeddings(passage, said.body, parts, lambda part: self._post(permit, call, said.part(part)))
            return
        opening = self._post(permit, call, said, body)
        relay = relay_stream if call.stream else relay_folded if traits.needs_stream else relay_json
        try:
            await relay(passage, opening)
        finally:
            opening.close()

    def _post(self, permit: Permit, call: Call, said: Speech, body: bytes | None = None) -> Opening:
        reuse = permit.lane.traits.keeps_connections
        headers = call.headers if not permit.lane.outside else _outside_headers(call, permit.address.api)
        body = said.encoded() if body is None else body
        return self._outbound.post(permit, said.endpoint, body, headers, self._limits, reuse=reuse)

    def _passage(
        self, run: Run, client: Client, record: Record, lane: Lane, said: Speech, works: Callable[[], None]
    ) -> Passage:
        plan, call = run.plan, run.plan.call
        return Passage(
            client=client,
            record=record,
            limits=self._limits,
            promises=plan.promises,
            headers=reply_headers(run.attempt.tier, lane.id, call.decision),
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
            began_at=run.began_at if plan.began_at is None else plan.began_at,
            reading=said.reading,
            own_usage=said.adds_usage,
            works=works,
        )


def reply_headers(tier: str, node: str, decision: str) -> Headers:
    """Who answered, and how the request can be found again."""
    return [("x-lumbre-tier", tier), ("x-lumbre-node", node), *decision_headers(decision)]


def decision_headers(decision: str) -> list[tuple[str, str]]:
    """The headers by which a reply, or an error, can be found again."""
    return [("x-lumbre-decision", decision), ("x-request-id", decision)]


def _outside_headers(call: Call, api: str) -> dict[str, str]:
    """What of a caller's headers may leave the house: how to read the request, and nothing of who asks."""
    wanted = ("accept", "anthropic-beta") if api == "anthropic" else ("accept", "openai-beta")
    return {name: call.headers[name] for name in wanted if name in call.headers}


@dataclass(slots=True)
class _Letter:
    """A call as it leaves the house.

    Attributes:
        body: the bytes that leave; `sha256` is theirs.
        most_tokens: that its prompt can have.
    """

    said: Speech
    body: bytes
    sha256: str
    most_tokens: int


def _put_outside(call: Call, lane: Lane, model: str | None, redaction: Redaction | None) -> _Letter:
    """Put a call into the outside's words."""
    said = speech(call, lane, model, redaction)
    body = said.encoded()
    # A token is at least a byte. An image is worth its size on a screen, and not that of its file.
    schema = orjson.dumps(call.body.get("response_format"))
    text = min(len(body), need_of(call.body, call.asked).prompt_bytes + len(schema))
    most_tokens = text + images_in(call.body) * IMAGE_TOKENS
    return _Letter(said, body, hashlib.sha256(body).hexdigest(), most_tokens)


def _speaks(tier: Tier, lane: Lane, decision: str) -> None:
    """The first token of a stream ends a trial: others need not wait for the last. It forgives nothing otherwise, or an
    upstream that cuts each of its answers off would never be found out.
    """
    if lane.breaker.state is BreakerState.HALF_OPEN:
        tier.saw(lane, decision, failed=None)


def _why(error: LumbreError) -> str:
    """A failure as its node's breaker tells it, to everybody: in our words, never in the upstream's."""
    if isinstance(error, UpstreamRefusal):
        return f"it answered {error.status}"
    if isinstance(error, NoConnection | UpstreamCut | DeadlineError):
        return error.message
    return error.code


def _status_of(error: LumbreError) -> int | None:
    """The status that the upstream gave; None for what the gateway found itself."""
    return error.status if isinstance(error, UpstreamRefusal) or 400 <= error.status < 500 else None


def _are_up(lanes: list[Lane]) -> bool:
    for lane in lanes:  # noqa: SIM110 a generator costs twice the loop, for every request
        if lane.health.state is not HealthState.READY:
            return False
    return True
