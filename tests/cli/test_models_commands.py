"""`lumbre models` at the shell; the store behind it has its own tests."""

import json
from pathlib import Path

import pytest
from lumbre_process import Lumbre


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


def test_list_shows_the_known_models_and_that_they_are_not_here(lumbre: Lumbre) -> None:
    done = lumbre.run("models", "list")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["smollm2-135m-instruct", "98.4", "MB", "Apache-2.0", "no"] in rows
    as_json = json.loads(lumbre.run("models", "list", "--json").stdout)
    assert {model["name"]: model["present"] for model in as_json["models"]} == {
        "smollm2-135m-instruct": False,
        "gemma-3-270m": False,
    }


def test_a_name_that_means_nothing_is_told_with_the_known_ones(lumbre: Lumbre) -> None:
    done = lumbre.run("models", "pull", "smollm3")
    assert done.returncode in {1, 3}
    assert "smollm2-135m-instruct" in done.stderr
    assert "Traceback" not in done.stderr


def test_pulling_a_path_says_where_it_is(lumbre: Lumbre) -> None:
    file = lumbre.home / "own.gguf"
    file.write_bytes(b"GGUF" + bytes(64))
    done = lumbre.run("models", "pull", str(file), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["path"] == str(file)


def test_rm_without_a_person_to_ask_needs_yes(lumbre: Lumbre) -> None:
    done = lumbre.run("models", "rm", "smollm2-135m-instruct")
    assert done.returncode == 1
    assert "--yes" in done.stderr


def test_rm_of_what_is_not_here_is_exit_1(lumbre: Lumbre) -> None:
    done = lumbre.run("models", "rm", "smollm2-135m-instruct", "--yes", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "model_absent"
