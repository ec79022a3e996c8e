"""`lumbre status` against a gateway over loopback."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from lumbre_process import Answer, Lumbre, gateway

READY = {
    "ready": True,
    "tiers": {
        "A": {
            "state": "degraded",
            "reasons": ["upstream spare is down"],
            "upstreams": [
                {"id": "main", "state": "ready", "in_flight": 2, "waiting": 1, "slots": 4},
                {"id": "spare", "state": "down", "in_flight": 0, "waiting": 0, "slots": 4},
            ],
        },
        "B": {"state": "off", "reasons": []},
    },
    "warnings": ["mesh_one_failure_from_outage"],
}


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


def answers(ready: dict[str, object], status: int = 200) -> dict[str, Answer]:
    return {
        "/readyz": lambda exchange: exchange.reply(ready, status),
        "/healthz": lambda exchange: exchange.reply({"alive": True}),
        "/v1/models": lambda exchange: exchange.reply({"object": "list", "data": [{"id": "smollm2"}]}),
    }


def test_status_shows_tiers_reasons_upstreams_and_models(lumbre: Lumbre) -> None:
    with gateway(answers(READY)) as stub:
        done = lumbre.run("status", "--url", stub.url)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["A", "degraded", "upstream", "spare", "is", "down"] in rows
    assert ["B", "off", "-"] in rows
    assert ["main", "A", "ready", "-", "2", "1", "4"] in rows
    assert ["spare", "A", "down", "-", "0", "0", "4"] in rows
    assert "models: smollm2" in done.stdout
    assert "mesh_one_failure_from_outage" in done.stdout


def test_status_speaks_spanish(lumbre: Lumbre) -> None:
    with gateway(answers(READY)) as stub:
        done = lumbre.run("--lang", "es", "status", "--url", stub.url)
    assert "está lista" in done.stdout
    assert ["A", "mermado"] in [line.split()[:2] for line in done.stdout.splitlines()]


def test_status_as_json_is_one_object(lumbre: Lumbre) -> None:
    with gateway(answers(READY)) as stub:
        done = lumbre.run("status", "--json", "--url", stub.url)
    facts = json.loads(done.stdout)
    assert facts["ready"] is True
    assert facts["alive"] is True
    assert facts["tiers"] == READY["tiers"]
    assert facts["models"] == ["smollm2"]


def test_a_gateway_that_cannot_serve_is_exit_1(lumbre: Lumbre) -> None:
    down: dict[str, object] = {"ready": False, "tiers": {"A": {"state": "starting", "reasons": ["boot"]}}}
    with gateway(answers(down, 503)) as stub:
        done = lumbre.run("status", "--url", stub.url)
    assert done.returncode == 1
    assert "cannot serve now" in done.stdout


def test_nobody_at_the_address_is_exit_4_with_the_way_out(lumbre: Lumbre) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = lumbre.run("status", "--url", url)
        as_json = lumbre.run("status", "--url", url, "--json")
    assert (done.returncode, done.stdout) == (4, "")
    assert "lumbre up" in done.stderr
    assert as_json.returncode == 4
    assert json.loads(as_json.stdout)["error"]["code"] == "gateway_unreachable"


def test_what_a_key_is_wanted_for_is_said_to_be_hidden(lumbre: Lumbre) -> None:
    refusal = {"error": {"message": "a key is needed", "code": "invalid_api_key"}}
    hidden: dict[str, Answer] = {
        path: lambda exchange: exchange.reply(refusal, 401) for path in ("/v1/models", "/v1/flow")
    }
    with gateway({**answers(READY), **hidden}) as stub:
        done = lumbre.run("status", "--url", stub.url)
        facts = json.loads(lumbre.run("status", "--url", stub.url, "--json").stdout)
    assert done.returncode == 0
    assert "policy, switches and budget: hidden without a key" in done.stdout
    assert "models: hidden without a key" in done.stdout
    assert facts["flow"] is None


def test_a_gateway_without_the_flow_is_shown_as_far_as_it_says(lumbre: Lumbre) -> None:
    with gateway(answers(READY)) as stub:
        done = lumbre.run("status", "--url", stub.url)
        facts = json.loads(lumbre.run("status", "--url", stub.url, "--json").stdout)
    assert not [word for word in ("policy", "switch", "today", "hidden") if word in done.stdout]
    assert (facts["flow"], facts["flow_status"]) == (None, 404)


def test_a_problem_is_told_once_and_money_to_the_last_micro_dollar(lumbre: Lumbre) -> None:
    flow = {
        "policy": {"policy": "balanced", "until": None, "default": "balanced"},
        "switches": [],
        "budget": {"limit_microusd": None, "spent_microusd": 17, "reserved_microusd": 0},
        "problems": ["mesh_one_failure_from_outage", "flow.json is gone"],
    }
    with gateway({**answers(READY), "/v1/flow": lambda exchange: exchange.reply(flow)}) as stub:
        done = lumbre.run("status", "--url", stub.url)
    assert done.stdout.count("mesh_one_failure_from_outage") == 1
    assert "warning: flow.json is gone" in done.stdout
    assert "today: 0.000017 USD spent and 0.00 USD reserved, of no limit" in done.stdout


def test_a_web_server_that_is_no_lumbre_is_said_to_be_none(lumbre: Lumbre) -> None:
    with gateway({}) as stub:
        done = lumbre.run("status", "--url", stub.url)
    assert done.returncode == 4
    assert "is no Lumbre" in done.stderr


def test_a_server_that_does_not_speak_http_is_exit_4(lumbre: Lumbre) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-x\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        done = lumbre.run("status", "--url", f"http://127.0.0.1:{port}")
        thread.join(30)
    assert done.returncode == 4
    assert "is no gateway" in done.stderr


def test_an_address_that_is_none_names_where_it_came_from(lumbre: Lumbre) -> None:
    done = lumbre.run("status", LUMBRE_URL="ftp://x")
    assert done.returncode == 3
    assert "LUMBRE_URL" in done.stderr


def test_the_gateway_that_runs_is_found_by_its_state_folder(lumbre: Lumbre) -> None:
    state = lumbre.home / ".local/state/lumbre"
    state.mkdir(parents=True)
    with gateway(answers(READY)) as stub:
        running = {"url": stub.url, "pid": os.getpid(), "started_at": "2026-01-01T00:00:00Z"}
        (state / "gateway.json").write_text(json.dumps(running))
        done = lumbre.run("status")
    assert done.returncode == 0
    assert stub.url in done.stdout


def test_a_stale_state_file_is_passed_over_for_the_settings(lumbre: Lumbre) -> None:
    state = lumbre.home / ".local/state/lumbre"
    state.mkdir(parents=True)
    (state / "gateway.json").write_text('{"url": "http://127.0.0.1:1", "pid": 4194305}')
    with gateway(answers(READY)) as stub:
        (lumbre.home / "lumbre.toml").write_text(f"[gateway]\nport = {stub.url.rpartition(':')[2]}\n")
        done = lumbre.run("status")
    assert done.returncode == 0
