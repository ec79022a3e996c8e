"""What the embedded engine does, seen from outside by its use of the processor. Used by the tests."""

import time

import psutil

from embedded_gateway import EmbeddedGateway
from wire_client import Call, poll

STOPS_WITHIN_S = 1.0
_QUIET_S = 0.4
"""So long without use of the processor is idle; the moment of stopping is the last use before it."""


def engine_of(gateway: EmbeddedGateway) -> psutil.Process:
    """The one engine that a gateway runs; a test that asks for embeddings has a gateway of its own."""
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
    """Requests that the engine answers now."""
    with Call(f"{gateway.url}/readyz") as call:
        return int(call.json()["tiers"]["A"]["upstreams"][0]["in_flight"])
