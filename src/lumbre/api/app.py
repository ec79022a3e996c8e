"""All doors for programs: the inference doors by path, and the ordinary pages as an ASGI app."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from lumbre.api import flow, health, ledger, models, openapi, responses
from lumbre.api.access import Access, is_loopback
from lumbre.api.anthropic import CountTokens, message_call
from lumbre.api.anthropic_schema import COUNT_TOKENS_REQUEST, MESSAGES_REQUEST
from lumbre.api.asgi_bridge import AsgiBridge
from lumbre.api.bounds import Bounds
from lumbre.api.doors import Inference
from lumbre.api.front import EXPOSED, Door, Front
from lumbre.api.openai import as_it_is
from lumbre.api.openai_schema import CHAT_REQUEST, COMPLETION_REQUEST, EMBEDDING_REQUEST, Shape
from lumbre.api.responses_door import ResponseCalls
from lumbre.api.responses_schema import RESPONSES_REQUEST
from lumbre.api.voices import ANTHROPIC, OPENAI, RESPONSES
from lumbre.core.errors import CallerError, LumbreError
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.keys import Keys


@dataclass(frozen=True)
class Page:
    """One ordinary route: its path in Starlette's notation, its method, and what makes its endpoint."""

    path: str
    method: str
    make: Callable[[Gateway], Any]


PAGES = (
    Page("/v1/models", "GET", models.listing),
    Page("/v1/models/{model:path}", "GET", models.one),
    Page("/v1/responses/{response_id}", "GET", lambda gateway: responses.retrieve(gateway.responses)),
    Page("/v1/responses/{response_id}", "DELETE", lambda gateway: responses.delete(gateway.responses)),
    Page("/v1/responses/{response_id}/input_items", "GET", lambda gateway: responses.input_items(gateway.responses)),
    Page("/v1/responses/{response_id}/cancel", "POST", lambda gateway: responses.cancel(gateway.responses)),
    Page("/v1/responses/input_tokens", "POST", lambda _gateway: responses.unsupported("input_tokens")),
    Page("/v1/responses/compact", "POST", lambda _gateway: responses.unsupported("compact")),
    Page("/v1/flow", "GET", flow.overview),
    Page("/v1/flow/policy", "GET", flow.policy),
    Page("/v1/flow/policy", "POST", flow.choose_policy),
    Page("/v1/flow/switches", "GET", flow.switches),
    Page("/v1/flow/switches/{name}", "GET", flow.one_switch),
    Page("/v1/flow/switches/{name}", "POST", flow.move_switch),
    Page("/v1/flow/nodes", "GET", flow.nodes),
    Page("/v1/flow/nodes/{id}/start", "POST", flow.move_node),
    Page("/v1/flow/nodes/{id}/stop", "POST", flow.move_node),
    Page("/v1/ledger", "GET", lambda gateway: ledger.records(gateway.ledger)),
    Page("/healthz", "GET", lambda _gateway: health.alive),
    Page("/readyz", "GET", health.ready),
    Page("/metrics", "GET", health.metrics),
    Page("/openapi.json", "GET", lambda _gateway: openapi.document),
)


def doors(gateway: Gateway) -> Mapping[str, Door]:
    """The inference doors, by path."""
    return {
        "/v1/chat/completions": _openai(gateway, "/chat/completions", CHAT_REQUEST),
        "/v1/flow/explain": flow.Explain(gateway, OPENAI, "/flow/explain", CHAT_REQUEST, as_it_is("/chat/completions")),
        "/v1/completions": _openai(gateway, "/completions", COMPLETION_REQUEST),
        "/v1/embeddings": _openai(gateway, "/embeddings", EMBEDDING_REQUEST),
        "/v1/responses": Inference(
            gateway, RESPONSES, "/responses", RESPONSES_REQUEST, ResponseCalls(gateway.responses, time.time)
        ),
        "/v1/messages": Inference(gateway, ANTHROPIC, "/messages", MESSAGES_REQUEST, message_call),
        "/v1/messages/count_tokens": CountTokens(
            gateway, ANTHROPIC, "/messages/count_tokens", COUNT_TOKENS_REQUEST, message_call
        ),
    }


def _openai(gateway: Gateway, endpoint: str, shape: Shape) -> Door:
    return Inference(gateway, OPENAI, endpoint, shape, as_it_is(endpoint))


class Cors(CORSMiddleware):
    """Starlette's, with origins compared as `Access` compares them."""

    def is_allowed_origin(self, origin: str) -> bool:
        return super().is_allowed_origin(origin.lower())


def build_front(gateway: Gateway, keys: Keys | None) -> Front:
    """Make what every request passes.

    Args:
        keys: who may come in; None where everybody on this machine may.
    """
    routes = [Route(page.path, page.make(gateway), methods=[page.method]) for page in PAGES]
    handlers = {HTTPException: _routing_error, LumbreError: _lumbre_error, Exception: _our_fault}
    starlette = Starlette(routes=routes, exception_handlers=handlers)
    starlette.router.redirect_slashes = False
    app: ASGIApp = starlette
    given = gateway.settings.gateway
    if given.allowed_origins:
        app = Cors(
            app,
            allow_origins=[origin.rstrip("/").lower() for origin in given.allowed_origins],
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    access = Access(
        hosts=given.allowed_hosts,
        origins=given.allowed_origins,
        beyond_loopback=not is_loopback(given.host),
        keys=keys,
    )
    return Front(doors(gateway), AsgiBridge(app), access, gateway)


def bounds_of(gateway: Gateway) -> Bounds:
    """How much and how long a client's connection may take here."""
    limits = gateway.settings.limits
    return Bounds(body_bytes=limits.body_bytes, body_s=limits.body_s)


async def _routing_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    path = request.url.path
    if error.status_code == 405:
        message = f"{path} takes {headers.get('Allow', 'another method')}, not {request.method}"
        told = CallerError(message, status=405, code="method_not_allowed", headers=headers)
    elif error.status_code == 404:
        told = CallerError(f"there is nothing at {path}", status=404, code="not_found")
    else:
        told = CallerError(error.detail, status=error.status_code, headers=headers)
    return _told(request, told)


async def _lumbre_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, LumbreError):
        raise error
    return _told(request, error)


async def _our_fault(request: Request, _error: Exception) -> Response:
    """Starlette raises the error again after this, so it is logged whole; the client learns nothing of our insides."""
    return _told(request, LumbreError("the gateway failed; its log has the details"))


def _told(request: Request, error: LumbreError) -> Response:
    """An error as a whole reply, in the shape of the API that the client speaks."""
    voice = ANTHROPIC if models.speaks_anthropic(request) else OPENAI
    decision = request.scope["state"].get("decision")
    headers = dict(voice.headers(error, None))
    return Response(voice.body(error, decision), status_code=error.status, headers=headers)
