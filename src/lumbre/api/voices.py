"""How a failure is told to a client of each API: the error's shape, whole or inside a stream, and its headers. A table
over `wire`; the doors and the front tell with it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lumbre.api.reply import Reply
from lumbre.core.errors import LumbreError
from lumbre.runtime.client import Headers
from lumbre.runtime.dispatch import decision_headers
from lumbre.wire.anthropic import errors as anthropic
from lumbre.wire.openai import errors as openai
from lumbre.wire.responses import errors as responses

ErrorEvent = Callable[[LumbreError, str | None], bytes]

_LAST_WORDS_S = 1.0


@dataclass(frozen=True)
class Voice:
    """One API's way to tell of a failure.

    Attributes:
        body: the error as a whole reply.
        event: the error as the last event of a stream.
        id_header: the name of a header by which this API's clients know a request, besides `x-request-id`.
    """

    body: Callable[[LumbreError, str | None], bytes]
    event: ErrorEvent
    id_header: str | None = None

    def refuse(self, reply: Reply, error: LumbreError, decision: str | None) -> None:
        """Send an error as a whole reply."""
        body = self.body(error, decision)
        reply.whole(error.status, self.headers(error, decision), body)

    def headers(self, error: LumbreError, decision: str | None) -> Headers:
        """The headers of an error reply, but for its length."""
        extra: Mapping[str, Any] = {**error.headers}
        if error.retry_after_s is not None:
            extra = {**extra, "retry-after": str(error.retry_after_s)}
        if error.status == 401:
            # A wrong key is as wrong the next time; one client asks with it for minutes before it says so.
            extra = {**extra, "x-should-retry": "false"}
        known = decision_headers(decision) if decision else []
        return [("content-type", "application/json"), *extra.items(), *known]

    async def tell(
        self, reply: Reply, error: LumbreError, decision: str | None, event: ErrorEvent | None = None
    ) -> None:
        """Tell the client what went wrong: a reply of its own, or the last event of a stream that has begun.

        A client that does not even read that, or has half of another reply, is left alone: its connection is cut.

        Args:
            event: makes that last event, where it has to know the stream.
        """
        if not reply.takes_an_error:
            return
        if not reply.started:
            self.refuse(reply, error, decision)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await reply.room()
                reply.piece((event or self.event)(error, decision))
                reply.end()


OPENAI = Voice(openai.error_body, openai.error_event)
RESPONSES = Voice(responses.error_body, responses.error_event)
ANTHROPIC = Voice(anthropic.error_body, anthropic.error_event, id_header="request-id")
