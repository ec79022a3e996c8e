"""The program `lumbre` itself: help, languages, usage errors, completion, speed."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lumbre_process import DEADLINE_S, Lumbre

COMMANDS = (
    (),
    ("up",),
    ("chat",),
    ("status",),
    ("switch",),
    ("policy",),
    ("explain",),
    ("nodes",),
    ("ledger",),
    ("doctor",),
    ("models",),
    ("models", "list"),
    ("models", "pull"),
    ("models", "rm"),
    ("config",),
    ("config", "check"),
    ("config", "show"),
)


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


def test_help_names_every_command_and_no_message_id(lumbre: Lumbre) -> None:
    done = lumbre.run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name in (
        "up",
        "chat",
        "status",
        "switch",
        "policy",
        "explain",
        "nodes",
        "ledger",
        "doctor",
        "models",
        "config",
    ):
        assert f"\n  {name} " in done.stdout
    assert ".help" not in done.stdout


def test_without_a_command_the_help_is_shown(lumbre: Lumbre) -> None:
    assert lumbre.run().stdout == lumbre.run("--help").stdout


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
def test_no_help_page_is_left_in_english_when_spanish_is_asked(lumbre: Lumbre, command: tuple[str, ...]) -> None:
    done = lumbre.run(*command, "--help", LANG="es_ES.UTF-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Uso: lumbre")
    assert "Muestra esta ayuda y termina." in done.stdout
    for english in ("Usage", "Options", "Commands", "Arguments", "Show this", "[default", "[required]", ".help"):
        assert english not in done.stdout


def test_lang_wins_over_the_environment_wherever_it_stands(lumbre: Lumbre) -> None:
    spanish, english = "Comprueba y muestra", "Check and show"
    assert spanish in lumbre.run("--lang", "es", "config", "--help", LANG="en_US.UTF-8").stdout
    assert spanish in lumbre.run("config", "--help", "--lang=es").stdout
    assert english in lumbre.run("config", "--help", "--lang", "en", LANG="es_ES.UTF-8").stdout
    assert spanish in lumbre.run("config", "--help", LC_ALL="es_MX.UTF-8", LANG="en_US.UTF-8").stdout


def test_a_language_that_is_not_there_is_a_usage_error(lumbre: Lumbre) -> None:
    done = lumbre.run("status", "--lang", "fr")
    assert (done.returncode, done.stdout) == (2, "")
    assert "en or es" in done.stderr


@pytest.mark.parametrize(
    ("line", "spanish"),
    [
        (("status", "--ulr", "x"), "no existe la opción --ulr"),
        (("stats",), "no existe la orden «stats»"),
        (("models", "pull"), "falta el argumento «NAME»"),
        (("models",), "falta la orden"),
        (("up", "--port", "x"), "valor no válido para «--port»: tiene que ser un número entero"),
        (("up", "--port", "70000"), "valor no válido para «--port»: tiene que ser como mucho 65535"),
        (("chat", "--url"), "la opción «--url» pide un valor"),
        (("status", "--json=x"), "la opción «--json» no admite valor"),
        (("status", "a", "b"), "sobran argumentos: a b"),
    ],
)
def test_a_wrong_command_line_is_exit_2_and_told_in_spanish(
    lumbre: Lumbre, line: tuple[str, ...], spanish: str
) -> None:
    done = lumbre.run(*line, LANG="es_ES.UTF-8")
    assert (done.returncode, done.stdout) == (2, "")
    assert spanish in done.stderr
    assert "Uso: lumbre" in done.stderr or "--url" in line or "--json=x" in line
    assert "Traceback" not in done.stderr


def test_a_wrong_command_line_in_english_points_at_the_help(lumbre: Lumbre) -> None:
    done = lumbre.run("stauts")
    assert done.returncode == 2
    assert "No such command 'stauts'" in done.stderr
    assert "'status'" in done.stderr
    assert "lumbre --help" in done.stderr


def test_a_usage_error_is_an_object_too_when_json_is_asked(lumbre: Lumbre) -> None:
    done = lumbre.run("status", "--json", "--ulr", "x")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "usage"
    assert "--ulr" in done.stderr


def test_version_is_the_packages(lumbre: Lumbre) -> None:
    from lumbre import __version__

    assert lumbre.run("--version").stdout == f"lumbre {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_the_shell_that_is_named(lumbre: Lumbre, shell: str) -> None:
    done = lumbre.run("--show-completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_LUMBRE_COMPLETE" in done.stdout


def test_completion_is_installed_into_the_home(lumbre: Lumbre) -> None:
    done = lumbre.run("--install-completion", "bash")
    assert done.returncode == 0
    assert any(path.is_file() and "lumbre" in path.read_text() for path in lumbre.home.rglob("*"))


def test_completion_offers_the_commands(lumbre: Lumbre) -> None:
    done = lumbre.run(_LUMBRE_COMPLETE="complete_bash", COMP_WORDS="lumbre st", COMP_CWORD="1")
    assert done.stdout.split() == ["status"]


def test_a_reader_that_goes_away_brings_no_traceback(lumbre: Lumbre) -> None:
    line = f"{' '.join(lumbre.command('config', 'show'))} | true"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=lumbre.variables(),
        cwd=lumbre.home,
        check=False,
    )
    assert done.stderr == ""


def test_help_loads_nothing_heavy() -> None:
    heavy = "{'asyncio', 'http.client', 'httptools', 'psutil', 'pydantic', 'rich', 'ssl', 'starlette', 'uvloop'}"
    code = f"import sys, lumbre.cli.main as main; main.build_app('es'); print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_help_comes_within_a_quarter_of_a_second(lumbre: Lumbre) -> None:
    lumbre.run("--help")  # the first run may have to write bytecode

    def once_s() -> float:
        started = time.perf_counter()
        lumbre.run("--help")
        return time.perf_counter() - started

    # The fastest of several: what the program needs, whatever else the machine is doing.
    assert min(once_s() for _ in range(7)) <= 0.25
