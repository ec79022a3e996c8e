"""`lumbre config check` and `config show`."""

import json
from pathlib import Path

import pytest
from lumbre_process import Lumbre


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


def write(lumbre: Lumbre, text: str) -> None:
    (lumbre.home / "lumbre.toml").write_text(text, encoding="utf-8")


def test_check_names_the_file_that_is_well(lumbre: Lumbre) -> None:
    write(lumbre, "[tier_a]\nslots = 3\n")
    done = lumbre.run("config", "check")
    assert (done.returncode, done.stdout) == (0, "ok: lumbre.toml\n")


def test_check_without_a_file_says_so(lumbre: Lumbre) -> None:
    done = lumbre.run("config", "check")
    assert done.returncode == 0
    assert "no settings file" in done.stdout


def test_check_names_the_wrong_line(lumbre: Lumbre) -> None:
    write(lumbre, "[tier_a]\n\nslot = 3\n")
    done = lumbre.run("config", "check")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == ("lumbre: lumbre.toml:3: tier_a.slot: there is no such setting; did you mean slots?\n")


def test_check_speaks_spanish_and_json_about_what_is_wrong(lumbre: Lumbre) -> None:
    write(lumbre, "[tier_a]\nslots = 0\n")
    done = lumbre.run("config", "check", "--json", "--lang", "es")
    assert done.returncode == 3
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "bad_settings"
    assert error["message"] == "lumbre.toml:2: tier_a.slots: hay 0, pero tiene que ser al menos 1"


def test_check_takes_the_file_that_is_named(lumbre: Lumbre) -> None:
    (lumbre.home / "other.toml").write_text("[gateway\n")
    done = lumbre.run("config", "check", "other.toml")
    assert done.returncode == 3
    assert done.stderr.startswith("lumbre: other.toml:1:")


def test_a_file_that_is_not_there_is_exit_3(lumbre: Lumbre) -> None:
    done = lumbre.run("config", "check", "none.toml")
    assert done.returncode == 3
    assert "none.toml" in done.stderr


def test_show_tells_values_with_their_sources(lumbre: Lumbre) -> None:
    write(lumbre, "[tier_a]\nslots = 3\n")
    done = lumbre.run("config", "show", LUMBRE_DEADLINES_TOTAL_S="7")
    rows = {tuple(line.split()) for line in done.stdout.splitlines()}
    assert done.returncode == 0
    assert ("tier_a.slots", "=", "3", "#", "lumbre.toml:2") in rows
    assert ("deadlines.total_s", "=", "7.0", "#", "LUMBRE_DEADLINES_TOTAL_S") in rows
    assert ("gateway.port", "=", "8484", "#", "default") in rows


def test_show_never_shows_a_secret(lumbre: Lumbre) -> None:
    write(
        lumbre,
        '[tier_a]\nbackend = "openai"\ncommand = ["x", "--api-key", "sk-one", "--hf-token=sk-two", "{port}"]\n'
        '[[tier_a.upstreams]]\nid = "a"\nbase_url = "http://me:sk-three@127.0.0.1:1/v1"\n'
        'api_key_env = "sk-four"\n',
    )
    for arguments in ((), ("--json",)):
        done = lumbre.run("config", "show", *arguments)
        assert done.returncode == 0
        assert "sk-" not in done.stdout
        assert "{port}" in done.stdout
