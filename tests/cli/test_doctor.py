"""`lumbre doctor` on this machine, with what can be made bad made bad."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from lumbre_process import Lumbre, gateway


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


def checks(lumbre: Lumbre, settings: str = "", **environ: str) -> tuple[int, dict[str, dict[str, Any]]]:
    (lumbre.home / "lumbre.toml").write_text(settings)
    done = lumbre.run("doctor", "--json", **environ)
    assert "Traceback" not in done.stderr
    return done.returncode, {check["id"]: check for check in json.loads(done.stdout)["checks"]}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_doctor_tells_about_every_part_and_what_to_do(lumbre: Lumbre) -> None:
    code, found = checks(lumbre, f"[gateway]\nport = {free_port()}\n")
    expected = {
        "python",
        "platform",
        "cpu",
        "settings",
        "gpu",
        "model",
        "memory",
        "disk_cache",
        "disk_state",
        "port",
        "engines",
    }
    assert expected <= found.keys()
    assert found["model"]["verdict"] == "warn"
    assert "lumbre models pull smollm2-135m-instruct" in found["model"]["way_out"]
    assert code == (1 if any(check["verdict"] == "bad" for check in found.values()) else 0)
    assert code == 0


def test_doctor_speaks_spanish_to_people(lumbre: Lumbre) -> None:
    done = lumbre.run("doctor", "--lang", "es")
    assert "procesador:" in done.stdout
    assert "→ `lumbre up` lo trae" in done.stdout


def test_wrong_settings_are_bad_and_named(lumbre: Lumbre) -> None:
    code, found = checks(lumbre, "[tier_a]\nslots = 0\n")
    assert code == 1
    assert found["settings"]["verdict"] == "bad"
    assert found["settings"]["text"].startswith("lumbre.toml:2: tier_a.slots")


def test_a_port_that_another_program_holds_is_bad(lumbre: Lumbre) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, found = checks(lumbre, f"[gateway]\nport = {other.getsockname()[1]}\n")
    assert code == 1
    assert found["port"]["verdict"] == "bad"
    assert "--port" in found["port"]["way_out"]


def test_a_port_that_a_lumbre_holds_is_well(lumbre: Lumbre) -> None:
    with gateway({"/readyz": lambda exchange: exchange.reply({"ready": True, "tiers": {}})}) as stub:
        _, found = checks(lumbre, f"[gateway]\nport = {stub.url.rpartition(':')[2]}\n")
    assert found["port"]["verdict"] == "ok"
    assert "a Lumbre is running" in found["port"]["text"]


def test_a_model_that_is_no_file_is_bad(lumbre: Lumbre) -> None:
    code, found = checks(lumbre, '[tier_a]\nmodel = "/nowhere/x.gguf"\n')
    assert code == 1
    assert found["model"]["verdict"] == "bad"


def test_a_command_that_is_not_here_is_bad(lumbre: Lumbre) -> None:
    settings = '[tier_a]\nbackend = "command"\ncommand = ["no-such-server", "--port", "{port}"]\n'
    code, found = checks(lumbre, settings)
    assert code == 1
    assert found["command"]["verdict"] == "bad"
    assert "memory" not in found


def test_an_upstream_whose_key_is_not_set_is_bad(lumbre: Lumbre) -> None:
    settings = (
        '[tier_a]\nbackend = "openai"\n[[tier_a.upstreams]]\nid = "a"\nbase_url = "http://127.0.0.1:1/v1"\n'
        'api_key_env = "A_KEY"\n'
    )
    assert checks(lumbre, settings)[1]["upstream"]["verdict"] == "bad"
    assert checks(lumbre, settings, A_KEY="x")[1]["upstream"]["verdict"] == "ok"
