"""`lumbre chat` against a gateway over loopback: one question, a talk, and everything that can break in between."""

import contextlib
import json
import os
import pty
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lumbre_process import DEADLINE_S, Exchange, Lumbre, delta, gateway

CHAT = "/v1/chat/completions"


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


def say_hola(exchange: Exchange) -> None:
    exchange.stream(": keep-alive", delta("¡Ho"), delta("la!"), delta("", "stop"), "data: [DONE]")
    exchange.end()


def test_a_question_as_an_argument_is_answered_on_stdout(lumbre: Lumbre) -> None:
    with gateway({CHAT: say_hola}) as stub:
        done = lumbre.run("chat", "Hi", "--url", stub.url, "--system", "Be brief", "--max-tokens", "9")
    assert (done.returncode, done.stdout, done.stderr) == (0, "¡Hola!\n", "")
    path, _, body = stub.asked[0]
    assert path == CHAT
    assert body == {
        "model": "auto",
        "messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}],
        "max_tokens": 9,
        "stream": True,
    }


def test_a_question_that_is_piped_in_is_answered(lumbre: Lumbre) -> None:
    with gateway({CHAT: say_hola}) as stub:
        done = lumbre.run("chat", stdin="From a pipe\n", LUMBRE_URL=stub.url + "/v1/", LUMBRE_KEY="k1")
    assert (done.returncode, done.stdout) == (0, "¡Hola!\n")
    _, headers, body = stub.asked[0]
    assert headers["Authorization"] == "Bearer k1"
    assert body["messages"] == [{"role": "user", "content": "From a pipe\n"}]


def test_json_prints_the_whole_reply_object(lumbre: Lumbre) -> None:
    whole = {"id": "x", "choices": [{"message": {"content": "Hola"}}], "vendor": [1]}
    with gateway({CHAT: lambda exchange: exchange.reply(whole)}) as stub:
        done = lumbre.run("chat", "Hi", "--json", "--url", stub.url)
    assert done.returncode == 0
    assert json.loads(done.stdout) == whole
    assert "stream" not in stub.asked[0][2]


def test_tokens_are_printed_as_they_come(lumbre: Lumbre) -> None:
    seen = threading.Event()

    def pause(exchange: Exchange) -> None:
        exchange.stream(delta("first"))
        assert seen.wait(DEADLINE_S)
        exchange.stream(delta(" second", "stop"), "data: [DONE]")
        exchange.end()

    with gateway({CHAT: pause}) as stub:
        process = subprocess.Popen(
            lumbre.command("chat", "Hi", "--url", stub.url), stdout=subprocess.PIPE, env=lumbre.variables()
        )
        assert process.stdout is not None
        assert process.stdout.read(5) == b"first"
        seen.set()
        rest, _ = process.communicate(timeout=DEADLINE_S)
    assert (rest, process.returncode) == (b" second\n", 0)


def test_an_error_event_in_mid_stream_is_an_error(lumbre: Lumbre) -> None:
    def breaks(exchange: Exchange) -> None:
        error = {"error": {"message": "the engine died", "code": "engine_failed"}}
        exchange.stream(delta("half"), f"event: error\ndata: {json.dumps(error)}")
        exchange.end()

    with gateway({CHAT: breaks}) as stub:
        done = lumbre.run("chat", "Hi", "--url", stub.url)
    assert (done.returncode, done.stdout, done.stderr) == (1, "half\n", "lumbre: the engine died\n")


def test_a_stream_without_its_end_is_an_error(lumbre: Lumbre) -> None:
    with gateway({CHAT: lambda exchange: exchange.stream(delta("half"))}) as stub:
        done = lumbre.run("chat", "Hi", "--url", stub.url)
    assert (done.returncode, done.stdout) == (1, "half\n")
    assert done.stderr == "lumbre: the answer was cut off before its end\n"


def test_an_engine_that_says_why_it_ends_and_sends_no_done_is_believed(lumbre: Lumbre) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.stream(delta("Hi"), delta("", "stop"))
        exchange.end()

    with gateway({CHAT: answer}) as stub:
        done = lumbre.run("chat", "Hi", "--url", stub.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hi\n", "")


@pytest.mark.parametrize(
    ("status", "code", "exit_code"), [(429, "saturated", 1), (503, "no_route", 5), (404, "model_not_found", 1)]
)
def test_a_refusal_is_told_in_the_gateways_words(lumbre: Lumbre, status: int, code: str, exit_code: int) -> None:
    refusal = {"error": {"message": "not today", "code": code}}
    with gateway({CHAT: lambda exchange: exchange.reply(refusal, status)}) as stub:
        done = lumbre.run("chat", "Hi", "--url", stub.url)
        as_json = lumbre.run("chat", "Hi", "--json", "--url", stub.url)
    assert (done.returncode, done.stdout, done.stderr) == (exit_code, "", "lumbre: not today\n")
    assert as_json.returncode == exit_code
    assert json.loads(as_json.stdout) == {"error": {"code": code, "message": "not today"}}
    assert as_json.stderr == "lumbre: not today\n"


def test_a_missing_key_says_how_to_give_one(lumbre: Lumbre) -> None:
    refusal = {"error": {"message": "a key is needed", "code": "invalid_api_key"}}
    with gateway({CHAT: lambda exchange: exchange.reply(refusal, 401)}) as stub:
        done = lumbre.run("chat", "Hi", "--url", stub.url)
    assert done.returncode == 1
    assert "LUMBRE_KEY" in done.stderr


def test_nobody_at_the_address_is_exit_4(lumbre: Lumbre) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        done = lumbre.run("chat", "Hi", "--url", f"127.0.0.1:{taken.getsockname()[1]}", LANG="es_ES.UTF-8")
    assert (done.returncode, done.stdout) == (4, "")
    assert "ninguna pasarela responde" in done.stderr


def test_an_empty_question_is_a_usage_error(lumbre: Lumbre) -> None:
    done = lumbre.run("chat", stdin="  \n")
    assert done.returncode == 2
    assert "the question is empty" in done.stderr


def test_a_cut_answer_says_that_it_reached_its_length(lumbre: Lumbre) -> None:
    def long(exchange: Exchange) -> None:
        exchange.stream(delta("One two", "length"), "data: [DONE]")
        exchange.end()

    with gateway({CHAT: long}) as stub:
        done = lumbre.run("chat", "Hi", "--url", stub.url)
    assert (done.returncode, done.stdout) == (0, "One two\n")
    assert "longest length" in done.stderr


class Terminal:
    """A person at a terminal: types, and reads until something appears."""

    def __init__(self, lumbre: Lumbre, *words: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(lumbre.home)
            command = lumbre.command(*words)
            os.execve(command[0], command, lumbre.variables(TERM="dumb"))  # noqa: S606 as a terminal does
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def read_until(self, text: str) -> str:
        """Everything up to a text; what comes after it is kept for the next call."""
        while text not in self.screen:
            ready, _, _ = select.select([self.fd], [], [], DEADLINE_S)
            assert ready, f"waited for {text!r}, saw {self.screen!r}"
            self.screen += os.read(self.fd, 4096).decode()
        before, _, self.screen = self.screen.partition(text)
        return before

    def insist(self, keys: str, text: str) -> str:
        """Type until something appears: a Ctrl-C between showing a prompt and waiting for it waits for the next key."""
        for _ in range(DEADLINE_S):
            self.type(keys)
            if self.screen or select.select([self.fd], [], [], 1)[0]:
                break
        return self.read_until(text)

    def exit_code(self) -> int:
        """The status after the end; the terminal is drained, or the child could not finish writing."""
        with contextlib.suppress(OSError):  # Linux says EIO when the last process has left a terminal
            while select.select([self.fd], [], [], DEADLINE_S)[0] and os.read(self.fd, 4096):
                pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_a_talk_remembers_until_it_is_told_to_forget(lumbre: Lumbre, terminals: list[Terminal]) -> None:
    with gateway({CHAT: say_hola}) as stub:
        terminal = Terminal(lumbre, "chat", "--url", stub.url)
        terminals.append(terminal)
        for line in ("one", "two", "/new", "three", "/exit"):
            terminal.read_until("> ")
            terminal.type(f"{line}\n")
        assert terminal.exit_code() == 0
    said = [[message["content"] for message in body["messages"]] for _, _, body in stub.asked]
    assert said == [["one"], ["one", "¡Hola!", "two"], ["three"]]


def test_ctrl_c_stops_the_answer_hangs_up_and_the_talk_goes_on(lumbre: Lumbre, terminals: list[Terminal]) -> None:
    hung_up = threading.Event()

    def endless(exchange: Exchange) -> None:
        if len(exchange.body["messages"]) > 1:
            say_hola(exchange)
            return
        exchange.stream(delta("la la la"))
        # Nothing more is sent until the client goes away, which is what this waits for.
        exchange.handler.connection.settimeout(DEADLINE_S)
        if exchange.handler.connection.recv(1) == b"":
            hung_up.set()

    with gateway({CHAT: endless}) as stub:
        terminal = Terminal(lumbre, "chat", "--url", stub.url)
        terminals.append(terminal)
        terminal.read_until("> ")
        terminal.type("sing\n")
        terminal.read_until("la la la")
        terminal.type("\x03")
        terminal.read_until("(stopped)")
        assert hung_up.wait(DEADLINE_S)
        terminal.read_until("> ")
        terminal.type("thanks\n")
        terminal.read_until("¡Hola!")
        # Ctrl-D means the end only to a prompt: typed before it, the terminal itself would eat it.
        terminal.read_until("> ")
        terminal.type("\x04")
        assert terminal.exit_code() == 0
    assert [message["content"] for message in stub.asked[1][2]["messages"]] == ["sing", "la la la", "thanks"]


def test_an_error_in_a_talk_does_not_end_it_and_is_not_remembered(lumbre: Lumbre, terminals: list[Terminal]) -> None:
    def first_fails(exchange: Exchange) -> None:
        if exchange.body["messages"][-1]["content"] == "bad":
            exchange.reply({"error": {"message": "not today", "code": "saturated"}}, 429)
        else:
            say_hola(exchange)

    with gateway({CHAT: first_fails}) as stub:
        terminal = Terminal(lumbre, "chat", "--url", stub.url)
        terminals.append(terminal)
        terminal.read_until("> ")
        terminal.type("bad\n")
        terminal.read_until("not today")
        terminal.read_until("> ")
        terminal.type("good\n")
        terminal.read_until("¡Hola!")
        terminal.read_until("> ")
        terminal.type("/exit\n")
        assert terminal.exit_code() == 0
    assert [message["content"] for message in stub.asked[1][2]["messages"]] == ["good"]


def test_ctrl_c_twice_at_the_prompt_leaves_with_130(lumbre: Lumbre, terminals: list[Terminal]) -> None:
    terminal = Terminal(lumbre, "chat", "--url", "http://127.0.0.1:9")
    terminals.append(terminal)
    terminal.read_until("> ")
    terminal.insist("\x03", "leaves")
    terminal.read_until("> ")
    terminal.insist("\x03", "\n")
    assert terminal.exit_code() == 130


def test_a_model_cannot_steer_the_terminal(lumbre: Lumbre, terminals: list[Terminal]) -> None:
    def evil(exchange: Exchange) -> None:
        exchange.stream(delta("a\x1b]0;owned\x07b\x9b31mc", "stop"), "data: [DONE]")
        exchange.end()

    with gateway({CHAT: evil}) as stub:
        terminal = Terminal(lumbre, "chat", "Hi", "--url", stub.url)
        terminals.append(terminal)
        assert "\x1b" not in terminal.read_until("31mc")
        assert terminal.exit_code() == 0


def test_ctrl_c_in_a_single_answer_is_exit_130_and_hangs_up(lumbre: Lumbre) -> None:
    hung_up = threading.Event()

    def endless(exchange: Exchange) -> None:
        exchange.stream(delta("la"))
        exchange.handler.connection.settimeout(DEADLINE_S)
        if exchange.handler.connection.recv(1) == b"":
            hung_up.set()

    with gateway({CHAT: endless}) as stub:
        process = subprocess.Popen(
            lumbre.command("chat", "Hi", "--url", stub.url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lumbre.variables(),
        )
        assert process.stdout is not None
        assert process.stdout.read(2) == b"la"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert hung_up.wait(DEADLINE_S)
    assert process.returncode == 130
    assert b"Traceback" not in errors
