"""What a request to OpenAI's older endpoints asks for: itself. Pure; the doors call it."""

from typing import Any

from lumbre.api.doors import MakeCall
from lumbre.gateway.hints import Hints
from lumbre.runtime.call import Call


def as_it_is(endpoint: str) -> MakeCall:
    """The call of an endpoint whose requests engines take as they are."""

    async def call(decision: str, body: dict[str, Any], headers: dict[str, str], hints: Hints) -> Call:
        return Call(decision, endpoint, endpoint, body, headers, hints)

    return call
