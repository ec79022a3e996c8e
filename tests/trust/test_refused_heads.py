"""What is refused by its head alone is told as the API that was called tells it, to whoever may read it, at no cost."""

import socket
from urllib.parse import urlsplit

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import Call

PAGE = "https://chat.example"
VERSION = {"anthropic-version": "2023-06-01"}


@pytest.fixture(scope="module")
def locked(open_for_module: Opener) -> GatewayProcess:
    """A gateway that demands a key, and that pages of one origin may call."""
    return open_for_module(sections={"gateway": {"allowed_origins": [PAGE]}}, arguments=("--new-key",)).ready()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/chat/completions", 401),
        ("POST", "/v1/messages", 401),
        ("GET", "/v1/models", 401),
        ("GET", "/v1/completions", 401),
    ],
)
def test_a_page_that_may_call_can_read_why_it_was_refused(
    locked: GatewayProcess, method: str, path: str, status: int
) -> None:
    with Call(f"{locked.url}{path}", "{}" if method == "POST" else None, {"Origin": PAGE}, method=method) as call:
        assert call.status == status
        assert call.header("access-control-allow-origin") == PAGE


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/v1/messages", 401), ("GET", "/v1/models", 401), ("GET", "/v1/nothing", 401)],
)
def test_a_refusal_of_anthropics_api_has_its_id(locked: GatewayProcess, method: str, path: str, status: int) -> None:
    with Call(f"{locked.url}{path}", "{}" if method == "POST" else None, VERSION, method=method) as call:
        assert call.status == status
        assert (call.header("request-id") or "").startswith("d-")
        assert call.json()["request_id"] == call.header("request-id")


@pytest.mark.parametrize(("path", "status"), [("/v1/models", 200), ("/v1/models/nope", 404), ("/v1/nothing", 404)])
def test_so_has_every_page_of_that_api(gateway: GatewayProcess, path: str, status: int) -> None:
    with gateway.get(path, headers=VERSION) as call:
        assert call.status == status
        assert (call.header("request-id") or "").startswith("d-")
        if status != 200:
            assert call.json()["request_id"] == call.header("request-id")


def test_a_refused_head_is_counted(locked: GatewayProcess) -> None:
    with Call(f"{locked.url}/v1/messages", "{}") as call:
        assert call.status == 401
        decision = call.header("x-lumbre-decision") or ""
    assert decision.startswith("d-")


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/v1/nothing"])
def test_nobody_makes_the_gateway_keep_a_body_that_no_page_wants(gateway: GatewayProcess, path: str) -> None:
    with gateway.get(path, body="x" * 65_537, method="GET") as call:
        assert (call.status, call.error()["code"]) == (413, "body_too_large")


def test_http_1_0_without_a_host_is_served(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    del rogue
    address = urlsplit(gateway.url)
    with socket.create_connection((address.hostname, address.port), timeout=5) as raw:
        raw.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        reply = b""
        while data := raw.recv(65_536):
            reply += data
    assert reply.startswith(b"HTTP/1.1 200 ")


def test_a_page_cannot_leave_its_host_out(gateway: GatewayProcess) -> None:
    address = urlsplit(gateway.url)
    with socket.create_connection((address.hostname, address.port), timeout=5) as raw:
        raw.sendall(b"GET /healthz HTTP/1.0\r\nOrigin: http://evil.example\r\n\r\n")
        assert raw.recv(65_536).startswith(b"HTTP/1.1 403 ")
