"""One attempt to have a call answered by one tier: a place, money, the passage there and back, and what it was found to
mean for the node. Driver; `gateway.moving_on` says what a failure means.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from lumbre.backends.exchange import Opening
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import CapacityError, ConnectExpired, LumbreError, NoConnection, UpstreamCut
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
from lumbre.runtime.relay_json import relay_folded, relay_json
from lumbre.runtime.relay_stream import relay_stream
from lumbre.runtime.speech import Speech, speech
from lumbre.runtime.tier import Permit, Tier
from lumbre.wire.anthropic.from_chat import USUAL_MAX_TOKENS
from lumbre.wire.openai.embeddings import batches
from lumbre.wire.openai.story import Usage

_UNCANCELLABLE_BYTES = 512
"""Of text in one call for embeddings to an engine that works on after its caller has gone."""

_BYTES_A_TOKEN = 2
"""Fewer than any text has: what is set aside for a prompt is more than it costs."""

_FREE = Usage(0, 0, estimated=False)


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
            record.usage, record.outcome = NOTHING, ""
            run = Run(plan, attempt, record.attempts, now)
            try:
                await self._carry(run, permit, client, record)
            except BaseException as error:
                self._failed(run, tier, lane, record, error)
                raise
            failed = "it failed in the middle of its answer" if record.outcome == "engine_failed" else None
            tier.saw(lane, call.decision, failed=failed)
            self._settle(run, lane, record, record.outcome or "ok", record.usage, status=record.status)

    async def _carry(self, run: Run, permit: Permit, client: Client, record: Record) -> None:
        call, lane = run.plan.call, permit.lane
        outside = run.attempt.tier == "C"
        redaction = Redaction(self._finder) if outside and self._finder is not None else None
        said = speech(call, lane, run.attempt.model, redaction)
        if outside:
            self._cross(run, permit, said, redaction)
        elif run.attempt.tier == "B":
            run.hold = self._house.purse.for_time(lane.id)
        await self._relay(self._passage(run, client, record, lane, said), permit, call, said)

    def _cross(self, run: Run, permit: Permit, said: Speech, redaction: Redaction | None) -> None:
        """Set money aside for a request that leaves the house, and write down that it does.

        Raises:
            CapacityError: the money is not there, or it cannot be written down.
        """
        permit.check()
        call, body = run.plan.call, said.encoded()
        run.hold = self._house.purse.for_tokens(
            f"{call.decision}/{run.number}", *_most_tokens(call, len(body), run.plan.answers)
        )
        parcel = entries.Parcel(
            urlsplit(permit.address.base_url).netloc.rpartition("@")[2],
            len(body),
            hashlib.sha256(body).hexdigest(),
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
            self._settle(run, lane, record, "client_gone", record.usage)
            return
        verdict = judge(error)
        if verdict.counts:
            tier.saw(lane, run.plan.call.decision, failed=error.message)
        if verdict.rest_s:
            tier.breakers.rest(lane, verdict.rest_s)
        if isinstance(error, NoConnection | ConnectExpired | UpstreamCut):
            tier.suspect(lane)
        # Nothing is charged for what never came to be answered. A reply that was cut may be, whatever it says.
        unsent = isinstance(error, NoConnection | ConnectExpired | UpstreamRefusal | CapacityError)
        refused = unsent or error.status < 500
        # What an upstream calls its own refusal is its own text.
        own = isinstance(error, UpstreamRefusal) or record.outcome == "upstream_refused"
        outcome = "upstream_refused" if own else error.code
        self._settle(run, lane, record, outcome, _FREE if refused else record.usage, status=_status_of(error))

    def _settle(
        self, run: Run, lane: Lane, record: Record, outcome: str, usage: Usage, status: int | None = None
    ) -> None:
        if record.outcome == "upstream_refused":
            usage = _FREE
        cost = 0 if run.hold is None else run.hold.settle(usage)
        record.cost_microusd += cost
        attempt = run.attempt
        place = entries.Place(attempt.tier, attempt.label, lane.id, lane.target(attempt.model))
        tried = entries.Tried(run.number, outcome, status, round(self._clock() - run.began_at, 6), cost)
        self._ledger.add(entries.attempt(run.plan.call.decision, datetime.now(UTC), place, tried))

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
        headers = call.headers if not permit.lane.outside else _outside_headers(call, permit.address.api)
        return self._outbound.post(permit, said.endpoint, said.encoded(), headers, self._limits, reuse=reuse)

    def _passage(self, run: Run, client: Client, record: Record, lane: Lane, said: Speech) -> Passage:
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


def _most_tokens(call: Call, size_bytes: int, answers: int) -> tuple[int, int]:
    """How many tokens of prompt and answer a request may cost at most, about."""
    limit = call.body.get("max_completion_tokens") or call.body.get("max_tokens")
    longest = limit if isinstance(limit, int) and limit > 0 else USUAL_MAX_TOKENS
    need = need_of(call.body, call.asked)
    prompt = need.prompt_tokens or max(need.prompt_bytes, min(size_bytes, need.prompt_bytes * 2)) // _BYTES_A_TOKEN
    return prompt, longest * answers


def _status_of(error: LumbreError) -> int | None:
    """The status that the upstream gave; None for what the gateway found itself."""
    return error.status if isinstance(error, UpstreamRefusal) or 400 <= error.status < 500 else None


def _are_up(lanes: list[Lane]) -> bool:
    for lane in lanes:  # noqa: SIM110 a generator costs twice the loop, for every request
        if lane.health.state is not HealthState.READY:
            return False
    return True
