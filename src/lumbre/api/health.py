"""`/healthz`, `/readyz`, `/metrics`: is it alive, can it serve, how has it gone. Driver over Starlette."""

from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from lumbre.api.models import Endpoint
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.lanes import Lane
from lumbre.runtime.tier import Tier

_BEST_FIRST = ("ready", "starting", "down")


async def alive(_request: Request) -> Response:
    """`GET /healthz`."""
    return Response(b'{"alive":true}', media_type="application/json")


def ready(gateway: Gateway) -> Endpoint:
    """`GET /readyz`: 200 if an unlabelled request is served now, else 503; the reasons either way."""

    async def respond(_request: Request) -> Response:
        is_ready = gateway.tier.ready and not gateway.draining
        document = {
            "ready": is_ready,
            "draining": gateway.draining,
            "tiers": {"A": _tier(gateway.tier)},
            "embeddings": _embeddings(gateway),
            "warnings": [],
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


def _tier(tier: Tier) -> dict[str, Any]:
    lanes = list(tier.lanes.values())
    states = [lane.health.state for lane in lanes]
    best = next(state for state in _BEST_FIRST if state in states)
    return {
        "state": "degraded" if best == "ready" and len(set(states)) > 1 else best,
        "reasons": [f"{lane.id}: {lane.health.reason}" for lane in lanes if lane.health.reason],
        "waiting": tier.waiting,
        "upstreams": [_upstream(tier, lane) for lane in lanes],
    }


def _upstream(tier: Tier, lane: Lane) -> dict[str, Any]:
    return {
        "id": lane.id,
        "state": lane.health.state,
        "in_flight": tier.in_flight(lane),
        "waiting": tier.waiting_for(lane),
        "slots": lane.slots,
        "models": list(lane.models or ((lane.model,) if lane.model else ())),
    }
