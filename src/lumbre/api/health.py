"""`/healthz`, `/readyz`, `/metrics`: is it alive, can it serve, how has it gone. Driver over Starlette."""

from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from lumbre.api.models import Endpoint
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.lanes import Lane

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
            "tiers": {"A": _tier(gateway)},
            "warnings": [],
        }
        return Response(orjson.dumps(document), 200 if is_ready else 503, media_type="application/json")

    return respond


def metrics(gateway: Gateway) -> Endpoint:
    """`GET /metrics`."""

    async def respond(_request: Request) -> Response:
        return Response(gateway.records.exposition(), headers={"content-type": CONTENT_TYPE_LATEST})

    return respond


def _tier(gateway: Gateway) -> dict[str, Any]:
    lanes = list(gateway.tier.lanes.values())
    states = [lane.health.state for lane in lanes]
    best = next(state for state in _BEST_FIRST if state in states)
    return {
        "state": "degraded" if best == "ready" and len(set(states)) > 1 else best,
        "reasons": [f"{lane.id}: {lane.health.reason}" for lane in lanes if lane.health.reason],
        "waiting": gateway.tier.waiting,
        "upstreams": [_upstream(gateway, lane) for lane in lanes],
    }


def _upstream(gateway: Gateway, lane: Lane) -> dict[str, Any]:
    return {
        "id": lane.id,
        "state": lane.health.state,
        "in_flight": gateway.tier.in_flight(lane),
        "waiting": gateway.tier.waiting_for(lane),
        "slots": lane.slots,
        "models": list(lane.models or ((lane.model,) if lane.model else ())),
    }
