"""An engine that ignored what it was asked is told on: 502, and never its answer as if it were right."""

import json
from typing import Any

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import broken

TOOLS = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
BY_SCHEMA = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
STRICT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}

IGNORED: dict[str, dict[str, Any]] = {
    "a tool was required": {"tools": TOOLS, "tool_choice": "required"},
    "one tool was required": {
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "lookup"}},
    },
    "a schema, and no JSON": {"response_format": BY_SCHEMA},
    "a schema, and other JSON": {"response_format": BY_SCHEMA, "rogue": {"text": '{"town": "Cádiz"}'}},
    "a strict schema, and other JSON": {"response_format": STRICT, "rogue": {"text": '{"city": 7}'}},
    "a JSON object, and a list": {"response_format": {"type": "json_object"}, "rogue": {"text": "[1]"}},
}

KEPT: dict[str, dict[str, Any]] = {
    "a tool was required": {"tools": TOOLS, "tool_choice": "required", "rogue": {"tool_arguments": "{}"}},
    "a schema": {"response_format": BY_SCHEMA, "rogue": {"text": '{"city": "Cádiz"}'}},
    "a strict schema": {"response_format": STRICT, "rogue": {"text": '{"city": "Cádiz"}'}},
    "a JSON object": {"response_format": {"type": "json_object"}, "rogue": {"text": '{"a": [1]}'}},
    "a tool was possible": {"tools": TOOLS, "tool_choice": "auto"},
}


@pytest.fixture(scope="module")
def strict(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(sections={"tier_a": {"strict_json": True}}).ready()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("case", IGNORED)
def test_an_ignored_request_is_told_on(strict: GatewayProcess, case: str, stream: bool) -> None:
    with strict.chat({**IGNORED[case], "stream": stream}) as call:
        status, error = broken(call)
    assert status in ({200, 502} if stream else {502})
    assert error["code"] == "engine_ignored_request"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("case", KEPT)
def test_a_promise_that_was_kept_is_relayed_untouched(
    strict: GatewayProcess, rogue: RogueProcess, name: str, case: str, stream: bool
) -> None:
    asked = {**KEPT[case], "stream": stream}
    with strict.chat({**asked, "rogue": {**asked.get("rogue", {}), "id": name}}) as call:
        assert call.status == 200
        assert call.read() == rogue.sent(name)


def test_strict_json_does_not_run_on_a_unless_the_operator_says_so(
    gateway: GatewayProcess, rogue: RogueProcess
) -> None:
    for model, status, code in (("auto", 503, "strict_json_needs_b"), ("tier-a", 422, "affinity_conflict")):
        with gateway.chat({"model": model, "response_format": STRICT}) as call:
            assert call.status == status
            error = call.error()
        assert error["code"] == code
        assert "strict_json" in error["message"]
    assert rogue.log()["seen"] == 0


def test_the_schema_reaches_the_engine_as_it_was(strict: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    wish = {"id": name, "text": '{"city": "Cádiz"}'}
    with strict.chat({"response_format": BY_SCHEMA, "rogue": wish}) as call:
        assert call.status == 200
        call.read()
    assert json.loads(rogue.find(name)["body"])["response_format"] == BY_SCHEMA
