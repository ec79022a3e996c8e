"""`/v1/models`: what can be asked for by name. Driver over Starlette."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from lumbre.gateway.decision import unknown_model
from lumbre.runtime.gateway import Gateway

Endpoint = Callable[[Request], Awaitable[Response]]

AUTO = "auto"
"""Listed first: the name for "whatever the gateway thinks best"."""

TIER_A = "tier-a"
"""Not listed, for it is no other model than `auto`; it can be asked for and described."""


def listing(gateway: Gateway) -> Endpoint:
    """`GET /v1/models`."""

    async def respond(_request: Request) -> Response:
        facts = gateway.tier.facts()
        entries = [_entry(name, gateway) for name in (AUTO, *facts.models)]
        return _json({"object": "list", "data": entries})

    return respond


def one(gateway: Gateway) -> Endpoint:
    """`GET /v1/models/{model}`."""

    async def respond(request: Request) -> Response:
        facts = gateway.tier.facts()
        name = request.path_params["model"]
        if name not in (AUTO, TIER_A, *facts.models):
            raise unknown_model(name, facts.models)
        return _json(_entry(name, gateway))

    return respond


def _entry(name: str, gateway: Gateway) -> dict[str, Any]:
    owner = next((lane.id for lane in gateway.tier.lanes.values() if lane.serves(name)), "lumbre")
    return {"id": name, "object": "model", "created": gateway.began_at_s, "owned_by": owner}


def _json(document: object) -> Response:
    return Response(orjson.dumps(document), media_type="application/json")
