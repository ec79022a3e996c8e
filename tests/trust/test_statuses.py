"""Statuses and headers: an engine's refusal reaches the caller, and only listed headers go either way."""

import json
from typing import Any

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess

SECRETS = {
    "Authorization": "Bearer client-secret",
    "Cookie": "session=client-secret",
    "Proxy-Authorization": "Basic client-secret",
    "X-Api-Key": "client-secret",
    "X-Forwarded-For": "client-secret",
    "OpenAI-Organization": "client-secret",
    "X-Anything": "client-secret",
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("status", [400, 403, 404, 422, 429, 500, 503])
def test_the_status_and_error_of_an_engine_reach_the_caller(
    gateway: GatewayProcess, rogue: RogueProcess, name: str, status: int, stream: bool
) -> None:
    wish = {"id": name, "do": "refuse", "status": status}
    with gateway.chat({"stream": stream, "rogue": wish}) as call:
        assert call.status == status
        assert call.read() == rogue.sent(name)


def test_a_refused_key_of_the_gateway_is_no_fault_of_the_caller(gateway: GatewayProcess) -> None:
    with gateway.chat({"rogue": {"do": "refuse", "status": 401}}) as call:
        assert call.status == 502
        assert "api_key_env" in call.error()["message"]


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_and_rate_limit_headers_reach_the_caller(open_gateway: Opener, status: int) -> None:
    # A gateway of its own: the upstream is then left alone for as long as it asked.
    with open_gateway().ready().chat({"rogue": {"do": "refuse", "status": status, "retry_after": "7"}}) as call:
        assert call.header("retry-after") == "7"
        assert call.header("x-ratelimit-limit-requests") == "60"
        assert call.header("x-ratelimit-remaining-requests") == "0"
        assert call.header("x-ratelimit-reset-requests") == "1s"
        call.read()


@pytest.mark.parametrize("status", [500, 502, 503])
def test_an_error_page_becomes_an_error_in_openais_shape(gateway: GatewayProcess, status: int) -> None:
    with gateway.chat({"rogue": {"do": "html", "status": status}}) as call:
        assert call.status in {status, 502}
        assert call.content_type == "application/json"
        assert call.error()["code"] == "engine_failed"


def test_a_successful_reply_says_who_answered(gateway: GatewayProcess) -> None:
    with gateway.chat() as call:
        assert call.header("x-lumbre-tier") == "A"
        assert call.header("x-lumbre-node") == "rogue"
        assert (call.header("x-lumbre-decision") or "").startswith("d-")
        call.read()


@pytest.mark.parametrize("wish", [{}, {"do": "refuse", "status": 429}], ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_cookies_of_an_engine_stay_behind(gateway: GatewayProcess, wish: dict[str, Any], stream: bool) -> None:
    with gateway.chat({"stream": stream, "rogue": {"cookies": True, **wish}}) as call:
        assert call.header("set-cookie") is None
        assert call.header("server") != "rogue"
        call.read()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_no_secret_of_the_client_goes_upstream(
    gateway: GatewayProcess, rogue: RogueProcess, name: str, stream: bool
) -> None:
    with gateway.chat({"stream": stream, "rogue": {"id": name}}, headers=SECRETS) as call:
        assert call.status == 200
        call.read()
    headers = rogue.find(name)["headers"]
    assert "client-secret" not in json.dumps(headers)
    assert dict(headers)["Host"] == rogue.url.removeprefix("http://")


def test_metrics_count_each_request_by_its_outcome(gateway: GatewayProcess, name: str) -> None:
    def counted(status: str) -> float:
        return gateway.metric("lumbre_requests_total", node="rogue", status=status)

    served, failed = counted("200"), counted("502")
    with gateway.chat() as call:
        call.read()
    with gateway.chat({"rogue": {"id": name, "do": "not_json"}}) as call:
        call.read()
    assert (counted("200"), counted("502")) == (served + 1, failed + 1)
