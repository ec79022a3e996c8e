"""A client that goes away cancels its request within a second, in every phase, and its slot is free again."""

import time
from typing import Any

import psutil
import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import poll

WITHIN_S = 1.0

PHASES: dict[str, dict[str, Any]] = {
    "before the header": {"stream": True, "rogue": {"do": "no_header"}},
    "before the first token": {"stream": True, "rogue": {"do": "silent"}},
    "between two tokens": {"stream": True, "rogue": {"do": "stall"}},
    "while tokens flow": {"stream": True, "rogue": {"do": "drip", "pause_s": 0.02}},
    "in a plain call before the header": {"rogue": {"do": "no_header"}},
    "in a plain call before the body": {"rogue": {"do": "silent"}},
    "in the middle of a plain body": {"rogue": {"do": "stall"}},
}


@pytest.fixture(scope="module")
def narrow(open_for_module: Opener) -> GatewayProcess:
    """A gateway with one slot: a slot that leaks is missed at once."""
    return open_for_module(slots=1, sections={"limits": {"waiting": 4, "wait_s": 20}}).ready()


def with_id(asked: dict[str, Any], name: str) -> dict[str, Any]:
    return {**asked, "rogue": {**asked["rogue"], "id": name}}


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_leaves_stops_the_engine(
    narrow: GatewayProcess, rogue: RogueProcess, name: str, phase: str, reset: bool
) -> None:
    call = narrow.chat(with_id(PHASES[phase], name))
    rogue.wait(name, "started")
    if PHASES[phase]["rogue"]["do"] in {"stall", "drip"} and "stream" in PHASES[phase]:
        call.read_until(b"word0")
    left_s = time.monotonic()
    call.leave(reset)
    assert rogue.wait(name, "gone")["gone_s"] - left_s < WITHIN_S
    with narrow.chat({"rogue": {"id": f"{name}-next"}}) as following:
        assert following.status == 200
        following.read()
    assert rogue.find(f"{name}-next")["started_s"] - left_s < WITHIN_S
    poll(lambda: narrow.busy() == (0, 0), 1)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_while_it_waits_never_reaches_the_engine(
    narrow: GatewayProcess, rogue: RogueProcess, name: str, stream: bool
) -> None:
    with narrow.chat({"rogue": {"id": name, "hold": True}}) as first:
        rogue.wait(name, "held")
        waiting = narrow.chat({"stream": stream, "rogue": {"id": f"{name}-waiting"}})
        poll(lambda: narrow.busy() == (1, 1), what="the second request did not wait")
        waiting.leave()
        poll(lambda: narrow.busy() == (1, 0), WITHIN_S, "it still waits")
        rogue.release(name, 9)
        assert first.status == 200
        first.read()
    with narrow.chat({}) as following:
        assert following.status == 200
        following.read()
    assert [one["id"] for one in rogue.log()["requests"] if one["id"] == f"{name}-waiting"] == []


def test_an_engine_is_held_back_by_a_client_that_does_not_read(
    narrow: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    process = psutil.Process(narrow.process.pid)
    before = process.memory_info().rss
    wish = {"id": name, "do": "drip", "chunks": 1, "text": "x" * 100_000, "pause_s": 0.0001}
    with narrow.chat({"stream": True, "rogue": wish}) as call:
        assert call.status == 200
        assert not rogue.reaches(name, 60_000_000, timeout_s=3)
        assert process.memory_info().rss - before < 30_000_000
    rogue.wait(name, "gone")


def test_a_client_that_does_not_read_meets_the_total_deadline(
    open_gateway: Opener, rogue: RogueProcess, name: str
) -> None:
    gateway = open_gateway(deadlines={"total_s": 1.5}).ready()
    wish = {"id": name, "do": "drip", "chunks": 1, "text": "x" * 100_000, "pause_s": 0.0001}
    with gateway.chat({"stream": True, "rogue": wish}) as call:
        assert call.status == 200
        rogue.wait(name, "gone", timeout_s=5)
        poll(lambda: gateway.busy() == (0, 0), 1)


def test_tokens_delivered_before_the_client_left_are_counted_as_estimated(
    narrow: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    def counted(estimated: str) -> float:
        return narrow.metric("lumbre_tokens_total", kind="completion", estimated=estimated)

    exact, estimated = counted("false"), counted("true")
    with narrow.chat({"stream": True, "rogue": {"id": name, "do": "stall", "chunks": 5}}) as call:
        call.read_until(b"word4")
    rogue.wait(name, "gone")
    poll(lambda: counted("true") == estimated + 5, what="5 delivered tokens were not counted")
    assert counted("false") == exact


def test_tokens_of_a_whole_reply_are_counted_as_the_engine_counted_them(narrow: GatewayProcess) -> None:
    def counted(kind: str) -> float:
        return narrow.metric("lumbre_tokens_total", kind=kind, estimated="false", node="rogue")

    prompt, completion = counted("prompt"), counted("completion")
    with narrow.chat({"rogue": {"chunks": 4}}) as call:
        call.read()
    poll(lambda: (counted("prompt"), counted("completion")) == (prompt + 7, completion + 4))
