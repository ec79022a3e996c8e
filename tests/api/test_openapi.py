"""The OpenAPI document is valid, and says what the doors really have."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from openapi_spec_validator import validate

from embedded_gateway import EmbeddedGateway
from lumbre.api.anthropic_schema import COUNT_TOKENS_REQUEST, MESSAGES_REQUEST
from lumbre.api.app import PAGES, doors
from lumbre.api.openai_schema import CHAT_REQUEST, COMPLETION_REQUEST, EMBEDDING_REQUEST, Shape
from lumbre.api.openapi import build
from lumbre.api.responses_schema import RESPONSES_REQUEST
from lumbre.runtime.gateway import Gateway
from wire_client import Call

DOORS = doors(cast(Gateway, SimpleNamespace(responses=None)))
SHAPES: dict[str, Shape] = {
    "/v1/chat/completions": CHAT_REQUEST,
    "/v1/completions": COMPLETION_REQUEST,
    "/v1/embeddings": EMBEDDING_REQUEST,
    "/v1/responses": RESPONSES_REQUEST,
    "/v1/messages": MESSAGES_REQUEST,
    "/v1/messages/count_tokens": COUNT_TOKENS_REQUEST,
    "/v1/flow/explain": CHAT_REQUEST,
}


def references(value: Any) -> set[str]:
    """Every `$ref` in a part of the document."""
    if isinstance(value, list):
        return set().union(*map(references, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own.union(*(references(each) for each in value.values())) if value else own


def test_the_document_is_valid() -> None:
    validate(build())


def test_every_route_is_in_it_with_its_method_and_nothing_else_is() -> None:
    documented = {(path, method.upper()) for path, methods in build()["paths"].items() for method in methods}
    pages = {(page.path.replace(":path", ""), page.method) for page in PAGES}
    refused = {(f"/v1/responses/{name}", "POST") for name in ("input_tokens", "compact")}
    assert refused <= pages  # they are there to say that they are not
    assert documented == (pages - refused) | {(path, "POST") for path in DOORS}


def test_every_shape_that_is_referred_to_is_in_it_and_no_other() -> None:
    document = build()
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) == named


@pytest.mark.parametrize("path", DOORS)
def test_a_door_takes_the_fields_that_are_checked_there(path: str) -> None:
    document = build()
    content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    told = document["components"]["schemas"][content.rpartition("/")[2]]["properties"]
    assert told.keys() == SHAPES[path].kind.__annotations__.keys()


@pytest.mark.parametrize("path", DOORS)
def test_every_status_that_a_door_refuses_with_is_in_it_in_its_shape(path: str) -> None:
    promised = build()["paths"][path]["post"]["responses"]
    shape = "AnthropicError" if path.startswith("/v1/messages") else "Error"
    for status in "400 401 403 404 405 408 413 415 422 429 431 502 503 504".split():
        schema = promised[status]["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{shape}"}


@pytest.mark.parametrize("path", ["/openapi.json", "/healthz", "/readyz", "/v1/models", "/metrics"])
def test_what_it_promises_is_served(embedded: EmbeddedGateway, path: str) -> None:
    with Call(f"{embedded.url}{path}") as call:
        assert call.status == 200
        promised = build()["paths"][path]["get"]["responses"]["200"]["content"]
        assert call.content_type in promised


@pytest.mark.parametrize(("path", "shape"), [("/v1/chat/completions", "Error"), ("/v1/messages", "AnthropicError")])
def test_errors_have_the_keys_that_it_promises(embedded: EmbeddedGateway, path: str, shape: str) -> None:
    schema = build()["components"]["schemas"][shape]
    with Call(f"{embedded.url}{path}", {"messages": 7}) as call:
        assert call.status == 400
        told = call.json()
    assert set(told) == set(schema["required"])
    promised = schema["properties"]["error"]
    assert set(told["error"]) == set(promised["required"])
    assert set(told["error"]["lumbre"]) == set(promised["properties"]["lumbre"]["properties"])
