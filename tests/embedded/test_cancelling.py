"""A client that goes away stops the engine, in every phase and of either API; seen from outside, by the engine's use of
the processor.
"""

import time
from typing import Any

import pytest

from embedded_gateway import EmbeddedGateway
from engine_use import STOPS_WITHIN_S, engine_of, in_flight, last_use_at, used_s
from wire_client import Call, poll

LONG_PROMPT = "tell me about the sea. " * 150
SHORT_PROMPT = "tell me a story"
ENDLESS: dict[str, Any] = {"model": "auto", "max_tokens": 900, "ignore_eos": True, "temperature": 0}
FIRST_WORD = {"/v1/chat/completions": b'"content":"', "/v1/messages": b'"text_delta"'}


@pytest.fixture(params=[True, False], ids=["stream", "json"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether the call is one."""
    return bool(request.param)


@pytest.mark.parametrize("prompt", [LONG_PROMPT, SHORT_PROMPT], ids=["prompt", "generation"])
@pytest.mark.parametrize("path", FIRST_WORD)
def test_the_engine_stops_when_the_client_has_gone(
    embedded: EmbeddedGateway, path: str, stream: bool, prompt: str
) -> None:
    engine = engine_of(embedded)
    last_use_at(engine)
    # Some words of its own come first: a prompt that the engine has seen before would be done at once.
    own = f"{time.monotonic()} {prompt}"
    asked = {**ENDLESS, "messages": [{"role": "user", "content": own}], "stream": stream}
    with Call(f"{embedded.url}{path}", asked) as call:
        poll(lambda: in_flight(embedded) == 1, what="the request did not start")
        if stream and prompt is SHORT_PROMPT:
            call.read_until(FIRST_WORD[path])
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
    asked = {**ENDLESS, "messages": [{"role": "user", "content": SHORT_PROMPT}], "stream": True}
    with Call(f"{embedded.url}/v1/chat/completions", asked) as call:
        received = b""
        for _ in range(5):
            received += call.read_until(b'"content":"')
    poll(lambda: counted() > before, what="nothing was counted")
    assert counted() - before >= received.count(b'"content":"')
