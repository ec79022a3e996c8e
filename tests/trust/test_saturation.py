"""More requests than slots: bounded waiting in order, then 429, and counters that come back to nothing."""

import asyncio
import random
import socket
import struct
import time
from functools import partial
from urllib.parse import urlsplit

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import broken, poll

CLIENTS = 200


@pytest.fixture(scope="module")
def narrow(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(slots=1, sections={"limits": {"waiting": 2, "wait_s": 20}}).ready()


def is_busy(gateway: GatewayProcess, expected: tuple[int, int]) -> bool:
    return gateway.busy() == expected


def test_those_who_wait_are_served_in_the_order_they_came_and_one_more_is_refused(
    narrow: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    calls = []
    for number in range(3):
        calls.append(narrow.chat({"stream": number == 1, "rogue": {"id": f"{name}-{number}", "hold": True}}))
        poll(partial(is_busy, narrow, (1, number)), what=f"request {number} is not in line")
    with narrow.chat() as refused:
        assert refused.status == 429
        assert int(refused.header("retry-after") or 0) >= 1
        assert refused.error()["code"] == "saturated"
    for number, call in enumerate(calls):
        rogue.wait(f"{name}-{number}", "started")
        assert rogue.log()["seen"] == number + 1
        rogue.release(f"{name}-{number}", 20)
        assert call.status == 200
        call.read()
        call.leave()
    assert rogue.log()["most"] == 1
    poll(lambda: narrow.busy() == (0, 0))


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_whoever_waited_too_long_is_told_to_come_back(
    open_gateway: Opener, rogue: RogueProcess, name: str, stream: bool
) -> None:
    gateway = open_gateway(slots=1, sections={"limits": {"waiting": 2, "wait_s": 0.6}}).ready()
    with gateway.chat({"rogue": {"id": name, "hold": True}}) as first:
        rogue.wait(name, "held")
        started_s = time.monotonic()
        with gateway.chat({"stream": stream}) as second:
            status, error = broken(second)
            assert 0.6 <= time.monotonic() - started_s < 2
            assert (status, error["code"]) == (429, "saturated")
            assert int(second.header("retry-after") or 0) >= 1
        rogue.release(name, 9)
        assert first.status == 200
        first.read()
    poll(lambda: gateway.busy() == (0, 0))


def test_without_room_to_wait_the_answer_is_429_at_once(open_gateway: Opener, rogue: RogueProcess, name: str) -> None:
    gateway = open_gateway(slots=1, sections={"limits": {"waiting": 0, "wait_s": 20}}).ready()
    with gateway.chat({"rogue": {"id": name, "hold": True}}) as first:
        rogue.wait(name, "held")
        with gateway.chat() as second:
            assert second.status == 429
            second.read()
        rogue.release(name, 9)
        first.read()


class Visitor:
    """One of many clients: comes when it likes, stays to the end or leaves in the middle, politely or not."""

    def __init__(self, url: str, dice: random.Random) -> None:
        address = urlsplit(url)
        self.host, self.port = address.hostname or "", address.port or 0
        self.comes_after_s = dice.uniform(0, 1.5)
        self.leaves_after_s = dice.choice([None, None, 0.0, dice.uniform(0, 0.3)])
        self.resets = dice.random() < 0.5
        stream = "true" if dice.random() < 0.6 else "false"
        pace = f'"chunks": {dice.randint(1, 6)}, "pause_s": {dice.uniform(0, 0.02):.3f}'
        self.body = (
            f'{{"model": "rogue", "messages": [{{"role": "user", "content": "hi"}}], "stream": {stream}, '
            f'"rogue": {{{pace}, "silent_s": {dice.choice([0, 0.02, 0.05])}}}}}'
        ).encode()

    async def visit(self) -> str:
        """Come and go: `left`, or the status of the whole reply that was read to its proper end."""
        await asyncio.sleep(self.comes_after_s)
        reader, writer = await asyncio.open_connection(self.host, self.port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n\r\n"
        writer.write(head.encode() + self.body)
        try:
            async with asyncio.timeout(self.leaves_after_s):
                reply = await reader.read(-1)
        except TimeoutError:
            if self.resets:
                raw: socket.socket = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return "left"
        writer.close()
        return self._judge(reply)

    def _judge(self, reply: bytes) -> str:
        status = reply.split(b" ", 2)[1].decode() if reply.startswith(b"HTTP/1.1 ") else "none"
        if status == "200":
            whole = b"[DONE]" in reply or b'"usage"' in reply
            return "200" if whole else f"half a reply: {reply!r}"
        return status


def test_two_hundred_clients_come_and_go_and_nothing_leaks(open_gateway: Opener, rogue: RogueProcess) -> None:
    gateway = open_gateway(slots=4, sections={"limits": {"waiting": 16, "wait_s": 5}}).ready()
    dice = random.Random(20_240_229)
    visitors = [Visitor(gateway.url, dice) for _ in range(CLIENTS)]

    async def visit_all() -> list[str]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(visitor.visit() for visitor in visitors))

    fates = asyncio.run(visit_all())
    assert set(fates) <= {"left", "200", "429"}, sorted(set(fates))
    assert fates.count("200") >= CLIENTS // 10
    poll(lambda: gateway.busy() == (0, 0), 3, "a counter did not come back to nothing")
    assert gateway.metric("lumbre_in_flight") == 0
    assert gateway.metric("lumbre_waiting") == 0
    rogue.wait_running(0)
    assert rogue.log()["most"] <= 4
    with gateway.chat() as call:
        assert call.status == 200
        call.read()
