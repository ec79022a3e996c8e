"""`/v1/flow`: the kill switches, the policy, the tiers and the decision, for the operator. Driver over Starlette; what
they mean is `gateway`'s to say.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from lumbre.api.body import parse_object
from lumbre.api.doors import Inference
from lumbre.api.reply import Reply
from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted
from lumbre.gateway.decision import Attempt, Decision
from lumbre.gateway.facts import NodeState
from lumbre.gateway.policy import Policy, chosen
from lumbre.gateway.switches import Switch, kind_of
from lumbre.runtime.attempt import decision_headers
from lumbre.runtime.call import Call
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.lanes import Lane, state_of
from lumbre.runtime.tier import Tier

Endpoint = Callable[[Request], Awaitable[Response]]

_STATES = ("open", "closed")
_NAME_CHARS = 64


def overview(gateway: Gateway) -> Endpoint:
    """`GET /v1/flow`: all of it at one look."""

    async def respond(_request: Request) -> Response:
        return _json(
            {
                "policy": _policy(gateway),
                "switches": [_switch(switch) for switch in gateway.board.switches],
                "tiers": {name: _tier(gateway, name) for name in ("A", "B", "C")},
                "budget": gateway.house.purse.figures(),
                "problems": gateway.flow.problems,
            }
        )

    return respond


def policy(gateway: Gateway) -> Endpoint:
    """`GET /v1/flow/policy`."""

    async def respond(_request: Request) -> Response:
        return _json(_policy(gateway))

    return respond


def choose_policy(gateway: Gateway) -> Endpoint:
    """`POST /v1/flow/policy`: `{"policy": "drain-express", "for": "2h"}`; the next request goes by it."""

    async def respond(request: Request) -> Response:
        told = await _body(request, ("policy", "for", "by", "reason"))
        wanted = chosen(told.get("policy"), told.get("for"), datetime.now(UTC))
        await gateway.flow.choose_policy(wanted, by=_text(told, "by") or "operator", reason=_text(told, "reason"))
        return _json(_policy(gateway))

    return respond


def switches(gateway: Gateway) -> Endpoint:
    """`GET /v1/flow/switches`."""

    async def respond(_request: Request) -> Response:
        return _json({"switches": [_switch(switch) for switch in gateway.board.switches]})

    return respond


def one_switch(gateway: Gateway) -> Endpoint:
    """`GET /v1/flow/switches/{name}`."""

    async def respond(request: Request) -> Response:
        return _json(_switch(gateway.board.switch(request.path_params["name"])))

    return respond


def move_switch(gateway: Gateway) -> Endpoint:
    """`POST /v1/flow/switches/{name}`: `{"state": "closed", "reason": "budget"}`.

    When it has been answered, nothing new is sent to what a closed switch covers.
    """

    async def respond(request: Request) -> Response:
        name = request.path_params["name"]
        gateway.board.switch(name)
        told = await _body(request, ("state", "reason", "by"))
        state = told.get("state")
        if state not in _STATES:
            message = f"state: {_told(state)} is none of {', '.join(_STATES)}"
            raise CallerError(message, param="state", code="invalid_value", valid=_STATES)
        by = _text(told, "by") or "operator"
        moved = await gateway.flow.move_switch(name, closed=state == "closed", reason=_text(told, "reason"), by=by)
        return _json(_switch(moved))

    return respond


def nodes(gateway: Gateway) -> Endpoint:
    """`GET /v1/flow/nodes`: the burst nodes."""

    async def respond(_request: Request) -> Response:
        tier = gateway.house.b
        lanes = () if tier is None else tier.lanes.values()
        return _json({"nodes": [_node(gateway, lane) for lane in lanes]})

    return respond


def move_node(gateway: Gateway) -> Endpoint:
    """`POST /v1/flow/nodes/{id}/start` and `/stop`: somebody else keeps a static node up, so 409."""

    async def respond(request: Request) -> Response:
        name = request.path_params["id"]
        tier = gateway.house.b
        ids = () if tier is None else tuple(tier.lanes)
        if name not in ids:
            there = ", ".join(ids) or "none"
            message = f"no burst node {quoted(name)}; there are: {there}"
            raise CallerError(message, status=404, code="unknown_node", valid=ids)
        message = f"{name} is static: somebody else starts and stops it. Its switch stops all new work for it"
        raise CallerError(message, status=409, code="static_node")

    return respond


class Explain(Inference):
    """`POST /v1/flow/explain`: what would be done with a chat request, and why; it is not sent to anybody."""

    async def _answer(self, call: Call, reply: Reply) -> None:
        decision = await self._gateway.dispatcher.decide(call)
        headers = [("content-type", "application/json"), *decision_headers(call.decision)]
        reply.whole(200, headers, orjson.dumps(told_decision(decision, self._gateway)))


def told_decision(decision: Decision, gateway: Gateway) -> dict[str, Any]:
    """A decision for a reader."""
    first = next(iter(decision.attempts), None)
    refusal = decision.refusal
    taken = None if first is None or refusal is not None else _attempt(first, gateway)
    status = {"dispatch": 200, "start": 202, "wait": 202}.get(decision.outcome)
    return {
        "outcome": decision.outcome,
        "status": status if refusal is None else refusal.status,
        "code": None if refusal is None else refusal.code,
        "message": None if refusal is None else refusal.message,
        **(taken or {"tier": None, "label": None, "node": None}),
        "policy": decision.policy,
        "complexity": decision.complexity,
        "class": decision.klass,
        "strict_json": decision.strict_json,
        "affinity": decision.bound,
        "steps": [step._asdict() for step in decision.steps],
        "attempts": [_attempt(attempt, gateway) for attempt in decision.attempts],
    }


def _attempt(attempt: Attempt, gateway: Gateway) -> dict[str, Any]:
    node = gateway.house.tier(attempt.tier).first_of(attempt.nodes)
    return {"tier": attempt.tier, "label": attempt.label, "node": node}


def _policy(gateway: Gateway) -> dict[str, Any]:
    holds: Policy = gateway.board.policy
    return {"policy": holds.name, "until": holds.until, "default": gateway.board.default}


def _switch(switch: Switch) -> dict[str, Any]:
    return {
        "name": switch.name,
        "kind": kind_of(switch.name),
        "state": switch.state,
        "shown": switch.shown,
        "reason": switch.reason,
        "by": switch.by,
        "at": switch.at,
    }


def _tier(gateway: Gateway, name: str) -> dict[str, Any]:
    house = gateway.house
    tier: Tier | None = {"A": house.a, "B": house.b, "C": house.c}[name]
    if tier is None:
        return {"available": False, "reasons": [f"tier {name} is not configured"], "upstreams": []}
    reasons = house.why_not(name)
    nodes = tier.nodes()
    reasons += [f"{node.id}: {node.reason}" for node in nodes if node.reason]
    return {
        "available": not house.why_not(name) and any(node.state is NodeState.READY for node in nodes),
        "reasons": reasons,
        "upstreams": [_upstream(tier, lane) for lane in tier.lanes.values()],
    }


def _node_state(lane: Lane, *, stopped: bool) -> str:
    if stopped:
        return "stopped"  # by a switch: nobody asks it anything
    return "running" if state_of(lane) is NodeState.READY else str(state_of(lane))


def _upstream(tier: Tier, lane: Lane) -> dict[str, Any]:
    return {
        "id": lane.id,
        "state": state_of(lane),
        "breaker": _breaker(lane),
        "in_flight": tier.in_flight(lane),
        "waiting": tier.waiting_for(lane),
    }


def _breaker(lane: Lane) -> dict[str, str]:
    return {"state": lane.breaker.state, "shown": lane.breaker.shown}


def _node(gateway: Gateway, lane: Lane) -> dict[str, Any]:
    house = gateway.house
    tier = house.tier("B")
    return {
        "id": lane.id,
        "labels": list(lane.labels),
        "state": _node_state(lane, stopped=house.is_stopped(lane)),
        "breaker": _breaker(lane),
        "in_flight": tier.in_flight(lane),
        "why": "static: somebody else keeps it up",
        "stops_at": None,
        "cost_microusd": house.purse.spent_on(lane.id),
    }


async def _body(request: Request, known: tuple[str, ...]) -> Mapping[str, Any]:
    told = parse_object(await request.body())
    for name in told:
        if name not in known:
            message = f"{quoted(name)} is no field here; there are {', '.join(known)}"
            raise CallerError(message, param=name, code="unknown_field", valid=known)
    return told


def _text(told: Mapping[str, Any], name: str) -> str | None:
    value = told.get(name)
    if not isinstance(value, str | None):
        raise CallerError(f"{name}: it is a text", param=name, code="invalid_value")
    return value[:_NAME_CHARS] if value and name == "by" else value or None


def _told(value: object) -> str:
    return quoted(value) if isinstance(value, str) else f"a value of the type {type(value).__name__}"


def _json(document: object) -> Response:
    return Response(orjson.dumps(document), media_type="application/json")
