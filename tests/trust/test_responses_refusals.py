"""What goes wrong around a Response is told in that API's words: an engine's refusals, paths that nobody answers, and a
store that somebody else has locked.
"""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import poll

MODEL = "rogue"


def sdk(gateway: GatewayProcess) -> OpenAI:
    return OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=30)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RogueProcess]:
    """A rogue of the test's own, which refuses what the test wants refused."""
    with RogueProcess(tmp_path) as process:
        yield process


PLACES = {"messages[1].content": "input", "max_completion_tokens": "max_output_tokens", "somewhere": "somewhere"}


@pytest.mark.parametrize("place", [*PLACES, None])
def test_an_engines_refusal_names_the_field_that_the_caller_wrote_and_is_else_as_it_was(
    open_gateway: Opener, engine: RogueProcess, place: str | None
) -> None:
    refusal = {"message": "not so", "type": "vendor", "param": place, "code": "strange", "hint": [1, {"a": None}]}
    engine.lay("/v1/chat/completions", {"error": refusal, "id": 7}, status=422)
    with (
        sdk(open_gateway(upstreams={"engine": engine.url}).ready()) as client,
        pytest.raises(openai.UnprocessableEntityError) as caught,
    ):
        client.responses.create(model=MODEL, instructions="Be brief.", input="hi", max_output_tokens=9)
    own = None if place is None else PLACES[place]
    assert caught.value.response.json() == {"error": {**refusal, "param": own}, "id": 7}


def test_an_engines_refusal_of_another_shape_is_told_again_with_its_code(
    open_gateway: Opener, engine: RogueProcess
) -> None:
    refusal = {"message": "later", "code": "rate_limit_exceeded"}
    engine.lay("/v1/chat/completions", {"error": refusal}, status=429)
    gateway = open_gateway(upstreams={"engine": engine.url}).ready()
    with sdk(gateway) as client, pytest.raises(openai.RateLimitError, match="later") as caught:
        client.responses.create(model=MODEL, input="hi")
    assert (caught.value.code, caught.value.param) == ("rate_limit_exceeded", None)


@pytest.mark.parametrize("path", ["input_tokens", "compact"])
def test_a_path_of_the_api_that_nobody_answers_here_says_why(gateway: GatewayProcess, path: str) -> None:
    with gateway.get(f"/v1/responses/{path}", body={"model": MODEL, "input": "hi"}) as call:
        assert call.status == 404
        error = call.error()
    assert error["code"] == "unsupported_endpoint"
    assert f"/v1/responses/{path}" in error["message"]


def test_a_locked_store_costs_a_moment_and_holds_up_nobody_else(open_gateway: Opener) -> None:
    gateway = open_gateway().ready()
    with sdk(gateway) as client:
        assert _ask(client)["store"] is True
        with closing(sqlite3.connect(gateway.state_dir / "responses.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with ThreadPoolExecutor(7) as pool:
                began_s = time.monotonic()
                asking = [pool.submit(_ask, client) for _ in range(6)]
                with gateway.chat({"messages": [{"role": "user", "content": "x" * 600_000}]}) as call:
                    assert call.status == 200
                    call.read()
                assert time.monotonic() - began_s < 1
                told = [each.result() for each in asking]
                assert time.monotonic() - began_s < 3
            assert [each["store"] for each in told] == [False] * 6
            assert {each["status"] for each in told} == {"completed"}
            other.execute("ROLLBACK")
        # What had given up still ends in the store's thread before that takes something new.
        poll(lambda: _ask(client)["store"] is True, what="the store does not come back")


def _ask(client: OpenAI) -> dict[str, Any]:
    told: dict[str, Any] = client.responses.create(model=MODEL, input="hi").model_dump()
    return told
