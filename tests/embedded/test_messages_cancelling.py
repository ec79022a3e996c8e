"""A client of Anthropic's API that goes away stops the embedded engine too, whose own words it is told in."""

import time
from typing import Any

import pytest

from embedded_gateway import EmbeddedGateway
from engine_use import STOPS_WITHIN_S, engine_of, in_flight, last_use_at, used_s
from wire_client import Call, poll

LONG_PROMPT = "tell me about the sea. " * 150
SHORT_PROMPT = "tell me a story"
ENDLESS: dict[str, Any] = {"model": "auto", "max_tokens": 900, "ignore_eos": True, "temperature": 0}


@pytest.fixture(params=[True, False], ids=["stream", "json"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether the call is one."""
    return bool(request.param)


@pytest.mark.parametrize("prompt", [LONG_PROMPT, SHORT_PROMPT], ids=["prompt", "generation"])
def test_the_engine_stops_when_the_client_has_gone(embedded: EmbeddedGateway, stream: bool, prompt: str) -> None:
    engine = engine_of(embedded)
    last_use_at(engine)
    # Some words of its own come first: a prompt that the engine has seen before would be done at once.
    own = f"{time.monotonic()} {prompt}"
    asked = {**ENDLESS, "messages": [{"role": "user", "content": own}], "stream": stream}
    with Call(f"{embedded.url}/v1/messages", asked) as call:
        poll(lambda: in_flight(embedded) == 1, what="the request did not start")
        if stream and prompt is SHORT_PROMPT:
            call.read_until(b'"text_delta"')
        before = used_s(engine)
        poll(lambda: used_s(engine) > before + 0.1, what="the engine did not begin")
    gone_at = time.monotonic()
    assert last_use_at(engine) - gone_at < STOPS_WITHIN_S
    assert in_flight(embedded) == 0
