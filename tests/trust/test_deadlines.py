"""Five deadlines, each with its own error, and keep-alive comments in the silence before them."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import broken

LIMITS = {"connect_s": 0.5, "header_s": 0.5, "first_token_s": 0.6, "idle_s": 0.7, "total_s": 1.6}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("header", {"do": "no_header"}),
    ("first_token", {"do": "silent"}),
    ("idle", {"do": "stall"}),
    ("total", {"do": "drip", "pause_s": 0.05}),
]


@pytest.fixture(scope="module")
def hasty(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(deadlines=LIMITS).ready()


@pytest.fixture(scope="module")
def lively(open_for_module: Opener) -> GatewayProcess:
    """A gateway that lets no stream be silent for more than half a second."""
    return open_for_module(deadlines={"header_s": 2.0}, sections={"gateway": {"keepalive_s": 0.5}}).ready()


def without_comments(body: bytes) -> bytes:
    """Take out the events that are nothing but a comment."""
    return re.sub(rb"(?:^|(?<=\n\n)):[^\n]*\n\n", b"", body)


@contextmanager
def full_backlog(port: int) -> Iterator[None]:
    """A listener that lets nobody in any more: the handshake gets no answer, and a connect hangs."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            yield
        finally:
            for filler in fillers:
                filler.close()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(("deadline", "wish"), CASES)
def test_each_deadline_has_its_own_error(
    hasty: GatewayProcess, rogue: RogueProcess, name: str, deadline: str, wish: dict[str, Any], stream: bool
) -> None:
    started_s = time.monotonic()
    with hasty.chat({"stream": stream, "rogue": {"id": name, **wish}}) as call:
        status, error = broken(call)
    took_s = time.monotonic() - started_s
    assert error["code"] == f"deadline_{deadline}"
    assert f"{deadline}_s" in error["message"]
    # Before the first token nothing of the stream has reached the client, unless it was kept alive meanwhile.
    assert status == (200 if stream and deadline in {"idle", "total"} else 504)
    assert LIMITS[f"{deadline}_s"] <= took_s < LIMITS[f"{deadline}_s"] + 1.5
    rogue.wait(name, "gone")


@pytest.mark.parametrize("wish", [{"do": "hum"}, {"do": "stall", "chunks": 0}], ids=["comments", "a role"])
def test_comments_and_a_role_are_no_token(hasty: GatewayProcess, name: str, wish: dict[str, Any]) -> None:
    with hasty.chat({"stream": True, "rogue": {"id": name, **wish}}) as call:
        assert broken(call)[1]["code"] == "deadline_first_token"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_engine_that_accepts_no_connection_meets_the_connect_deadline(
    open_gateway: Opener, tmp_path: Path, stream: bool
) -> None:
    with RogueProcess(tmp_path) as lost:
        gateway = open_gateway(upstreams={"lost": lost.url}, deadlines=LIMITS, breaker={"probe_s": 60}).ready()
    with full_backlog(lost.port), gateway.chat({"stream": stream}) as call:
        status, error = broken(call)
    assert (status, error["code"]) == (504, "deadline_connect")


def test_a_silent_prefill_gets_comments_and_then_the_same_bytes(
    lively: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with lively.chat({"stream": True, "rogue": {"id": name, "do": "silent", "silent_s": 1.8}}) as call:
        assert call.status == 200
        events = list(call.events())
    comments = [event for event in events if event.startswith(":")]
    assert len(comments) >= 3
    assert events[: len(comments)] == comments
    assert "".join(f"{event}\n\n" for event in events[len(comments) :]).encode() == rogue.sent(name)


def test_an_engine_that_sends_no_header_before_its_first_token_is_covered_too(
    lively: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with lively.chat({"stream": True, "rogue": {"id": name, "silent_s": 1.3}}) as call:
        assert call.read_until(b"\n\n").startswith(b":")
        rest = call.read()
    assert without_comments(rest) == rogue.sent(name)


def test_a_failure_after_the_first_comment_is_an_error_event(lively: GatewayProcess, name: str) -> None:
    with lively.chat({"stream": True, "rogue": {"id": name, "do": "no_header"}}) as call:
        status, error = broken(call)
    assert (status, error["code"]) == (200, "deadline_header")


def test_a_comment_never_stands_inside_an_event(lively: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    wish = {"id": name, "split": "cut", "at": 40, "pause_s": 1.3}
    with lively.chat({"stream": True, "rogue": wish}) as call:
        body = call.read()
    assert without_comments(body) == rogue.sent(name)


def test_a_plain_reply_gets_no_comments(lively: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    with lively.chat({"rogue": {"id": name, "do": "silent", "silent_s": 1.3}}) as call:
        assert call.read() == rogue.sent(name)
