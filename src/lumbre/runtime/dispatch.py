"""Takes one request from the door to an engine and its reply back: decide, wait for a place, send, relay, record.
Driver; the
verdicts are the domains'.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from lumbre.backends.upstream import Outbound
from lumbre.core.errors import CallerError, LumbreError, NoConnection, UpstreamCut
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.decision import Decision, Question, decide
from lumbre.gateway.hints import Hints
from lumbre.runtime.client import Client
from lumbre.runtime.lanes import Lane
from lumbre.runtime.passage import Passage
from lumbre.runtime.records import Record, Records
from lumbre.runtime.relay_json import relay_folded, relay_json
from lumbre.runtime.relay_stream import relay_stream
from lumbre.runtime.tier import Tier
from lumbre.wire.openai.fields import refuse_unsupported
from lumbre.wire.openai.promise import Promises, is_strict, promises_of

_CONNECT_ATTEMPTS = 3


@dataclass(frozen=True)
class Call:
    """A request that the door has found well formed.

    Attributes:
        decision: its id.
        endpoint: below `/v1`, such as `/chat/completions`.
        body: the request's object.
        headers: those that may go upstream.
    """

    decision: str
    endpoint: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    hints: Hints

    @property
    def stream(self) -> bool:
        """Whether the client wants events."""
        return self.body.get("stream") is True


class Dispatcher:
    """Answers calls.

    Args:
        clock: monotonic seconds, the event loop's.
    """

    def __init__(
        self,
        tier: Tier,
        outbound: Outbound,
        records: Records,
        limits: Deadlines,
        *,
        reply_limit_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._tier = tier
        self._outbound = outbound
        self._records = records
        self._limits = limits
        self._reply_limit_bytes = reply_limit_bytes
        self._clock = clock

    async def answer(self, call: Call, client: Client) -> None:
        """Answer one call.

        Raises:
            LumbreError: what went wrong; the door tells the client in its API's shape.
        """
        record = Record(call.decision, call.endpoint, call.stream, self._clock())
        try:
            await self._answer(call, client, record)
        except LumbreError as error:
            record.status = record.status or error.status
            record.outcome = error.code
            record.reason = error.message
            raise
        except asyncio.CancelledError as error:
            if not record.finished:
                record.outcome = str(error.args[0]) if error.args else "client_gone"
            raise
        finally:
            record.mark("end", self._clock())
            self._records.write(record)

    async def _answer(self, call: Call, client: Client, record: Record) -> None:
        facts = await self._tier.facts()
        question = Question(str(call.body.get("model") or "auto"), call.hints, is_strict(call.body))
        decision = decide(question, facts)
        record.model = decision.model or question.model
        plan = _Plan(call, decision, promises_of(call.body))
        lanes = _able(self._tier.lanes_for(decision.model), call)
        for _ in range(_CONNECT_ATTEMPTS - 1):
            try:
                await self._attempt(plan, client, record, lanes)
                break
            except NoConnection:
                lanes = [lane for lane in lanes if lane.id != record.node or lane.health.state == "starting"]
                if client.started or not lanes:
                    raise
        else:
            await self._attempt(plan, client, record, lanes)

    async def _attempt(self, plan: "_Plan", client: Client, record: Record, lanes: list[Lane]) -> None:
        call = plan.call
        async with self._tier.permit(call.decision, _weight(call.body), lanes) as permit:
            lane = permit.lane
            record.node = lane.id
            record.mark("admitted", self._clock())
            passage = self._passage(plan, client, record, lane)
            sent = _upstream_body(call, plan.decision, lane)
            opening = self._outbound.post(
                permit.address,
                call.endpoint,
                sent,
                call.headers,
                self._limits,
                reuse=lane.traits.keeps_connections,
            )
            relay = relay_stream if call.stream else relay_folded if lane.traits.needs_stream else relay_json
            try:
                await relay(passage, opening)
            except (NoConnection, UpstreamCut):
                self._tier.suspect(lane)
                raise

    def _passage(self, plan: "_Plan", client: Client, record: Record, lane: Lane) -> Passage:
        return Passage(
            client=client,
            record=record,
            limits=self._limits,
            promises=plan.promises,
            headers=_reply_headers(plan, lane),
            own_progress="return_progress" not in plan.call.body,
            reply_limit_bytes=self._reply_limit_bytes,
            clock=self._clock,
            began_at=self._clock(),
        )


@dataclass(frozen=True)
class _Plan:
    call: Call
    decision: Decision
    promises: Promises


def _able(lanes: list[Lane], call: Call) -> list[Lane]:
    """The lanes whose engines can honour every field of the request; if there is none, the first one's refusal."""
    refusals = []
    able = []
    for lane in lanes:
        try:
            refuse_unsupported(call.body, lane.traits.refusals.get(call.endpoint, ()), lane.traits.name)
        except CallerError as error:
            refusals.append(error)
        else:
            able.append(lane)
    if refusals and not able:
        raise refusals[0]
    return able


def _upstream_body(call: Call, decision: Decision, lane: Lane) -> bytes:
    body = {key: value for key, value in call.body.items() if key != "lumbre"}
    body["model"] = lane.target(decision.model)
    if lane.traits.needs_stream and not call.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    if lane.traits.reports_progress and body.get("stream"):
        body.setdefault("return_progress", True)
    return orjson.dumps(body)


def _weight(body: Mapping[str, Any]) -> int:
    """How many slots a request fills: its alternatives, times its prompts."""
    prompt = body.get("prompt")
    prompts = len(prompt) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else 1
    return max(1, math.prod((body.get("n") or 1, prompts)))


def _reply_headers(plan: _Plan, lane: Lane) -> list[tuple[str, str]]:
    return [
        ("x-lumbre-tier", plan.decision.tier),
        ("x-lumbre-node", lane.id),
        *decision_headers(plan.call.decision),
    ]


def decision_headers(decision: str) -> list[tuple[str, str]]:
    """The headers by which a reply, or an error, can be found again."""
    return [("x-lumbre-decision", decision), ("x-request-id", decision)]
