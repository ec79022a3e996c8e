"""Counting tokens: few questions to an engine at a time, none that outlasts its request, and estimates of the rest."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.backends.permit import Address
from lumbre.backends.traits import LLAMA_CPP
from lumbre.core.errors import CapacityError
from lumbre.runtime.lanes import Lane
from lumbre.runtime.token_count import TokenCounter, estimate
from raw_upstream import Upstream, read_request, run, soon

CHAT = "/chat/completions"
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
COUNTED = b'{"input_tokens": 7}'
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(COUNTED), COUNTED)


class Engine:
    """Answers when it is told to, and knows how many questions it had at once."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.most = 0
        self._now = 0
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(json.loads((await read_request(reader)).partition(b"\r\n\r\n")[2]))
        self._now += 1
        self.most = max(self.most, self._now)
        if self._now == 2:
            self.arrived.set()
        await self.go.wait()
        self._now -= 1
        writer.write(REPLY)
        await writer.drain()


def lane(upstream: Upstream, lane_id: str = "llama") -> Lane:
    return Lane(lane_id, 2, "m", address=Address(f"{upstream.url}/v1"), traits=LLAMA_CPP)


def test_an_engine_is_asked_two_questions_at_a_time() -> None:
    engine = Engine()

    async def scene(upstream: Upstream) -> None:
        counter, one = TokenCounter(upstream.outbound), lane(upstream)
        asking = [asyncio.create_task(counter.count(one, CHAT, ASKED, None, until=soon())) for _ in range(9)]
        await engine.arrived.wait()
        assert upstream.connections == 2
        engine.go.set()
        assert await asyncio.gather(*asking) == [7] * 9

    run(engine.serve, scene)
    assert (len(engine.asked), engine.most) == (9, 2)


def test_a_wait_for_the_engine_or_for_a_place_ends_with_the_time_that_there_is() -> None:
    engine = Engine()

    async def scene(upstream: Upstream) -> None:
        counter, one = TokenCounter(upstream.outbound), lane(upstream)
        clock = asyncio.get_running_loop().time
        began = clock()
        asking = [counter.count_or_estimate(one, CHAT, ASKED, None, until=began + 0.3) for _ in range(5)]
        assert await asyncio.gather(*asking) == [(estimate(ASKED), True)] * 5
        assert 0.2 < clock() - began < 2
        assert await counter.count(one, CHAT, ASKED, None, until=began) is None
        engine.go.set()
        assert await counter.count(one, CHAT, ASKED, None, until=soon()) == 7, "places were not given back"

    run(engine.serve, scene)
    assert len(engine.asked) == 3


def test_who_has_lost_the_right_to_it_by_the_time_of_its_turn_has_nothing_counted() -> None:
    engine = Engine()

    async def scene(upstream: Upstream) -> None:
        counter, one = TokenCounter(upstream.outbound), lane(upstream)
        full = False

        def check() -> None:
            if full:
                raise CapacityError("full", status=429)

        asking = [asyncio.create_task(counter.count(one, CHAT, ASKED, None, until=soon(), check=check)) for _ in "1234"]
        await engine.arrived.wait()
        full = True
        engine.go.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert found[:2] == [7, 7]
        assert [type(each) for each in found[2:]] == [CapacityError, CapacityError]
        with pytest.raises(CapacityError):
            await counter.count(one, CHAT, ASKED, None, until=soon(), check=check)

    run(engine.serve, scene)
    assert len(engine.asked) == 2


def test_the_engines_do_not_wait_for_each_other() -> None:
    engine = Engine()

    async def scene(upstream: Upstream) -> None:
        counter = TokenCounter(upstream.outbound)
        lanes = [lane(upstream, name) for name in ("one", "one", "two")]
        asking = [asyncio.create_task(counter.count(each, CHAT, ASKED, None, until=soon())) for each in lanes]
        await engine.arrived.wait()
        engine.go.set()
        assert await asyncio.gather(*asking) == [7, 7, 7]

    run(engine.serve, scene)
    assert engine.most >= 2


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def test_an_image_is_not_estimated_by_the_bytes_of_its_file() -> None:
    text = {"type": "text", "text": "what is it?"}
    assert estimate(user(text, IMAGE)) == estimate(user(text)) + 2000
    assert estimate(user(IMAGE, text, IMAGE)) == estimate(user(text)) + 4000


def test_texts_calls_and_tools_are_estimated_by_their_bytes() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "x" * 400}}
    plain = estimate(ASKED)
    assert plain == 4
    assert estimate({"messages": [*ASKED["messages"], {"role": "assistant", "tool_calls": [call]}]}) > plain + 100
    assert estimate({**ASKED, "tools": [{"function": {"description": "y" * 4000}}]}) > plain + 1000
    assert estimate({"messages": [{"role": "user", "content": "ñ" * 200}]}) == 104
    assert estimate({"messages": []}) == 1


def _messages() -> st.SearchStrategy[Any]:
    text = st.text(max_size=80)
    part = st.one_of(st.fixed_dictionaries({"type": st.just("text"), "text": text}), st.just({"type": "image_url"}))
    return st.fixed_dictionaries({"role": st.just("user"), "content": st.one_of(st.none(), text, st.lists(part))})


@given(st.lists(_messages(), min_size=1, max_size=6))
def test_an_estimate_grows_with_every_message_and_never_with_what_is_no_text(messages: list[dict[str, Any]]) -> None:
    sizes = [estimate({"messages": messages[:count]}) for count in range(len(messages) + 1)]
    assert sizes == sorted(sizes)
    assert estimate({"messages": messages, "user": "x" * 999, "metadata": {"a": "b"}}) == sizes[-1]
