"""All doors for programs as one ASGI app: the table of routes, and errors of routing in OpenAI's shape."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from lumbre.api import health, models, openapi
from lumbre.api.access import Access, KeyCheck, is_loopback
from lumbre.api.openai import Inference, error_headers
from lumbre.api.openai_schema import ChatRequest, CompletionRequest
from lumbre.core.errors import CallerError, LumbreError
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.keys import Keys
from lumbre.wire.openai.errors import error_body


@dataclass(frozen=True)
class Door:
    """One route: its path in Starlette's notation, its method, and what makes its endpoint."""

    path: str
    method: str
    make: Callable[[Gateway], Any]


DOORS = (
    Door("/v1/chat/completions", "POST", lambda gateway: Inference(gateway, "/chat/completions", ChatRequest)),
    Door("/v1/completions", "POST", lambda gateway: Inference(gateway, "/completions", CompletionRequest)),
    Door("/v1/models", "GET", models.listing),
    Door("/v1/models/{model:path}", "GET", models.one),
    Door("/healthz", "GET", lambda _gateway: health.alive),
    Door("/readyz", "GET", health.ready),
    Door("/metrics", "GET", health.metrics),
    Door("/openapi.json", "GET", lambda _gateway: openapi.document),
)


class Cors(CORSMiddleware):
    """Starlette's, with origins compared as `Access` compares them."""

    def is_allowed_origin(self, origin: str) -> bool:
        return super().is_allowed_origin(origin.lower())


def build_app(gateway: Gateway, keys: Keys | None) -> ASGIApp:
    """Make the app.

    Args:
        keys: who may come in; None where everybody on this machine may.
    """
    routes = [Route(door.path, door.make(gateway), methods=[door.method]) for door in DOORS]
    handlers = {HTTPException: _routing_error, LumbreError: _lumbre_error, Exception: _our_fault}
    starlette = Starlette(routes=routes, exception_handlers=handlers)
    starlette.router.redirect_slashes = False
    app: ASGIApp = starlette if keys is None else KeyCheck(starlette, keys)
    given = gateway.settings.gateway
    if given.allowed_origins:
        # Between the two checks: a preflight carries no key, and a page that may not call gets no CORS answer.
        app = Cors(
            app,
            allow_origins=[origin.rstrip("/").lower() for origin in given.allowed_origins],
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After", "X-Request-Id", "X-Lumbre-Tier", "X-Lumbre-Node", "X-Lumbre-Decision"],
        )
    return Access(
        app,
        hosts=given.allowed_hosts,
        origins=given.allowed_origins,
        beyond_loopback=not is_loopback(given.host),
    )


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
    return error_response(told)


async def _lumbre_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, LumbreError):
        raise error
    return error_response(error)


async def _our_fault(_request: Request, _error: Exception) -> Response:
    """Starlette raises the error again after this, so it is logged whole; the client learns nothing of our insides."""
    return error_response(LumbreError("the gateway failed; its log has the details"))


def error_response(error: LumbreError) -> Response:
    """An error as a whole reply."""
    body = error_body(error, None)
    return Response(body, status_code=error.status, headers=dict(error_headers(error, None, len(body))))
