"""The embedded engine's process, with the real model: what it opens, what it refuses, and when it ends."""

import dataclasses
import json
import os
import pty
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from lumbre.backends.llama_child import BootError, Order, check_model, engine_params, pools_itself
from processes import is_gone, thread_count, until

CHILD = (sys.executable, "-P", "-m", "lumbre.backends.llama_child")
KEY = "a-key-for-the-tests"
EVIL = "http://evil.example"
PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
child.stdin.write(sys.argv[1].encode() + b"\\n")
child.stdin.flush()
print(child.pid, flush=True)
sys.stdin.read()
"""


def order(model: Path, **changes: Any) -> Order:
    usual = Order(
        str(model), "smol", context_tokens=256, slots=2, threads=2, batch_tokens=0, api_key=KEY, embedding=False
    )
    return dataclasses.replace(usual, **changes)


def spoken(words: Order | Mapping[str, Any]) -> str:
    return json.dumps(dataclasses.asdict(words) if isinstance(words, Order) else words)


@contextmanager
def child(line: str) -> Iterator[Popen[str]]:
    with Popen(CHILD, stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        try:
            yield process
        finally:
            process.kill()


def told(process: Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    event: dict[str, Any] = json.loads(process.stdout.readline())
    return event


def ask(url: str, *, method: str = "GET", body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {**sent, "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, dict(reply.headers), reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[dict[str, Any]]:
    with child(spoken(order(smollm2_path))) as process:
        yield told(process)


def test_it_tells_where_it_is_and_what_each_slot_got(engine: dict[str, Any]) -> None:
    assert engine["event"] == "ready"
    assert engine["address"].startswith("http://127.0.0.1:")
    assert (engine["context_tokens"], engine["slots"], engine["threads"]) == (256, 2, 2)
    assert engine["devices"]


def test_it_answers_whoever_has_the_key(engine: dict[str, Any]) -> None:
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4}
    url = f"{engine['address']}/v1/chat/completions"
    status, _, reply = ask(url, method="POST", body=body, Authorization=f"Bearer {KEY}")
    assert status == 200
    assert json.loads(reply)["choices"][0]["message"]["content"]
    _, _, models = ask(f"{engine['address']}/v1/models", Authorization=f"Bearer {KEY}")
    assert [model["id"] for model in json.loads(models)["data"]] == ["smol"]


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/props", "/slots", "/tools"])
def test_nobody_gets_anything_without_the_key(engine: dict[str, Any], path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer another"}):
        assert ask(engine["address"] + path, **headers)[0] == 401


def test_its_health_is_no_secret(engine: dict[str, Any]) -> None:
    assert ask(f"{engine['address']}/health")[0] == 200


@pytest.mark.parametrize("path", ["/", "/index.html"])
def test_it_has_no_page_for_a_browser(engine: dict[str, Any], path: str) -> None:
    status, headers, body = ask(engine["address"] + path)
    assert status == 404
    assert "html" not in headers["Content-Type"]
    assert b"<" not in body


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/v1/chat/completions", "/"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_no_web_page_of_another_origin_may_read_it(engine: dict[str, Any], method: str, path: str) -> None:
    asked = {"Origin": EVIL, "Access_Control_Request_Method": "POST", "Authorization": f"Bearer {KEY}"}
    _, headers, _ = ask(engine["address"] + path, method=method, **asked)
    granted = {name.lower(): value for name, value in headers.items() if name.lower().startswith("access-")}
    assert granted.pop("access-control-allow-credentials", "false") == "false"
    assert set(granted.values()) <= {""}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "does not exist"),
        (b"PK\x03\x04 a zip file", "is not a GGUF model file"),
        (b"GGUF and then nothing", "llama.cpp could not load"),
    ],
)
def test_a_bad_model_file_is_told_in_words(tmp_path: Path, content: bytes | None, reason: str) -> None:
    model = tmp_path / "model.gguf"
    if content is not None:
        model.write_bytes(content)
    with child(spoken(order(model))) as process:
        event = told(process)
        assert event["event"] == "failed"
        assert reason in event["reason"]
        assert str(model) in event["reason"]
        assert process.wait(10) == 1


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(BootError, match="cannot be read: Is a directory"):
        check_model(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "exactly these fields: model_path, alias"),
        (spoken({"model_path": "x"}), "exactly these fields"),
        (spoken({**dataclasses.asdict(order(Path("x"))), "more": 1}), "exactly these fields"),
        (spoken({**dataclasses.asdict(order(Path("x"))), "slots": "2"}), "slots in the order has a wrong type"),
        (spoken({**dataclasses.asdict(order(Path("x"))), "slots": True}), "slots in the order has a wrong type"),
        (spoken({**dataclasses.asdict(order(Path("x"))), "embedding": 1}), "embedding in the order has a wrong type"),
    ],
)
def test_an_order_that_is_wrong_is_refused(line: str, reason: str) -> None:
    with pytest.raises(BootError, match=reason):
        Order.parse(line)


def test_an_order_survives_the_way_to_the_child() -> None:
    assert Order.parse(spoken(order(Path("x")))) == order(Path("x"))


@pytest.mark.parametrize(
    ("asked", "has_gpu", "given"), [(0, False, 64), (0, True, 1024), (33, False, 33), (33, True, 33)]
)
def test_batches_are_small_on_a_cpu_unless_the_settings_say(asked: int, has_gpu: bool, given: int) -> None:
    params = engine_params(order(Path("x"), batch_tokens=asked), has_gpu=has_gpu)
    assert (params.n_batch, params.n_ubatch) == (given, given)


def test_each_slot_gets_the_context_that_was_asked_for() -> None:
    params = engine_params(order(Path("x"), slots=3, context_tokens=1000, threads=0), has_gpu=False)
    assert (params.n_ctx, params.n_parallel) == (3000, 3)
    assert 1 <= params.cpuparams.n_threads <= (os.cpu_count() or 1)
    assert params.cpuparams_batch.n_threads == params.cpuparams.n_threads


def test_an_engine_for_embeddings_takes_a_whole_text_in_one_step() -> None:
    params = engine_params(order(Path("x"), embedding=True, slots=1, batch_tokens=33), has_gpu=True)
    assert params.embedding
    assert (params.n_batch, params.n_ubatch, params.n_ctx) == (256, 256, 256)
    odd = engine_params(order(Path("x"), embedding=True, slots=1, context_tokens=300), has_gpu=False)
    assert odd.n_ubatch == 512  # what llama.cpp makes of a context of 300
    assert not engine_params(order(Path("x")), has_gpu=False).embedding


def test_a_model_that_says_how_it_pools_is_let_do_so(tmp_path: Path, smollm2_path: Path) -> None:
    made_for_it = tmp_path / "embedder.gguf"
    made_for_it.write_bytes(b"GGUF\x03\x00\x00\x00bert.pooling_type\x04")
    plain = engine_params(order(smollm2_path, embedding=True), has_gpu=False).pooling_type
    own = engine_params(order(made_for_it, embedding=True), has_gpu=False).pooling_type
    assert (plain.name, own.name) == ("LLAMA_POOLING_TYPE_MEAN", "LLAMA_POOLING_TYPE_UNSPECIFIED")
    assert [pools_itself(path) for path in (smollm2_path, made_for_it, tmp_path / "none")] == [False, True, False]


def test_it_makes_embeddings_and_says_when_a_text_is_too_long(smollm2_path: Path) -> None:
    with child(spoken(order(smollm2_path, embedding=True, slots=1))) as process:
        url = f"{told(process)['address']}/v1/embeddings"
        status, _, reply = ask(url, method="POST", body={"input": ["hi", "ho"]}, Authorization=f"Bearer {KEY}")
        assert status == 200
        assert [len(entry["embedding"]) for entry in json.loads(reply)["data"]] == [576, 576]
        long = {"input": "hi " * 300}
        status, _, reply = ask(url, method="POST", body=long, Authorization=f"Bearer {KEY}")
        assert (status, json.loads(reply)["error"]["message"].partition("(")[0]) == (500, "input ")


def test_ctrl_c_leaves_it_alone_and_sigterm_ends_it(smollm2_path: Path) -> None:
    with child(spoken(order(smollm2_path))) as process:
        address = told(process)["address"]
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGHUP)
        assert ask(f"{address}/health")[0] == 200
        process.terminate()
        assert process.wait(5) == -signal.SIGTERM


def test_it_ends_when_its_stdin_does(smollm2_path: Path) -> None:
    with child(spoken(order(smollm2_path))) as process:
        told(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(2) == 0


def test_it_ends_when_the_gateway_dies_before_it_could_say_what_it_wants() -> None:
    with Popen(CHILD, stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL) as process:
        said, _ = process.communicate(b'{"model_path":', timeout=10)
    assert (process.returncode, said) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's parent-death signal")
def test_when_the_gateway_is_killed_while_it_loads_it_is_gone_at_once(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    os.mkfifo(model)  # a model that loads for ever: once its head was read, nobody writes to it again
    argv = (sys.executable, "-c", PARENT, spoken(order(model)), *CHILD)
    with Popen(argv, stdin=PIPE, stdout=PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        model.write_bytes(b"GGUF")
        try:
            until(lambda: thread_count(pid) > 4)  # its own two, and those of a server that has begun
            assert not is_gone(pid)
            parent.kill()
            until(lambda: is_gone(pid), 2)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_it_takes_no_orders_from_a_terminal() -> None:
    ours, theirs = pty.openpty()
    try:
        asked = subprocess.run(CHILD, stdin=theirs, capture_output=True, text=True, timeout=10, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    assert asked.returncode == 1
    assert "`lumbre up` starts it" in asked.stderr


def test_importing_it_does_not_import_the_engine() -> None:
    asked = "import sys, lumbre.backends.llama_child; print('xllamacpp' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "False"
