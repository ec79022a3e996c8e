"""The OpenAPI document is valid, and says what the doors really have."""

import pytest
from openapi_spec_validator import validate

from embedded_gateway import EmbeddedGateway
from lumbre.api.app import DOORS
from lumbre.api.openapi import build
from wire_client import Call


def test_the_document_is_valid() -> None:
    validate(build())


def test_every_route_is_in_it_with_its_method_and_nothing_else_is() -> None:
    documented = {(path, method.upper()) for path, methods in build()["paths"].items() for method in methods}
    assert documented == {(door.path.replace(":path", ""), door.method) for door in DOORS}


def test_every_status_that_the_door_refuses_with_is_in_it() -> None:
    promised = build()["paths"]["/v1/chat/completions"]["post"]["responses"]
    told = "400 401 403 404 405 408 413 415 422 429 431 502 503 504".split()
    assert [status for status in told if status not in promised] == []


@pytest.mark.parametrize("path", ["/openapi.json", "/healthz", "/readyz", "/v1/models", "/metrics"])
def test_what_it_promises_is_served(embedded: EmbeddedGateway, path: str) -> None:
    with Call(f"{embedded.url}{path}") as call:
        assert call.status == 200
        promised = build()["paths"][path]["get"]["responses"]["200"]["content"]
        assert call.content_type in promised
