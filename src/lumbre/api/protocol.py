"""Takes HTTP off one connection: how long and how slow a head may be, what is told to whoever speaks no HTTP, and when
a client counts as gone. Driver: uvicorn's protocol with the bounds that it lacks, between the socket and the ASGI app.

Three rules stand behind it. What the parser holds back is bounded, whatever comes. A connection with an answer on it is
read all the time, for only so is the client's leaving seen. And nothing waits for ever for a client that does not read.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from lumbre.core.errors import CallerError, LumbreError
from lumbre.wire.openai.errors import error_body

HEAD_BYTES = 65_536
"""Of the request's line and headers (and a chunked body's trailers), and of what the parser has not reported yet."""


class HeadTooLarge(Exception):
    """Ends the parsing of a head that is over the limit."""


class Protocol(HttpToolsProtocol):
    """One connection.

    Attributes:
        head_s: seconds for a head, from the connection's first byte, or from the end of the reply before it.
        linger_s: seconds for a client to take a refusal in.
        flush_s: seconds for a client to take in the last bytes of a whole reply.
    """

    head_s = 60.0
    linger_s = 2.0
    flush_s = 60.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._app = self.app
        self.app = self._answer  # type: ignore[assignment, unused-ignore]
        self._answers: list[RequestResponseCycle] = []
        self._unheard_bytes = 0
        self._head_bytes = 0
        self._in_head = False
        self._deaf = False
        self._fault: LumbreError | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._after(self.head_s, self._overdue)

    def connection_lost(self, exc: Exception | None) -> None:
        self._after(None)
        for cycle in self._answers:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._unheard_bytes += len(data)
        super().data_received(data)
        self._heed()

    def _heed(self) -> None:
        """Look at what the parser has made of the last bytes."""
        if self._deaf:
            return
        if self._unheard_bytes > HEAD_BYTES:
            self._refuse(_too_large())
        elif self._timer is None and not self._answers:
            self._after(self.head_s, self._overdue)

    def on_message_begin(self) -> None:
        if self._deaf:
            return
        self._in_head = True
        self._head_bytes = 0
        self._count(0)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._deaf:
            self._count(len(url))
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._deaf:
            self._count(len(name) + len(value) + 4)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._deaf:
            return
        self._in_head = False
        if self._is_answering():
            self._ignore_the_rest()
            return
        self._after(None)
        super().on_headers_complete()
        self._answers.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._unheard_bytes = 0
        if not self._deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unheard_bytes = 0
        if not self._deaf:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            # Closing waits for what is not sent yet, and would wait for ever.
            self._after(self.flush_s, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        message = f"{msg} This gateway speaks plain HTTP/1.1: does the address begin with http:// and not https://?"
        self._refuse(self._fault or CallerError(message, code="invalid_http"))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app; one that gives a reply up leaves a connection that nobody can use any more."""
        cycle = next(each for each in self._answers if each.scope is scope)
        try:
            await self._app(scope, receive, send)  # type: ignore[arg-type, unused-ignore]
        finally:
            self._answers.remove(cycle)
            stuck = cycle.response_started or self.flow.write_paused
            if stuck and not cycle.response_complete and not cycle.disconnected:
                # To close it would be to wait until the client has read what lies here; it may never do.
                cycle.disconnected = True
                self.transport.abort()

    def _count(self, size: int) -> None:
        self._unheard_bytes = 0
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            self._fault = _too_large()
            raise HeadTooLarge

    def _is_answering(self) -> bool:
        """Whether a request is here whole and its reply is not out yet."""
        cycle = self._latest()
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        # The last byte of a reply of known length may be with the client before the app has said that it was the last.
        sized = cycle.response_started and cycle.chunked_encoding is False
        return not (sized and cycle.expected_content_length == 0)

    def _latest(self) -> RequestResponseCycle | None:
        return self.cycle  # None until the first request, whatever uvicorn's types say

    def _ignore_the_rest(self) -> None:
        """Finish the answer, take nothing more, and close.

        uvicorn would queue a second request and stop reading, and so never see the client leave. HTTP lets a server
        close after any reply, and a client that pipelines then asks again. What it sends meanwhile is thrown away;
        only its end matters.
        """
        self._deaf = True
        self.cycle.keep_alive = False

    def _overdue(self) -> None:
        if self._in_head:
            message = f"the request's head was not whole within {self.head_s:g} s"
            self._refuse(CallerError(message, status=408, code="head_timeout"))
        elif self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _refuse(self, error: LumbreError) -> None:
        """Tell what is wrong with the request that is coming in, and close."""
        if self._is_answering():
            self._ignore_the_rest()
            return
        self._deaf = True
        cycle = self._latest()
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        body = error_body(error, None)
        head = [
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "\r\n"]).encode() + body)
        # Closing at once would reset the connection under what the client still sends, and it would not read why.
        self.transport.write_eof()
        self.flow.resume_reading()
        self._after(self.linger_s, self.transport.abort)

    def _after(self, delay_s: float | None, act: Callable[[], None] | None = None) -> None:
        """Put one act off, instead of the one that was put off before; None: none at all."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if delay_s is None or act is None else self.loop.call_later(delay_s, act)


def _too_large() -> LumbreError:
    message = f"the request's line and headers are longer than {HEAD_BYTES} bytes"
    return CallerError(message, status=431, code="head_too_large")
