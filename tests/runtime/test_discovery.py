"""Engines are known by what they answer; web servers and Lumbre itself are not taken for one."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lumbre.runtime.discovery import Found, find_engines

Page = object


def models(*ids: str, owner: str) -> Page:
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner} for name in ids]}


OLLAMA = {"/v1/models": models("llama3.2:latest", owner="library"), "/api/version": {"version": "0.9.0"}}
EMPTY_OLLAMA = {"/v1/models": {"object": "list", "data": None}, "/api/version": {"version": "0.9.0"}}
VLLM = {"/v1/models": models("Qwen/Qwen3-8B", owner="vllm"), "/version": {"version": "0.10"}}
LLAMA = {"/v1/models": models("/m/x.gguf", owner="llamacpp"), "/health": {"status": "ok"}}
LM_STUDIO = {
    "/v1/models": models("gemma", "nomic", owner="organization_owner"),
    "/lmstudio-greeting": {"lmstudio": True},
    # It answers paths that it does not know with 200 and an error.
    "/api/version": {"error": "Unexpected endpoint"},
    "/readyz": {"error": "Unexpected endpoint"},
}
LUMBRE = {
    "/v1/models": models("smollm2-135m-instruct", owner="llamacpp"),
    "/readyz": {"ready": True, "tiers": {"A": {"state": "ready", "reasons": []}}},
}


@contextmanager
def server(pages: Mapping[str, Page], name: str = "", silent: bool = False) -> Iterator[int]:
    """A web server on a free port; a page that is text is sent as HTML; a silent one never answers."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = name, ""

        def do_GET(self) -> None:
            if silent:
                over.wait(30)
                return
            page = pages.get(self.path)
            raw = page.encode() if isinstance(page, str) else json.dumps(page).encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html" if isinstance(page, str) else "application/json")
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args: object) -> None:
            del args

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield int(listener.server_port)
    finally:
        over.set()
        listener.shutdown()
        listener.server_close()
        thread.join(30)


def find(*ports: int, deadline_s: float = 5) -> list[Found]:
    return asyncio.run(find_engines(ports=ports, deadline_s=deadline_s))


@pytest.mark.parametrize(
    ("pages", "header", "kind", "ids"),
    [
        (OLLAMA, "", "ollama", ("llama3.2:latest",)),
        (EMPTY_OLLAMA, "", "ollama", ()),
        (VLLM, "uvicorn", "vllm", ("Qwen/Qwen3-8B",)),
        (LLAMA, "llama.cpp", "llama-server", ("/m/x.gguf",)),
        (LM_STUDIO, "", "lm-studio", ("gemma", "nomic")),
    ],
    ids=["ollama", "ollama without models", "vllm", "llama-server", "lm studio"],
)
def test_an_engine_is_known_on_any_port(
    pages: Mapping[str, Page], header: str, kind: str, ids: tuple[str, ...]
) -> None:
    with server(pages, header) as port:
        (found,) = find(port)
    assert (found.kind, found.base_url, found.models) == (kind, f"http://127.0.0.1:{port}/v1", ids)


@pytest.mark.parametrize(
    "pages",
    [
        LUMBRE,
        {},
        {"/": "<h1>Hello</h1>", "/v1/models": "<h1>Not found, nicely</h1>"},
        {"/v1/models": ["a", "list"]},
        {"/v1/models": {"data": True}, "/api/version": {"version": "0.9.0"}},
        {"/v1/models": "[" * 100_000},
        {"/v1/models": {"models": ["cars", "bikes"]}},
        {"/v1/models": {"data": [{"id": "beetle"}]}, "/api/version": {"version": "1", "app": "shop"}},
        {"/v1/models": models("gpt-4o", owner="openai")},
        {"/api/version": {"version": "2.1"}},
    ],
    ids=["lumbre", "nothing", "html", "array", "true", "deep", "car dealer", "shop", "unknown owner", "version only"],
)
def test_what_only_looks_like_an_engine_is_left_out(pages: Mapping[str, Page]) -> None:
    with server(pages) as port:
        assert find(port) == []


def test_ports_are_asked_at_once_and_one_that_hangs_costs_no_more_than_the_deadline() -> None:
    with ExitStack() as stack:
        hanging = [stack.enter_context(server({}, silent=True)) for _ in range(3)]
        alive = stack.enter_context(server(OLLAMA))
        started = time.perf_counter()
        found = find(*hanging, alive, deadline_s=0.5)
        took_s = time.perf_counter() - started
    assert [engine.kind for engine in found] == ["ollama"]
    assert took_s < 1.4  # one after the other, three that hang would take 1.5 s


def test_nobody_and_strangers_to_http_are_left_out() -> None:
    with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as stranger:
        closed.bind(("127.0.0.1", 0))

        def greet() -> None:
            connection, _ = stranger.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        assert find(closed.getsockname()[1], stranger.getsockname()[1], deadline_s=1) == []
        thread.join(30)


def test_a_reply_without_an_end_is_left_out() -> None:
    with server({"/v1/models": "[" * 3_000_000}) as port:
        assert find(port) == []
