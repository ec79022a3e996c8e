"""A client that goes away stops the engine, in every phase; seen from outside, by the engine's use of the processor."""

import time
from typing import Any

import psutil
import pytest

from embedded_gateway import EmbeddedGateway
from wire_client import Call, poll

LONG_PROMPT = {"role": "user", "content": "tell me about the sea. " * 150}
SHORT_PROMPT = {"role": "user", "content": "tell me a story"}
ENDLESS: dict[str, Any] = {"max_tokens": 900, "ignore_eos": True, "temperature": 0, "cache_prompt": False}
STOPS_WITHIN_S = 1.0
_QUIET_S = 0.4
"""So long without use of the processor is idle; the moment of stopping is the last use before it."""


def engine_of(gateway: EmbeddedGateway) -> psutil.Process:
    (engine,) = psutil.Process(gateway.process.pid).children()
    return engine


def used_s(engine: psutil.Process) -> float:
    """Seconds of the processor that it has used so far."""
    return float(sum(engine.cpu_times()[:2]))


def last_use_at(engine: psutil.Process) -> float:
    """Wait until it is idle; when it used the processor last, on the monotonic clock."""
    used, last_at = used_s(engine), time.monotonic()

    def is_idle() -> bool:
        nonlocal used, last_at
        now_used = used_s(engine)
        if now_used > used:
            used, last_at = now_used, time.monotonic()
        return time.monotonic() - last_at > _QUIET_S

    poll(is_idle, deadline_s=30, what="the engine went on")
    return last_at


def in_flight(gateway: EmbeddedGateway) -> int:
    with Call(f"{gateway.url}/readyz") as call:
        return int(call.json()["tiers"]["A"]["upstreams"][0]["in_flight"])


@pytest.fixture(params=[True, False], ids=["stream", "json"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether the call is one."""
    return bool(request.param)


@pytest.mark.parametrize("prompt", [LONG_PROMPT, SHORT_PROMPT], ids=["prompt", "generation"])
def test_the_engine_stops_when_the_client_has_gone(
    embedded: EmbeddedGateway, stream: bool, prompt: dict[str, str]
) -> None:
    engine = engine_of(embedded)
    last_use_at(engine)
    with Call(f"{embedded.url}/v1/chat/completions", {"messages": [prompt], "stream": stream, **ENDLESS}) as call:
        poll(lambda: in_flight(embedded) == 1, what="the request did not start")
        if stream and prompt is SHORT_PROMPT:
            call.read_until(b'"content":"')
        before = used_s(engine)
        poll(lambda: used_s(engine) > before + 0.1, what="the engine did not begin")
    gone_at = time.monotonic()
    assert last_use_at(engine) - gone_at < STOPS_WITHIN_S
    assert in_flight(embedded) == 0


def test_tokens_delivered_before_the_client_went_are_counted_as_estimated(embedded: EmbeddedGateway) -> None:
    def counted() -> float:
        with Call(f"{embedded.url}/metrics") as call:
            lines = call.read().decode().splitlines()
        mark = 'lumbre_tokens_total{estimated="true",kind="completion",node="embedded"}'
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(mark))

    before = counted()
    with Call(f"{embedded.url}/v1/chat/completions", {"messages": [SHORT_PROMPT], "stream": True, **ENDLESS}) as call:
        received = b""
        for _ in range(5):
            received += call.read_until(b'"content":"')
    poll(lambda: counted() > before, what="nothing was counted")
    assert counted() - before >= received.count(b'"content":"')
