"""What is wrong with a request is said by name and place, always in OpenAI's error shape."""

import json
import re
from typing import Any

import pytest

from gateway_process import GatewayProcess
from rogue_process import RogueProcess

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hi"}]

WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"model": 7}, "model"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": 5, "content": "hi"}]}, "messages[0].role"),
    ({"messages": [*MESSAGES, {"role": "user", "content": 5}]}, "messages[1].content"),
    ({"stream": "yes"}, "stream"),
    ({"temperature": "hot"}, "temperature"),
    ({"max_tokens": "many"}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"n": 0}, "n"),
    ({"stop": 5}, "stop"),
    ({"tools": "all"}, "tools"),
    ({"response_format": "json"}, "response_format"),
    ({"stream": True, "stream_options": "usage"}, "stream_options"),
]


@pytest.mark.parametrize(("wrong", "param"), WRONG_FIELDS, ids=str)
def test_a_wrong_type_is_a_400_with_the_field(
    gateway: GatewayProcess, rogue: RogueProcess, wrong: dict[str, Any], param: str
) -> None:
    asked = {"model": "rogue", "messages": MESSAGES, **wrong}
    body = {key: value for key, value in asked.items() if value is not None}
    with gateway.get(CHAT, body=body) as call:
        assert call.status == 400
        error = call.error()
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert rogue.log()["seen"] == 0


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"model": "rogue",\n "messages": }', r"line 2"),
        (b'{"model": "rogue"', r"line 1"),
        (b'{"model": "rogue"} trailing', r"line 1"),
        (b"", r"empty|line 1"),
        (b'{"model": "ro\xffgue"}', r"\b13\b"),
        (b'{"model": "\xed\xa0\x80"}', r"\b11\b"),
    ],
)
def test_malformed_json_is_a_400_with_the_position(gateway: GatewayProcess, body: bytes, place: str) -> None:
    with gateway.get(CHAT, body=body, method="POST") as call:
        assert call.status == 400
        assert re.search(place, call.error()["message"])


@pytest.mark.parametrize("body", [b"[]", b'"hi"', b"null", b"7"])
def test_json_that_is_no_object_is_a_400(gateway: GatewayProcess, body: bytes) -> None:
    with gateway.get(CHAT, body=body) as call:
        assert call.status == 400
        assert "object" in call.error()["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("DELETE", CHAT, "POST"),
        ("PUT", "/v1/completions", "POST"),
        ("POST", "/v1/models", "GET"),
        ("POST", "/healthz", "GET"),
        ("POST", "/readyz", "GET"),
    ],
)
def test_a_wrong_method_is_a_405_that_says_which_are_right(
    gateway: GatewayProcess, method: str, path: str, allowed: str
) -> None:
    with gateway.get(path, method=method, body=b"{}" if method in {"POST", "PUT"} else None) as call:
        assert call.status == 405
        assert allowed in (call.header("allow") or "").replace(" ", "").split(",")
        call.error()


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v1/chat/completions/", "/../etc/passwd", "/%00"])
def test_an_unknown_path_is_a_404(gateway: GatewayProcess, path: str) -> None:
    with gateway.get(path) as call:
        assert call.status == 404
        call.error()


def test_an_unknown_model_is_a_404_with_the_list(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    with gateway.chat({"model": "gpt-17"}) as call:
        assert call.status == 404
        error = call.error()
    assert error["code"] == "model_not_found"
    assert error["param"] == "model"
    assert "rogue" in error["lumbre"]["valid"]
    assert "gpt-17" in error["message"]
    assert rogue.log()["seen"] == 0


def test_the_models_of_an_upstream_are_listed(gateway: GatewayProcess) -> None:
    with gateway.get("/v1/models") as call:
        assert call.status == 200
        listed = call.json()
    assert listed["object"] == "list"
    assert "rogue" in [model["id"] for model in listed["data"]]


def test_auto_asks_for_the_first_model_of_the_upstream(gateway: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    with gateway.chat({"model": "auto", "rogue": {"id": name}}) as call:
        assert call.status == 200
        call.read()
    assert json.loads(rogue.find(name)["body"])["model"] == "rogue"


def test_what_the_door_turns_away_is_counted_too(gateway: GatewayProcess) -> None:
    def counted() -> float:
        return gateway.metric("lumbre_requests_total", outcome="invalid_json", status="400")

    before = counted()
    with gateway.get(CHAT, body="{") as call:
        assert call.status == 400
        call.read()
    assert counted() == before + 1
