"""`lumbre up` as a person meets it: a first question, lines to paste, an engine that already runs, refusals."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest
from lumbre_process import DEADLINE_S, Lumbre

OLLAMA_PORT = 11434
ANSWER_S = 90
OLLAMA_PAGES = {
    "/v1/models": {"object": "list", "data": [{"id": "llama3.2:latest", "object": "model", "owned_by": "library"}]},
    "/api/version": {"version": "0.9.0"},
}


class Ollama(BaseHTTPRequestHandler):
    """Answers what discovery and the probes ask of an Ollama."""

    def do_GET(self) -> None:
        page = OLLAMA_PAGES.get(self.path)
        raw = json.dumps(page).encode()
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def ollama() -> Iterator[None]:
    """An Ollama at its usual port; one that really runs there does as well."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", OLLAMA_PORT), Ollama))
        except OSError:
            yield
            return
        thread = Thread(target=server.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        yield


@pytest.fixture
def lumbre(tmp_path: Path, models_cache: Path, smollm2_path: Path) -> Lumbre:
    """A fresh home; the model alone is where the other tests have it."""
    assert smollm2_path.exists()
    return Lumbre(tmp_path, {"LUMBRE_MODELS_CACHE_DIR": str(models_cache)})


class Terminal:
    """`lumbre up` on a terminal of its own."""

    def __init__(self, lumbre: Lumbre, *words: str, **variables: str) -> None:
        self._mine, theirs = pty.openpty()
        command = lumbre.command("up", "--port", "0", *words)
        environ = {**lumbre.variables(**variables), "TERM": "xterm", "COLUMNS": "200"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=lumbre.home, env=environ, start_new_session=True
        )
        os.close(theirs)
        self.text = ""

    def read_until(self, mark: str) -> str:
        """Read until a text has come; return all that came so far."""
        until = time.monotonic() + ANSWER_S
        while mark not in self.text:
            assert time.monotonic() < until, f"no {mark!r} in {self.text!r}"
            if select.select([self._mine], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._mine, 65_536).decode().replace("\r\n", "\n")
                except OSError:
                    raise AssertionError(f"it ended without {mark!r}: {self.text!r}") from None
        return self.text

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def interrupt(self) -> int:
        """Ctrl-C; its exit status."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(DEADLINE_S)
        os.close(self._mine)
        return status


@pytest.fixture
def terminal_of(lumbre: Lumbre) -> Iterator[list[Terminal]]:
    """Terminals that are closed whatever happens."""
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait(DEADLINE_S)


def test_the_first_question_is_answered_and_the_lines_to_paste_work(
    lumbre: Lumbre, terminal_of: list[Terminal]
) -> None:
    terminal = Terminal(lumbre, "--use", "embedded", "--ask", "Why is the sky blue?")
    terminal_of.append(terminal)
    shown = terminal.read_until("Ctrl-C stops.")
    answer = shown.partition("> Why is the sky blue?")[2].partition("Try it:")[0]
    assert "light" in answer

    curl = re.search(r"^  (curl .*?\n.*?'\{.*?\}')$", shown, re.MULTILINE | re.DOTALL)
    assert curl is not None, shown
    done = subprocess.run(["/bin/sh", "-c", curl[1]], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"]

    python = shown.partition("  from openai")[2].partition("\n\n")[0]
    script = "\n".join(line.strip() for line in ("from openai" + python).splitlines())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip()

    done_chat = lumbre.run("chat", "Say hello.", "--max-tokens", "8")
    assert done_chat.returncode == 0, done_chat.stderr
    assert done_chat.stdout.strip()
    assert lumbre.run("status").returncode == 0
    assert terminal.interrupt() == 130
    assert lumbre.run("status").returncode == 4


def test_ctrl_c_while_the_engine_boots_leaves_nothing(lumbre: Lumbre, terminal_of: list[Terminal]) -> None:
    terminal = Terminal(lumbre, "--use", "embedded")
    terminal_of.append(terminal)
    terminal.read_until("listens on")
    children = psutil.Process(terminal.process.pid).children(recursive=True)
    assert terminal.interrupt() == 130
    assert not any(child.is_running() for child in children)


def test_an_engine_that_runs_is_offered_and_taken_on_yes(
    lumbre: Lumbre, ollama: None, terminal_of: list[Terminal]
) -> None:
    terminal = Terminal(lumbre)
    terminal_of.append(terminal)
    terminal.read_until("Use Ollama instead of the embedded engine? [y/N] ")
    terminal.type("y\n")
    assert "llama3.2" in terminal.read_until("Ready. Models:") + terminal.read_until("\n")
    assert terminal.interrupt() == 130


def test_the_offer_speaks_spanish_and_no_means_the_embedded_engine(
    lumbre: Lumbre, ollama: None, terminal_of: list[Terminal]
) -> None:
    terminal = Terminal(lumbre, LANG="es_ES.UTF-8")
    terminal_of.append(terminal)
    terminal.read_until("¿Usar Ollama en lugar del motor incorporado? [s/N] ")
    terminal.type("n\n")
    assert "smollm2-135m-instruct" in terminal.read_until("Listo. Modelos: smollm2")
    assert terminal.interrupt() == 130


def up_json(lumbre: Lumbre, *words: str) -> Iterator[dict[str, object]]:
    """The events of `lumbre up --json`; it is stopped when the reader stops."""
    command = lumbre.command("up", "--port", "0", "--json", *words)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=lumbre.home, env=lumbre.variables(), text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def test_without_a_terminal_the_engine_is_named_and_not_taken(lumbre: Lumbre, ollama: None) -> None:
    events = up_json(lumbre)
    first = next(events)
    assert (first["event"], first["kind"]) == ("engine_found", "ollama")
    ready = next(event for event in events if event["event"] == "ready")
    events.close()  # type: ignore[attr-defined]
    assert ready["models"] == ["smollm2-135m-instruct"]


def test_use_takes_a_running_engine_without_a_question(lumbre: Lumbre, ollama: None) -> None:
    events = up_json(lumbre, "--use", "ollama")
    ready = next(event for event in events if event["event"] == "ready")
    events.close()  # type: ignore[attr-defined]
    assert "llama3.2" in str(ready["models"])


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("--use", "vllm"), 1, "no vllm answers on 127.0.0.1:8000"),
        (("--use", "abacus"), 2, "--use takes one of embedded"),
        (("--backend", "steam"), 3, "tier_a.backend"),
        (("--model", "gpt-4"), 1, "smollm2-135m-instruct"),
        (("--model", "./nothing.gguf"), 1, "nothing.gguf"),
        (("--prot", "1"), 2, "--port"),
        (("--port", "70000"), 2, "65535"),
        (("--host", "192.0.2.1"), 1, "cannot listen on 192.0.2.1"),
    ],
)
def test_what_cannot_start_says_why_and_how_to_go_on(
    lumbre: Lumbre, words: tuple[str, ...], status: int, reason: str
) -> None:
    done = lumbre.run("up", *words)
    assert done.returncode == status
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_told(lumbre: Lumbre) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = lumbre.run("up", "--use", "embedded", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "--port" in done.stderr
