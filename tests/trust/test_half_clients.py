"""Clients that do half of what a client does: they stop sending, or they do not read, or read slowly."""

import contextlib

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from gateway_process import GatewayProcess
from raw_http import RawHttp, Told, asked, client_ports, get, post
from rogue_process import RogueProcess
from wire_client import poll


def finished(told: Told) -> bool:
    """Whether this is a whole answer of the rogue's."""
    return told.status == 200 and told.json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_half_closes_while_it_waits_has_left(
    gateway: GatewayProcess, rogue: RogueProcess, name: str, stream: bool
) -> None:
    with RawHttp(gateway.url) as raw:
        raw.send(post({**asked(id=name, do="stall"), "stream": stream}))
        rogue.wait(name, "started")
        raw.half_close()
        rogue.wait(name, "gone", timeout_s=1)
        poll(lambda: gateway.busy() == (0, 0), 1)
        poll(lambda: raw.port not in client_ports(gateway.url, gateway.process.pid), 1)


def test_a_client_that_half_closes_after_its_answer_gets_the_rest_of_it(
    gateway: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with RawHttp(gateway.url, receive_bytes=65_536) as raw:
        raw.send(post(asked(id=name, text="x" * 9_000_000, chunks=1)))
        rogue.wait(name, "ended")
        assert raw.peek()
        raw.half_close()
        assert finished(raw.read_last())
    poll(lambda: gateway.busy() == (0, 0), 1)


def test_a_client_that_asks_and_asks_and_reads_nothing_costs_no_memory(gateway: GatewayProcess) -> None:
    process = psutil.Process(gateway.process.pid)
    with RawHttp(gateway.url, deadline_s=1) as raw:
        before = process.memory_info().rss
        with contextlib.suppress(TimeoutError, ConnectionError):
            raw.send(*[get("/openapi.json") * 100] * 10_000)
        assert process.memory_info().rss - before < 30_000_000
        raw.leave()
        poll(lambda: gateway.busy() == (0, 0), 1)


def test_a_client_that_reads_slowly_slows_its_engine(gateway: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    wish = {"id": name, "do": "drip", "chunks": 1, "text": "x" * 100_000, "pause_s": 0.0001}
    with RawHttp(gateway.url, receive_bytes=65_536) as raw:
        raw.send(post({**asked(**wish), "stream": True}))
        assert not rogue.reaches(name, 60_000_000, timeout_s=1)
        held = len(rogue.sent(name))
        raw.read_some(10_000_000)
        assert rogue.reaches(name, held + 5_000_000, timeout_s=5)
    rogue.wait(name, "gone")
