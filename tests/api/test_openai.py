"""A large body is looked at beside the loop; what a client has been sent decides what it can still be told."""

import asyncio
from typing import Any

import orjson
import pytest
from starlette.types import Message

from lumbre.api.asgi_client import AsgiClient
from lumbre.api.body import DEPTH_LIMIT, parse_object, read_body
from lumbre.api.openai import tell, understand
from lumbre.api.openai_schema import ChatRequest
from lumbre.core.errors import CallerError, LumbreError

MESSAGES = [{"role": "user", "content": "hi"}]


class Wire:
    """Takes what an app sends, until it is told to block."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.blocks = False

    async def send(self, message: Message) -> None:
        if self.blocks:
            await asyncio.Event().wait()
        self.sent.append(message)


def test_the_loop_goes_on_while_a_large_body_is_looked_at() -> None:
    async def turns() -> int:
        raw = orjson.dumps({"messages": MESSAGES * 50_000})
        looking = asyncio.create_task(understand(raw, ChatRequest))
        count = 0
        while not looking.done():
            await asyncio.sleep(0)
            count += 1
        assert len(looking.result()["messages"]) == 50_000
        return count

    # In the loop it would take the one turn that starts the task.
    assert asyncio.run(turns()) > 2


def test_a_fault_of_a_large_body_is_told_like_any_other() -> None:
    raw = orjson.dumps({"messages": MESSAGES * 50_000, "n": 0})
    with pytest.raises(CallerError) as caught:
        asyncio.run(understand(raw, ChatRequest))
    assert caught.value.param == "n"


def test_a_head_that_was_given_up_has_not_been_sent() -> None:
    async def give_up(client: AsgiClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.head(200, [])

    wire = Wire()
    wire.blocks = True
    client = AsgiClient(wire.send)
    asyncio.run(give_up(client))
    assert not client.started


@pytest.mark.parametrize(
    ("content_type", "expected"), [("text/event-stream; charset=utf-8", 2), ("application/json", 0)]
)
def test_half_a_reply_takes_an_error_only_if_it_is_a_stream(content_type: str, expected: int) -> None:
    async def fail(client: AsgiClient) -> None:
        await client.head(200, [("content-type", content_type)])
        await tell(client, LumbreError("it went wrong"), None)

    wire = Wire()
    asyncio.run(fail(AsgiClient(wire.send)))
    assert len(wire.sent[1:]) == expected


def nested(levels: int, inside: str) -> bytes:
    opening, closing = ('{"a":', "}") if inside == "objects" else ("[", "]")
    return ('{"a":' + opening * (levels - 1) + "1" + closing * (levels - 1) + "}").encode()


@pytest.mark.parametrize("inside", ["objects", "lists"])
def test_depth_is_limited_to_what_can_be_written_again(inside: str) -> None:
    deepest: dict[str, Any] = parse_object(nested(DEPTH_LIMIT, inside))
    assert orjson.dumps({"one": {"more": deepest}})
    with pytest.raises(CallerError, match="200") as caught:
        parse_object(nested(DEPTH_LIMIT + 1, inside))
    assert caught.value.code == "too_deep"


def test_a_body_that_does_not_come_is_a_408() -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    with pytest.raises(CallerError) as caught:
        asyncio.run(read_body({}, receive, 1024, 0.01))
    assert (caught.value.status, caught.value.code) == (408, "body_timeout")
