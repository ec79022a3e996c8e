"""Takes one request from the door to an engine and its reply back: decide, wait for a place, send, relay, record.
Driver; the
verdicts are the domains'.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from lumbre.backends.upstream import Outbound
from lumbre.core.errors import CallerError, ConnectExpired, LumbreError, NoConnection, UpstreamCut
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.decision import Decision, Question, decide
from lumbre.gateway.health import HealthState
from lumbre.gateway.hints import MODEL_TIERS, Hints
from lumbre.runtime.client import Client
from lumbre.runtime.lanes import Lane
from lumbre.runtime.passage import Passage
from lumbre.runtime.records import Record, Records
from lumbre.runtime.relay_json import relay_folded, relay_json
from lumbre.runtime.relay_stream import relay_stream
from lumbre.runtime.tier import Tier
from lumbre.wire.openai.fields import refuse_unsupported
from lumbre.wire.openai.promise import Promises, is_strict, promises_of
from lumbre.wire.openai.sense import check_sense

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

    @property
    def answers(self) -> int:
        """How many answers are asked for, each of which fills a slot: the alternatives, times the prompts."""
        prompt = self.body.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else 1
        return prompts * (self.body.get("n") or 1)


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
            record.outcome = record.outcome or "ok"
        except LumbreError as error:
            record.status = record.status or error.status
            record.outcome = error.code
            record.param = error.param
            raise
        except asyncio.CancelledError as error:
            if record.finished:
                record.outcome = record.outcome or "ok"
            else:
                record.outcome = str(error.args[0]) if error.args else "client_gone"
            raise
        finally:
            record.mark("end", self._clock())
            self._records.write(record)

    async def _answer(self, call: Call, client: Client, record: Record) -> None:
        check_sense(call.body)
        deadline_at = self._clock() + self._tier.wait_s
        question = Question(str(call.body.get("model") or "auto"), call.hints, is_strict(call.body))
        if question.model not in (*MODEL_TIERS, *self._tier.models()):
            await self._tier.settle(deadline_at)
        decision = decide(question, self._tier.facts())
        record.model, record.reason = decision.model or question.model, decision.reason
        plan = _Plan(call, decision, promises_of(call.body, call.answers), deadline_at)
        lanes = _able(self._tier.lanes_for(decision.model), call)
        for _ in range(_CONNECT_ATTEMPTS - 1):
            try:
                await self._attempt(plan, client, record, lanes)
                break
            except (NoConnection, ConnectExpired):
                # Nothing was sent, so another try is safe: elsewhere, or here once it is up again.
                lanes = [lane for lane in lanes if lane.id != record.node or lane.health.state is HealthState.STARTING]
                if client.started or not lanes:
                    raise
        else:
            await self._attempt(plan, client, record, lanes)

    async def _attempt(self, plan: "_Plan", client: Client, record: Record, lanes: list[Lane]) -> None:
        call = plan.call
        async with self._tier.permit(call.decision, plan.call.answers, lanes, plan.deadline_at) as permit:
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
            except (NoConnection, ConnectExpired, UpstreamCut):
                self._tier.suspect(lane)
                raise

    def _passage(self, plan: "_Plan", client: Client, record: Record, lane: Lane) -> Passage:
        return Passage(
            client=client,
            record=record,
            limits=self._limits,
            promises=plan.promises,
            headers=_reply_headers(plan, lane),
            choices=plan.call.answers,
            own_progress=lane.traits.reports_progress and "return_progress" not in plan.call.body,
            sends_nulls=lane.traits.sends_nulls,
            reply_limit_bytes=self._reply_limit_bytes,
            clock=self._clock,
            began_at=self._clock(),
        )


@dataclass(frozen=True)
class _Plan:
    call: Call
    decision: Decision
    promises: Promises
    deadline_at: float


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
    if not lane.traits.takes_named_choice:
        _name_the_choice(body)
    if lane.traits.needs_stream and not call.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    if lane.traits.reports_progress and body.get("stream"):
        body.setdefault("return_progress", True)
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise CallerError(f"the body cannot be passed on: {error}", code="too_deep") from error


def _name_the_choice(body: dict[str, Any]) -> None:
    """Say "this tool" in the words of an engine that knows only "some tool": offer that one alone."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        body["tools"] = [tool for tool in body["tools"] if (tool.get("function") or {}).get("name") == name]
        body["tool_choice"] = "required"


def _reply_headers(plan: _Plan, lane: Lane) -> list[tuple[str, str]]:
    return [
        ("x-lumbre-tier", plan.decision.tier),
        ("x-lumbre-node", lane.id),
        *decision_headers(plan.call.decision),
    ]


def decision_headers(decision: str) -> list[tuple[str, str]]:
    """The headers by which a reply, or an error, can be found again."""
    return [("x-lumbre-decision", decision), ("x-request-id", decision)]
