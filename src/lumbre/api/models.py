"""`/v1/models`: what can be asked for by name. Driver over Starlette."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from lumbre.gateway.target import unknown_model
from lumbre.runtime.gateway import Gateway
from lumbre.wire.anthropic import models as anthropic

Endpoint = Callable[[Request], Awaitable[Response]]

AUTO = "auto"
"""Listed first: the name for "whatever the gateway thinks best"."""

TIER_A = "tier-a"
"""Not listed, for it is no other model than `auto`; it can be asked for and described."""


def listing(gateway: Gateway) -> Endpoint:
    """`GET /v1/models`."""

    async def respond(request: Request) -> Response:
        if speaks_anthropic(request):
            entries = [_anthropic_entry(name, gateway) for name in names(gateway)]
            return _json(anthropic.page(entries, request.query_params))
        return _json({"object": "list", "data": [entry(name, gateway) for name in names(gateway)]})

    return respond


def one(gateway: Gateway) -> Endpoint:
    """`GET /v1/models/{model}`."""

    async def respond(request: Request) -> Response:
        name = request.path_params["model"]
        if not can_be_asked_for(name, gateway):
            raise unknown_model(name, gateway.house.facts())
        if speaks_anthropic(request):
            return _json(anthropic.one(_anthropic_entry(name, gateway)))
        return _json(entry(name, gateway))

    return respond


def speaks_anthropic(request: Request) -> bool:
    """Whether a client of Anthropic's API asks: its SDKs always say which version of it they speak."""
    return "anthropic-version" in request.headers


def names(gateway: Gateway) -> tuple[str, ...]:
    """What is listed: `auto`, the models, those of embeddings, and the aliases that are no patterns and lead to one."""
    aliases = filter(gateway.dispatcher.takes, gateway.aliases.names)
    return tuple(dict.fromkeys((AUTO, *_served(gateway), *aliases)))


def can_be_asked_for(name: str, gateway: Gateway) -> bool:
    """Whether a request by this name would be taken now: it is listed, or an alias's wildcard leads it somewhere."""
    return gateway.dispatcher.takes(name)


def entry(name: str, gateway: Gateway) -> dict[str, Any]:
    """A name as OpenAI's API describes a model; its owner is the upstream that serves it."""
    tiers = gateway.house.tiers if gateway.embeddings is None else [*gateway.house.tiers, gateway.embeddings]
    lanes = (lane for tier in tiers for lane in tier.lanes.values())
    owner = next((lane.id for lane in lanes if lane.serves(name)), "lumbre")
    return {"id": name, "object": "model", "created": gateway.began_at_s, "owned_by": owner}


def _anthropic_entry(name: str, gateway: Gateway) -> anthropic.Entry:
    tiers = [gateway.tier] if name in (AUTO, TIER_A) else gateway.house.tiers
    everybody = [lane for tier in tiers for lane in tier.lanes.values()]
    lanes = [lane for lane in everybody if name in (AUTO, TIER_A) or lane.serves(name)]
    model = None if name in (AUTO, TIER_A) else name
    sizes = [size for lane in lanes if (size := lane.capability(model).context_tokens) is not None]
    return anthropic.Entry(name, gateway.began_at_s, max(sizes, default=None))


def _served(gateway: Gateway) -> tuple[str, ...]:
    embedding = () if gateway.embeddings is None else gateway.embeddings.models()
    return (*gateway.house.facts().askable, *embedding)


def _json(document: object) -> Response:
    return Response(orjson.dumps(document), media_type="application/json")
