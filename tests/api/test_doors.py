"""A large body is looked at beside the loop, and how deep one may be."""

import asyncio
from typing import Any

import orjson
import pytest

from lumbre.api.body import DEPTH_LIMIT, parse_object
from lumbre.api.doors import understand
from lumbre.api.openai_schema import CHAT_REQUEST
from lumbre.core.errors import CallerError

MESSAGES = [{"role": "user", "content": "hi"}]


def test_the_loop_goes_on_while_a_large_body_is_looked_at() -> None:
    async def turns() -> int:
        raw = orjson.dumps({"messages": MESSAGES * 50_000})
        looking = asyncio.create_task(understand(raw, CHAT_REQUEST))
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
        asyncio.run(understand(raw, CHAT_REQUEST))
    assert caught.value.param == "n"


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
