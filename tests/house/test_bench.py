"""`bench/gateway`: the mock in C over plain sockets, the load against servers that fail, the report as a pure function,
and one short run of everything.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
from bench.gateway.figures import CASES, JSON_64, TARGETS, Figures, Memory, Sample
from bench.gateway.load import Client, Wrk
from bench.gateway.processes import BenchError, Child, Cores
from bench.gateway.report import GOALS, report
from bench.gateway.run import MARK, PAGE
from bench.gateway.targets import PACKAGES, Target, build_mock, tools
from bench.page import put_into

from processes import until

ROOT = Path(__file__).parents[2]
ABOUT = {"date": "today", "machine": "this one", "software": "what there is", "command": "it"}
PLAIN = b'{"model": "mock-model", "messages": [], "stream": false}'
STREAM = b'{"model": "mock-model", "messages": [{"role": "user", "content": "\\"stream\\": false"}], "stream": true}'
NO_COMPILER = shutil.which("cc") is None
MISSING = [PACKAGES[name] for name in PACKAGES if not (shutil.which(name) or shutil.which(name, path="/usr/sbin"))]
needs_compiler = pytest.mark.skipif(NO_COMPILER, reason="the mock needs a C compiler: apt-get install gcc")
needs_tools = pytest.mark.skipif(bool(MISSING), reason=f"missing here: apt-get install {' '.join(MISSING)}")


@pytest.fixture(scope="module")
def mock_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_mock(tmp_path_factory.mktemp("mock"), "cc")


@pytest.fixture
def mock(mock_binary: Path, tmp_path: Path) -> Iterator[Target]:
    """The mock, without a pause between chunks."""
    with running(mock_binary, tmp_path) as target:
        yield target


@contextmanager
def running(binary: Path, folder: Path, *words: str) -> Iterator[Target]:
    with Child([str(binary), "0", *words], folder / "mock.log") as child:
        yield Target("direct", child.told("url"), "none", child)


class Raw:
    """A connection that sends pieces and reads until a text has come so often."""

    def __init__(self, target: Target) -> None:
        host, port = target.url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._socket.sendall(piece)

    def read(self, mark: bytes = b"", count: int = 1) -> bytes:
        """Read until the mark has come that often; without one, to the end."""
        received = b""
        while not mark or received.count(mark) < count:
            data = self._socket.recv(65_536)
            if not data:
                assert not mark, f"it ended without {mark!r}: {received!r}"
                break
            received += data
        return received


def post(body: bytes, *fields: str) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: mock", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


def in_chunks(body: bytes, size: int) -> bytes:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\ntransfer-encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def events(reply: bytes) -> list[str]:
    """The data of a chunked stream, in order."""
    return re.findall(r"^data: (.*)$", reply.decode().replace("\r\n", "\n"), re.MULTILINE)


@needs_compiler
def test_the_mock_answers_a_request_that_comes_byte_by_byte(mock: Target) -> None:
    request = post(PLAIN, "Connection: close")
    with Raw(mock) as connection:
        connection.send(*(request[at : at + 1] for at in range(len(request))))
        head, _, body = connection.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["choices"][0]["finish_reason"] == "stop"


@needs_compiler
def test_the_mock_answers_the_same_wherever_a_request_is_cut_in_two(mock: Target) -> None:
    request = post(STREAM)
    with Raw(mock) as connection:
        connection.send(request)
        whole = connection.read(b"0\r\n\r\n")
        for at in range(1, len(request)):
            connection.send(request[:at], request[at:])
            assert connection.read(b"0\r\n\r\n") == whole, f"cut at {at}"


@needs_compiler
def test_the_mock_answers_pipelined_requests_in_their_order(mock: Target) -> None:
    with Raw(mock) as connection:
        connection.send(post(PLAIN) + post(STREAM) + post(PLAIN, "Connection: close"))
        reply = connection.read()
    kinds = re.findall(rb"Content-Type: ([a-z/-]+)", reply)
    assert kinds == [b"application/json", b"text/event-stream", b"application/json"]
    assert reply.count(b'"object":"chat.completion"') == 2


@needs_compiler
def test_a_stream_of_the_mock_has_its_words_the_usage_and_an_end(mock: Target) -> None:
    with Raw(mock) as connection:
        connection.send(post(STREAM))
        told = events(connection.read(b"0\r\n\r\n"))
    *chunks, finish, usage, done = told
    words = [json.loads(chunk)["choices"][0]["delta"]["content"] for chunk in chunks]
    assert words == [f"word{number} " for number in range(20)]
    assert json.loads(finish)["choices"][0]["finish_reason"] == "stop"
    assert json.loads(usage)["usage"] == {"prompt_tokens": 24, "completion_tokens": 20, "total_tokens": 44}
    assert done == "[DONE]"


@needs_compiler
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_mock_reads_a_chunked_body(mock: Target, size: int) -> None:
    with Raw(mock) as connection:
        request = in_chunks(STREAM, size)
        connection.send(*(request[at : at + 1] for at in range(len(request))))
        assert len(events(connection.read())) == 23


@needs_compiler
def test_the_mock_lists_its_model_and_knows_nothing_else(mock: Target) -> None:
    with Raw(mock) as connection:
        connection.send(b"GET /v1/models HTTP/1.1\r\nHost: mock\r\n\r\nGET /elsewhere HTTP/1.0\r\n\r\n")
        reply = connection.read()
    assert b'"id":"mock-model"' in reply
    assert b"HTTP/1.1 404 Not Found" in reply


@needs_compiler
@pytest.mark.parametrize("length", ["-1", "x", "99999999999", "3\r\nTransfer-Encoding: chunked"])
def test_the_mock_refuses_a_length_that_it_cannot_trust_and_closes(mock: Target, length: str) -> None:
    with Raw(mock) as connection:
        connection.send(f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert connection.read().startswith(b"HTTP/1.1 400 ")


@needs_compiler
def test_the_mock_tells_a_client_to_continue_once(mock: Target) -> None:
    head, _, body = post(PLAIN, "Expect: 100-continue", "Connection: close").partition(b"\r\n\r\n")
    with Raw(mock) as connection:
        connection.send(head + b"\r\n\r\n")
        assert connection.read(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(body[:5], body[5:])
        assert connection.read().startswith(b"HTTP/1.1 200 ")


@needs_compiler
def test_a_slow_reader_gets_every_word_and_does_not_fill_the_mock(mock_binary: Path, tmp_path: Path) -> None:
    with running(mock_binary, tmp_path, "0", "40000") as target, Raw(target) as connection:
        assert target.gateway is not None
        process = psutil.Process(target.gateway.pid)
        connection.send(post(STREAM))
        connection.read(b'"word99 "')
        until(lambda: process.status() == psutil.STATUS_SLEEPING)
        assert process.memory_info().rss < 6e6, "9 MB of words wait in the mock"
        assert connection.read(b"[DONE]").count(b'"word') > 39_000


@needs_compiler
def test_a_gap_lies_between_two_chunks_and_who_leaves_meanwhile_is_forgotten(mock_binary: Path, tmp_path: Path) -> None:
    with running(mock_binary, tmp_path, "20", "3") as target, Raw(target) as stays:
        with Raw(target) as leaves:
            leaves.send(post(STREAM))
            assert len(events(leaves.read(b'"word0 "') + b"\n\n")) == 1, "the next one came without a pause"
        stays.send(post(STREAM))
        assert len(events(stays.read(b"0\r\n\r\n"))) == 6
        assert target.gateway is not None
        connections = psutil.Process(target.gateway.pid).net_connections
        until(lambda: len([one for one in connections() if one.status == "ESTABLISHED"]) == 1)


class Failing(BaseHTTPRequestHandler):
    """Answers a first request as the mock would, and every other with 500."""

    protocol_version = "HTTP/1.1"
    reply = b'{"content": "what the mock says"}'
    answered: threading.Event

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500 if self.answered.is_set() else 200)
        self.answered.set()
        self.send_header("Content-Length", str(len(self.reply)))
        self.end_headers()
        self.wfile.write(self.reply)

    def log_message(self, *_: object) -> None:
        pass


@needs_tools
def test_a_load_that_meets_an_error_gives_no_figure(tmp_path: Path) -> None:
    handler = type("Once", (Failing,), {"answered": threading.Event()})
    wrk = Wrk(tools()["wrk"], tmp_path, Cores(pinned=False))
    wrk.prepare()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = Target("direct", f"http://127.0.0.1:{server.server_port}", "none", None)
        with pytest.raises(BenchError, match="'bad_status'"):
            wrk.run(CASES[0], target, 0.2)
        server.shutdown()


@needs_compiler
def test_a_stream_with_words_missing_is_an_error(mock_binary: Path, tmp_path: Path) -> None:
    with (
        running(mock_binary, tmp_path, "0", "19") as target,
        Client(target, stream=True) as client,
        pytest.raises(BenchError, match="does not give the mock's reply"),
    ):
        client.ask()


def test_a_target_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(BenchError, match="takes no connection"):
        Client(Target("lumbre", url, "none", None), stream=False)


def figures(lumbre_rate: float = 200.0, requests: int = 100_000) -> Figures:
    """A run in which nginx answers 1000 requests a second and the mock 2000, each in two rounds."""
    rates = {"direct": 2000.0, "nginx": 1000.0, "lumbre": lumbre_rate}
    cpu_ms = {"direct": None, "nginx": 0.02, "lumbre": 0.16}
    samples = {
        (case, target): [
            Sample(round(rates[target] * share), 1.0, 1000 / rates[target], 2000 / rates[target], cpu_ms[target])
            for share in (0.9, 1.0)
        ]
        for case in CASES
        for target in TARGETS
    }
    first_bytes = {"direct": [0.001, 0.002], "nginx": [0.0011, 0.0022], "lumbre": [0.0015, 0.0026]}
    memory = {"nginx": Memory(8, 10**6, 9, 10**5, 9), "lumbre": Memory(55, requests, 60, 10**5, 60.5)}
    return Figures(samples, first_bytes, memory)


def test_the_best_round_counts_and_the_spread_is_told() -> None:
    run = figures()
    assert run.best(JSON_64, "lumbre").per_second == 200
    assert run.spread(JSON_64, "lumbre") == pytest.approx(0.1)
    assert run.ratio(JSON_64, "lumbre", "nginx") == pytest.approx(0.2)
    row = "| JSON, 64 connections | lumbre | 200 | 10% | 5.00 | 10.00 | 4.50 | 9.00 | 0.20 | 0.10 | 0.160 |"
    assert row in report(run, ABOUT).splitlines()


def test_a_first_byte_is_compared_with_its_neighbour() -> None:
    assert "| lumbre | 2.60 | 2.60 | 0.60 | 0.60 | 2 |" in report(figures(), ABOUT).splitlines()


def goal_lines(run: Figures) -> dict[str, str]:
    """What the report says of each goal, by its name."""
    lines = [line.strip("| ").split(" | ") for line in report(run, ABOUT).splitlines()[-len(GOALS) :]]
    return {words[0]: words[-1] for words in lines}


def test_a_goal_that_is_missed_is_said_to_be() -> None:
    said = goal_lines(figures(lumbre_rate=140.0))
    assert said["JSON, 64 connections: requests/s, of nginx's"] == "**no**"
    assert said["JSON, 1 connection: added p50"] == "**no**"
    assert said["JSON, 64 connections: processor time a request"] == "yes"
    said = goal_lines(figures(lumbre_rate=160.0))
    assert said["JSON, 64 connections: requests/s, of nginx's"] == "yes"
    assert said["the same: the aim"] == "**no**"


def test_memory_after_too_few_requests_is_no_success() -> None:
    assert goal_lines(figures())["memory after 100,000 requests"] == "yes"
    assert goal_lines(figures(requests=99_999))["memory after 100,000 requests"] == "too few requests to say"


def test_a_machine_that_was_busy_is_told_of() -> None:
    run = figures()
    assert "was busy" not in report(run, ABOUT)
    run.samples[JSON_64, "nginx"].append(Sample(600, 1.0, 1.0, 2.0, 0.02))
    assert report(run, ABOUT).splitlines()[-1].startswith("Rounds fell behind by up to 40%: the machine was busy")


def test_the_page_has_its_place_for_the_tables() -> None:
    assert "new words" in put_into(PAGE.read_text(encoding="utf-8"), MARK, "new words")


def bench(*words: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "bench.gateway.run", *words]
    return subprocess.Popen(argv, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_missing_tool_is_told_with_the_package_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name != "cc" else "/usr/bin/cc")
    with pytest.raises(BenchError, match=r"apt-get install wrk nginx-light$"):
        tools()


@needs_tools
@pytest.mark.slow
def test_a_short_run_gives_every_row(tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    with bench("--seconds", "0.3", "--rounds", "1", "--json", str(raw)) as run:
        output, progress = run.communicate(timeout=110)
    assert run.returncode == 0, progress
    rows = [line.strip("| ").split(" | ") for line in output.splitlines() if line.startswith("| ")]
    names = {(words[0], words[1]) for words in rows}
    assert names >= {(case.name, target) for case in CASES for target in TARGETS}
    assert {words[0] for words in rows} >= {*TARGETS, *(goal.what for goal in GOALS)}
    assert "round 1 of 1" in progress
    loads = json.loads(raw.read_bytes())["loads"]
    assert len(loads) == len(CASES) * len(TARGETS)
    assert all(sample["requests"] > 0 for load in loads for sample in load["rounds"])


@needs_tools
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_no_process(number: signal.Signals) -> None:
    with bench("--seconds", "30") as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "warm-up" in line and "lumbre" in line:
                break
        begun = psutil.Process(run.pid).children(recursive=True)
        os.kill(run.pid, number)
        assert run.wait(30) == 130
    assert len(begun) >= 3
    assert [child for child in begun if child.is_running()] == []
