"""`/healthz`, `/readyz`, `/metrics`: is it alive, can it serve, how has it gone. Driver over Starlette."""

from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from lumbre.api.models import Endpoint
from lumbre.gateway.facts import NodeState
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.lanes import Lane, state_of
from lumbre.runtime.tier import Tier

_BEST_FIRST = ("ready", "starting", "down")
_SHOWN = {NodeState.READY: "ready", NodeState.STARTING: "starting", NodeState.STOPPED: "stopped"}
"""How a node's state is told; all else is down."""


async def alive(_request: Request) -> Response:
    """`GET /healthz`."""
    return Response(b'{"alive":true}', media_type="application/json")


def ready(gateway: Gateway) -> Endpoint:
    """`GET /readyz`: 200 if an unlabelled request is served now, else 503; the reasons either way."""

    async def respond(_request: Request) -> Response:
        is_ready = gateway.flow.serves_now and not gateway.draining
        document = {
            "ready": is_ready,
            "draining": gateway.draining,
            "tiers": {name: _tier_of(gateway, name) for name in ("A", "B", "C")},
            "embeddings": _embeddings(gateway),
            "warnings": gateway.flow.problems,
        }
        return Response(orjson.dumps(document), 200 if is_ready else 503, media_type="application/json")

    return respond


def metrics(gateway: Gateway) -> Endpoint:
    """`GET /metrics`."""

    async def respond(_request: Request) -> Response:
        return Response(gateway.records.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})

    return respond


def _embeddings(gateway: Gateway) -> dict[str, Any]:
    """Who makes embeddings; `stopped` until the first request for them, where that starts it."""
    tier = gateway.embeddings
    if tier is None:
        return {"state": "off", "reasons": [], "waiting": 0, "upstreams": []}
    told = _tier(tier)
    if gateway.embeddings_asleep:
        told["state"] = "stopped"
        for upstream in told["upstreams"]:
            upstream["state"] = "stopped"
    return told


def _tier_of(gateway: Gateway, name: str) -> dict[str, Any]:
    """One tier; `off` where the settings have none, `stopped` where a switch does."""
    house = gateway.house
    tier = {"A": house.a, "B": house.b, "C": house.c}[name]
    if tier is None:
        return {"state": "off", "reasons": [], "waiting": 0, "upstreams": []}
    told, why_not = _tier(tier), house.why_not(name)
    for lane, upstream in zip(tier.lanes.values(), told["upstreams"], strict=True):
        if house.is_stopped(lane) and not why_not:
            upstream["state"] = "stopped"
            told["reasons"].append(f"{lane.id}: a switch stops it")
            told["state"] = "degraded" if told["state"] in ("ready", "starting") else told["state"]
    if why_not:
        told["reasons"] = [*why_not, *told["reasons"]]
        told["state"] = "stopped" if house.is_closed(name) else "off" if not house.has_key(name) else "down"
    return told


def _tier(tier: Tier) -> dict[str, Any]:
    lanes = list(tier.lanes.values())
    states = [_SHOWN.get(state_of(lane), "down") for lane in lanes]
    best = next(state for state in _BEST_FIRST if state in states)
    return {
        "state": "degraded" if best == "ready" and len(set(states)) > 1 else best,
        "reasons": [f"{node.id}: {node.reason}" for node in tier.nodes() if node.reason],
        "waiting": tier.waiting,
        "upstreams": [_upstream(tier, lane) for lane in lanes],
    }


def _upstream(tier: Tier, lane: Lane) -> dict[str, Any]:
    return {
        "id": lane.id,
        "state": _SHOWN.get(state_of(lane), "down"),
        "breaker": {"state": lane.breaker.state, "shown": lane.breaker.shown},
        "in_flight": tier.in_flight(lane),
        "waiting": tier.waiting_for(lane),
        "slots": lane.slots,
        "models": list(lane.models or ((lane.model,) if lane.model else ())),
    }
