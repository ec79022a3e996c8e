"""A client of Anthropic's API that goes away stops the engine within a second, in every phase, whoever translates."""

import asyncio
import time
from typing import Any

import pytest

from gateway_process import GatewayProcess, Opener
from messages_client import ASKED, async_sdk, post, sdk, wish
from rogue_process import RogueProcess
from wire_client import poll

WITHIN_S = 1.0

PHASES: dict[str, tuple[bool, dict[str, Any]]] = {
    "before the header": (True, {"do": "no_header"}),
    "in the prompt": (True, {"do": "silent"}),
    "between two tokens": (True, {"do": "stall"}),
    "while tokens flow": (True, {"do": "drip", "pause_s": 0.02}),
    "in a plain call before the header": (False, {"do": "no_header"}),
    "in a plain call before the body": (False, {"do": "silent"}),
    "in the middle of a plain body": (False, {"do": "stall"}),
}


@pytest.fixture(scope="module", params=["chat/completions", "messages"])
def narrow(request: pytest.FixtureRequest, open_for_module: Opener) -> GatewayProcess:
    """A gateway with one slot, so that a slot that leaks is missed at once; its engine knows one API."""
    sections = {"tier_a": {"endpoints": [request.param]}, "limits": {"waiting": 4, "wait_s": 20}}
    return open_for_module(slots=1, sections=sections).ready()


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_leaves_stops_the_engine(
    narrow: GatewayProcess, rogue: RogueProcess, name: str, phase: str, reset: bool
) -> None:
    stream, act = PHASES[phase]
    call = post(narrow, {"stream": stream, **wish({"id": name, **act})})
    rogue.wait(name, "started")
    if stream and act["do"] in {"stall", "drip"}:
        call.read_until(b"word0")
    left_s = time.monotonic()
    call.leave(reset)
    assert rogue.wait(name, "gone")["gone_s"] - left_s < WITHIN_S
    with post(narrow, wish({"id": f"{name}-next"})) as following:
        assert following.status == 200
        following.read()
    assert rogue.find(f"{name}-next")["started_s"] - left_s < WITHIN_S
    poll(lambda: narrow.busy() == (0, 0), 1)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_client_that_leaves_while_it_waits_never_reaches_the_engine(
    narrow: GatewayProcess, rogue: RogueProcess, name: str, stream: bool
) -> None:
    with post(narrow, wish({"id": name, "hold": True})) as first:
        rogue.wait(name, "held")
        waiting = post(narrow, {"stream": stream, **wish({"id": f"{name}-waiting"})})
        poll(lambda: narrow.busy() == (1, 1), what="the second request did not wait")
        waiting.leave()
        poll(lambda: narrow.busy() == (1, 0), WITHIN_S, "it still waits")
        rogue.release(name, 9)
        assert first.status == 200
        first.read()
    assert f"{name}-waiting" not in [one["id"] for one in rogue.log()["requests"]]


def test_an_sdk_that_breaks_off_its_stream_stops_the_engine(
    narrow: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    endless = {**ASKED, **wish({"id": name, "do": "drip", "pause_s": 0.02})}
    with sdk(narrow.url) as client, client.messages.stream(**endless) as stream:
        for text in stream.text_stream:
            assert text.startswith("word")
            break
        stream.close()
        left_s = time.monotonic()
        assert rogue.wait(name, "gone")["gone_s"] - left_s < WITHIN_S


def test_an_async_call_that_is_cancelled_stops_the_engine(
    narrow: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    async def ask_and_cancel() -> float:
        async with async_sdk(narrow.url) as client:
            asked = asyncio.ensure_future(client.messages.create(**ASKED, **wish({"id": name, "do": "silent"})))
            await asyncio.to_thread(rogue.wait, name, "started")
            asked.cancel()
            return time.monotonic()

    left_s = asyncio.run(ask_and_cancel())
    assert rogue.wait(name, "gone")["gone_s"] - left_s < WITHIN_S


def test_tokens_delivered_before_the_client_left_are_counted_as_estimated(
    narrow: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    def counted() -> float:
        return narrow.metric("lumbre_tokens_total", kind="completion", estimated="true")

    before = counted()
    with post(narrow, {"stream": True, **wish({"id": name, "do": "stall", "chunks": 5})}) as call:
        call.read_until(b"word4")
    rogue.wait(name, "gone")
    poll(lambda: counted() >= before + 5, what="5 delivered tokens were not counted")
