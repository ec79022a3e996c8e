"""Who may call: Host and Origin are checked, and beyond loopback a key is demanded."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import Call

FRIEND = "https://chat.example"


@pytest.fixture(scope="module")
def friendly(open_for_module: Opener) -> GatewayProcess:
    sections = {"gateway": {"allowed_hosts": ["lumbre.example"], "allowed_origins": [FRIEND]}}
    return open_for_module(sections=sections).ready()


@pytest.fixture(scope="module")
def exposed(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(arguments=("--host", "0.0.0.0")).ready()


def loopback(gateway: GatewayProcess) -> str:
    return f"http://127.0.0.1:{urlsplit(gateway.url).port}"


def models(gateway: GatewayProcess, **headers: str) -> Call:
    return Call(f"{loopback(gateway)}/v1/models", headers={key.replace("_", "-"): headers[key] for key in headers})


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "lumbre.example"])
def test_a_foreign_host_is_refused(gateway: GatewayProcess, host: str) -> None:
    with models(gateway, Host=host) as call:
        assert call.status == 403
        call.error()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_this_machine_is_a_known_host(gateway: GatewayProcess, host: str) -> None:
    with models(gateway, Host=f"{host}:{urlsplit(gateway.url).port}") as call:
        assert call.status == 200
        call.read()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", FRIEND])
def test_a_page_from_elsewhere_is_refused(gateway: GatewayProcess, rogue: RogueProcess, origin: str) -> None:
    with gateway.chat(headers={"Origin": origin}) as call:
        assert call.status == 403
        assert call.header("access-control-allow-origin") is None
        call.error()
    assert rogue.log()["seen"] == 0


@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
def test_a_preflight_from_elsewhere_gets_no_permission(gateway: GatewayProcess, origin: str) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    with gateway.get("/v1/chat/completions", method="OPTIONS", headers=headers) as call:
        assert call.status in {403, 405}
        assert call.header("access-control-allow-origin") is None
        call.read()


def test_hosts_and_origins_in_the_settings_are_let_in(friendly: GatewayProcess) -> None:
    with models(friendly, Host="lumbre.example") as call:
        assert call.status == 200
        call.read()
    with models(friendly, Origin=FRIEND) as call:
        assert call.status == 200
        assert call.header("access-control-allow-origin") == FRIEND
        call.read()
    with models(friendly, Origin="https://other.example") as call:
        assert call.status == 403
        call.read()


def test_a_friendly_page_may_send_json_after_its_preflight(friendly: GatewayProcess) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    with friendly.get("/v1/chat/completions", method="OPTIONS", headers={"Origin": FRIEND, **asks}) as call:
        assert call.status in {200, 204}
        assert call.header("access-control-allow-origin") == FRIEND
        assert "POST" in (call.header("access-control-allow-methods") or "")
        assert "content-type" in (call.header("access-control-allow-headers") or "").lower()
        call.read()


def key_of(gateway: GatewayProcess) -> str:
    """The key as it was shown: in a JSON event."""
    keys = {event["key"] for event in gateway.events if event.get("key")}
    assert len(keys) == 1, gateway.events
    key: str = keys.pop()
    return key


def test_beyond_loopback_nobody_is_served_without_the_key(exposed: GatewayProcess, rogue: RogueProcess) -> None:
    key = key_of(exposed)
    wrong: list[dict[str, Any]] = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": key}]
    for headers in wrong:
        with Call(f"{loopback(exposed)}/v1/chat/completions", {"model": "rogue"}, headers) as call:
            assert call.status == 401
            assert call.error()["code"] == "invalid_api_key"
    assert rogue.log()["seen"] == 0
    with models(exposed, Authorization=f"Bearer {key}") as call:
        assert call.status == 200
        call.read()


def test_the_key_is_kept_hashed_and_shown_once(open_gateway: Opener) -> None:
    first = open_gateway(arguments=("--host", "0.0.0.0")).ready()
    key = key_of(first)
    assert len(key) >= 32
    kept = b"".join(path.read_bytes() for path in first.state_dir.rglob("*") if path.is_file())
    assert key.encode() not in kept
    assert (json.dumps(first.events) + first.stderr).count(key) == 1
    first.terminate()
    assert first.wait_for_end(10) == 0
    again = open_gateway(arguments=("--host", "0.0.0.0"), state_dir=first.state_dir).ready()
    assert not [event for event in again.events if event.get("key")]
    with models(again, Authorization=f"Bearer {key}") as call:
        assert call.status == 200
        call.read()


def test_files_in_the_state_folder_are_for_their_owner_alone(exposed: GatewayProcess) -> None:
    def open_to_others(path: Path) -> bool:
        return bool(path.stat().st_mode & 0o077)

    assert not open_to_others(exposed.state_dir)


def test_the_engine_never_sees_the_key(exposed: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    key = key_of(exposed)
    asked = {"model": "rogue", "messages": [{"role": "user", "content": "hi"}], "rogue": {"id": name}}
    with Call(f"{loopback(exposed)}/v1/chat/completions", asked, {"Authorization": f"Bearer {key}"}) as call:
        assert call.status == 200
        call.read()
    assert not re.search(key, json.dumps(rogue.find(name)))
