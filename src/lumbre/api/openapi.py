"""`/openapi.json`: what the doors take and give, from the very types that check requests. Pure but for the endpoint."""

from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from lumbre import __version__
from lumbre.api.openai_schema import ChatRequest, CompletionRequest, Request
from lumbre.gateway.hints import VALUES

_REF = "#/components/schemas/{model}"

_ERRORS = {
    "400": "The request is at fault; `error.param` names the field.",
    "401": "A key is demanded here.",
    "403": "The Host or Origin header is none that this gateway allows.",
    "404": "No such model; `error.lumbre.valid` lists what there is.",
    "405": "Another method is wanted; `Allow` names it.",
    "408": "The request did not come whole in time.",
    "413": "The body is too large.",
    "415": "The body is compressed; send it as it is.",
    "422": "The hints contradict each other.",
    "429": "Every slot is taken; `Retry-After` says when to try again.",
    "431": "The request's line and headers are too long.",
    "502": "The engine failed, was cut, or ignored what it was asked.",
    "503": "Nothing can serve this now.",
    "504": "A deadline passed; `error.code` names it.",
}


def build() -> dict[str, Any]:
    """The document."""
    schemas: dict[str, Any] = {"Error": _ERROR_SCHEMA}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lumbre",
            "version": __version__,
            "description": "A local-first inference gateway.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/v1/chat/completions": {"post": _inference("Answer a conversation", ChatRequest, schemas)},
            "/v1/completions": {"post": _inference("Go on with a text", CompletionRequest, schemas)},
            "/v1/models": {"get": _plain("List the models")},
            "/v1/models/{model}": {"get": {**_plain("Describe one model"), "parameters": [_MODEL_PARAMETER]}},
            "/healthz": {"get": {**_plain("Whether the gateway is alive"), "security": []}},
            "/readyz": {"get": _plain("Whether it can serve now, and why not", unready=True)},
            "/metrics": {"get": _plain("Prometheus metrics", media="text/plain")},
            "/openapi.json": {"get": _plain("This document")},
        },
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code", "lumbre"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
                "lumbre": {
                    "type": "object",
                    "properties": {
                        "decision": {"type": ["string", "null"]},
                        "switch": {"type": ["string", "null"]},
                        "valid": {"type": ["array", "null"], "items": {"type": "string"}},
                    },
                },
            },
        }
    },
}

_MODEL_PARAMETER = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}


def _inference(summary: str, shape: type[Request], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = shape.model_json_schema(ref_template=_REF)
    schemas.update(schema.pop("$defs", {}))
    schemas[shape.__name__] = schema
    content = {"schema": {"$ref": _REF.format(model=shape.__name__)}}
    return {
        "summary": summary,
        "parameters": [_hint(name, values) for name, values in VALUES.items()],
        "requestBody": {"required": True, "content": {"application/json": content}},
        "responses": {
            "200": {
                "description": "The engine's reply, byte for byte: one object, or events if `stream` is true.",
                "content": {
                    "application/json": {"schema": {"type": "object"}},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            **{status: _error(text) for status, text in _ERRORS.items()},
        },
    }


def _hint(name: str, values: tuple[str, ...]) -> dict[str, Any]:
    schema = {"type": "string", "enum": list(values)}
    return {"name": f"X-Lumbre-{name.title()}", "in": "header", "required": False, "schema": schema}


def _error(text: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}}
    return {"description": text, "content": content}


def _plain(summary: str, *, media: str = "application/json", unready: bool = False) -> dict[str, Any]:
    body = {"content": {media: {"schema": {"type": "object" if media.endswith("json") else "string"}}}}
    responses = {"200": {"description": "Yes." if unready else "Here it is.", **body}}
    if unready:
        responses["503"] = {"description": "Not now; the reasons are in the body.", **body}
    return {"summary": summary, "responses": responses}


async def document(_request: HttpRequest) -> Response:
    """`GET /openapi.json`."""
    return Response(orjson.dumps(build()), media_type="application/json")
