"""`/openapi.json`: what the doors take and give, from the very types that check requests. Pure but for the endpoint."""

from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from lumbre import __version__
from lumbre.api.anthropic_schema import COUNT_TOKENS_REQUEST, MESSAGES_REQUEST
from lumbre.api.openai_schema import CHAT_REQUEST, COMPLETION_REQUEST, EMBEDDING_REQUEST, Shape
from lumbre.api.openapi_flow import DECISION, FLOW
from lumbre.api.responses_schema import RESPONSES_REQUEST
from lumbre.gateway.hints import VALUES

_REF = "#/components/schemas/{model}"
_OPENAI_ERROR, _ANTHROPIC_ERROR = "Error", "AnthropicError"

_ERRORS = {
    "400": "The request is at fault; `error.param` names the field.",
    "401": "A key is demanded here.",
    "403": "The Host or Origin header is none that this gateway allows, or tier C may not be asked for by name.",
    "404": "No such model, or nobody here answers this; `error.lumbre.valid` lists the models that there are.",
    "405": "Another method is wanted; `Allow` names it.",
    "408": "The request did not come whole in time.",
    "413": "The body is too large.",
    "415": "The body is compressed; send it as it is.",
    "422": "The hints contradict each other.",
    "429": "Every slot is taken, or the day's budget is spent; `Retry-After` says when to try again.",
    "431": "The request's line and headers are too long.",
    "502": "The engine failed, was cut, or ignored what it was asked.",
    "503": "Nothing can serve this now.",
    "504": "A deadline passed; `error.code` names it.",
}

_EVENTS = "one object, or events if `stream` is true."


@dataclass(frozen=True)
class _Door:
    """An inference door.

    Attributes:
        gives: what a 200 is.
        streams: whether it can be one of events.
        reply: the schema of one object.
    """

    path: str
    summary: str
    shape: Shape
    gives: str
    streams: bool = True
    reply: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    error: str = _OPENAI_ERROR


_DOORS = (
    _Door(
        "/v1/chat/completions",
        "Answer a conversation",
        CHAT_REQUEST,
        f"The engine's reply, byte for byte: {_EVENTS}",
    ),
    _Door("/v1/completions", "Go on with a text", COMPLETION_REQUEST, f"The engine's reply, byte for byte: {_EVENTS}"),
    _Door(
        "/v1/responses",
        "Answer a conversation in OpenAI's newer API, and keep it if it may be kept",
        RESPONSES_REQUEST,
        f"A Response: {_EVENTS}",
    ),
    _Door(
        "/v1/messages",
        "Answer a conversation in Anthropic's API",
        MESSAGES_REQUEST,
        f"A Message: {_EVENTS}",
        error=_ANTHROPIC_ERROR,
    ),
    _Door(
        "/v1/messages/count_tokens",
        "Count the tokens of a prompt in Anthropic's API",
        COUNT_TOKENS_REQUEST,
        "`input_tokens`; `X-Lumbre-Estimated` says that the engine could not count.",
        streams=False,
        error=_ANTHROPIC_ERROR,
    ),
    _Door(
        "/v1/flow/explain",
        "Tell what would be done with a conversation, and why; nobody is asked to answer it",
        CHAT_REQUEST,
        "The decision, with the four steps that led to it.",
        streams=False,
        reply=DECISION,
    ),
    _Door(
        "/v1/embeddings",
        "Turn texts into vectors",
        EMBEDDING_REQUEST,
        "One vector for each input, in their order.",
        streams=False,
    ),
)


def build() -> dict[str, Any]:
    """The document."""
    schemas: dict[str, Any] = {_OPENAI_ERROR: _ERROR_SCHEMA, _ANTHROPIC_ERROR: _ANTHROPIC_ERROR_SCHEMA}
    doors = {door.path: {"post": _inference(door, schemas)} for door in _DOORS}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lumbre",
            "version": __version__,
            "description": "A local-first inference gateway.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {**doors, **_KEPT, **_MODELS, **FLOW, **_HEALTH},
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{}, {"key": []}, {"x-api-key": []}],
    }


_LUMBRE = {
    "decision": {"type": ["string", "null"]},
    "switch": {"type": ["string", "null"]},
    "valid": {"type": ["array", "null"], "items": {"type": "string"}},
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
                "lumbre": {"type": "object", "properties": _LUMBRE},
            },
        }
    },
}

_ANTHROPIC_ERROR_SCHEMA = {
    "type": "object",
    "required": ["type", "error", "request_id"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message", "lumbre"],
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "lumbre": {
                    "type": "object",
                    "properties": {**_LUMBRE, "code": {"type": "string"}, "param": {"type": ["string", "null"]}},
                },
            },
        },
        "request_id": {"type": ["string", "null"]},
    },
}


def _inference(door: _Door, schemas: dict[str, Any]) -> dict[str, Any]:
    name = door.shape.kind.__name__
    # Doors have shapes of the same names, so each door's stand under its own.
    schema = door.shape.json_schema(ref_template=_REF.format(model=f"{name}.{{model}}"))
    schemas.update({f"{name}.{inner}": each for inner, each in schema.pop("$defs", {}).items()})
    schemas[name] = schema
    given: dict[str, Any] = {"application/json": {"schema": door.reply}}
    if door.streams:
        given["text/event-stream"] = {"schema": {"type": "string"}}
    return {
        "summary": door.summary,
        "parameters": [_hint(hint, values) for hint, values in VALUES.items()],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": _REF.format(model=name)}}},
        },
        "responses": {
            "200": {"description": door.gives, "content": given},
            **{status: _error(text, door.error) for status, text in _ERRORS.items()},
        },
    }


def _hint(name: str, values: tuple[str, ...]) -> dict[str, Any]:
    return _parameter(f"X-Lumbre-{name.title()}", "header", {"type": "string", "enum": list(values)})


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _error(text: str, shape: str = _OPENAI_ERROR) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": {"$ref": _REF.format(model=shape)}}}}


def _plain(
    summary: str,
    *parameters: dict[str, Any],
    media: str = "application/json",
    others: dict[str, Any] | None = None,
) -> dict[str, Any]:
    content = {media: {"schema": {"type": "object" if media.endswith("json") else "string"}}}
    responses = {"200": {"description": "Here it is.", "content": content}, **(others or {})}
    return {"summary": summary, "parameters": list(parameters), "responses": responses}


_TEXT = {"type": "string"}
_RESPONSE_ID = _parameter("response_id", "path", _TEXT)
_INCLUDE = _parameter("include", "query", {"type": "array", "items": _TEXT})
_VERSION = _parameter("anthropic-version", "header", _TEXT)
_NOT_KEPT = {
    "404": _error("It is not kept here, or nothing is."),
    "503": _error("What is kept cannot be read."),
}
_WRONG = {"400": _error("A parameter is at fault, or asks for what cannot be had here.")}
_UNREADY = {
    "503": {
        "description": "Not now; the reasons are in the body.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}

_KEPT = {
    "/v1/responses/{response_id}": {
        "get": _plain("A kept Response", _RESPONSE_ID, _INCLUDE, others={**_WRONG, **_NOT_KEPT}),
        "delete": _plain("Forget a Response", _RESPONSE_ID, others=_NOT_KEPT),
    },
    "/v1/responses/{response_id}/input_items": {
        "get": _plain(
            "A kept Response's own input, by pages",
            _RESPONSE_ID,
            _INCLUDE,
            _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
            _parameter("order", "query", {"type": "string", "enum": ["asc", "desc"], "default": "desc"}),
            _parameter("after", "query", _TEXT),
            others={**_WRONG, **_NOT_KEPT},
        )
    },
    "/v1/responses/{response_id}/cancel": {
        "post": {
            "summary": "Refused: nothing runs in the background",
            "parameters": [_RESPONSE_ID],
            "responses": {"400": _error("There is nothing to cancel; the message says why."), **_NOT_KEPT},
        }
    },
}

_MODELS = {
    "/v1/models": {
        "get": _plain(
            "List the models; in Anthropic's shape with `anthropic-version`",
            _VERSION,
            _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20}),
            _parameter("after_id", "query", _TEXT),
            _parameter("before_id", "query", _TEXT),
            others=_WRONG,
        )
    },
    "/v1/models/{model}": {
        "get": _plain(
            "Describe one model",
            _parameter("model", "path", _TEXT),
            _VERSION,
            others={"404": _error("No such model; `error.lumbre.valid` lists what there is.")},
        )
    },
}

_HEALTH = {
    "/healthz": {"get": {**_plain("Whether the gateway is alive"), "security": []}},
    "/readyz": {"get": _plain("Whether it can serve now, and why not", others=_UNREADY)},
    "/metrics": {"get": _plain("Prometheus metrics", media="text/plain")},
    "/openapi.json": {"get": _plain("This document")},
}


async def document(_request: HttpRequest) -> Response:
    """`GET /openapi.json`."""
    return Response(orjson.dumps(build()), media_type="application/json")
