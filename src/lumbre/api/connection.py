"""One client's connection: takes its bytes, answers its requests in their order, and says when it has gone. A protocol
of the event loop; `intake` makes requests of the bytes, `front` decides who may come in and who answers.

Two rules stand behind it. A connection with an answer on it is read all the time, for only so is the client's leaving
seen; what it sends meanwhile is kept up to a bound. And nothing waits for ever: not for a head, not for a body, not for
a client that does not read.
"""

import asyncio
import logging
from collections import deque
from typing import Protocol, cast

from lumbre.api.alarm import Alarm
from lumbre.api.bounds import Bounds
from lumbre.api.intake import Intake
from lumbre.api.reply import Reply
from lumbre.api.request import Handler, Request
from lumbre.core.errors import LumbreError
from lumbre.core.outbox import Outbox, Outlet

log = logging.getLogger(__name__)

_PROGRESS_BYTES = 65_536
"""What a client has to take in within `flush_s` to be waited for further."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Gatekeeper(Protocol):
    """Whom the connection asks about a request."""

    def admit(self, request: Request) -> None:
        """Look at a request's head and set its handler.

        Raises:
            LumbreError: it may not come in.
        """

    def refuse(self, reply: Reply, request: Request, error: LumbreError) -> None:
        """Send an error as a whole reply, in the shape of the API that was called."""

    def opened(self, connection: "Connection") -> None:
        """A client has connected."""

    def lost(self, connection: "Connection") -> None:
        """A client has gone."""


class Connection(asyncio.Protocol):
    """The connection.

    Attributes:
        gone: the client has left, or is no longer listened to.
        closes: it ends with the answer in hand.
    """

    def __init__(self, keeper: Gatekeeper, bounds: Bounds, outbox: Outbox) -> None:
        self._keeper = keeper
        self._outbox = outbox
        self._bounds = bounds
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm()
        self._intake = Intake(self, bounds)
        self._transport: asyncio.Transport | None = None
        self._outlet: Outlet | None = None
        self._queue: deque[Request] = deque()
        self._queued_bytes = 0
        self._unsent = 0
        self._continue_due = False
        self._paused = False
        self._task: asyncio.Task[None] | None = None
        self._reply: Reply | None = None
        self._room: asyncio.Future[None] | None = None
        self.gone = False
        self.closes = False

    # What a reply asks of it

    @property
    def congested(self) -> bool:
        """Whether the transport holds as much as it should of what the client has not taken in yet."""
        return self._room is not None

    def write(self, data: bytes) -> None:
        """Send bytes; after the client has gone, nothing."""
        if not self.gone and self._outlet is not None:
            self._outlet.write(data)

    async def room(self) -> None:
        """Wait until the transport can take more."""
        if self._room is not None:
            await asyncio.shield(self._room)

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so
        self._outlet = Outlet(self._outbox, self._transport)
        self._keeper.opened(self)
        self._alarm.put_off(self._bounds.head_s, self._overdue)

    def connection_lost(self, _error: Exception | None) -> None:
        """The connection is gone, whoever closed it."""
        self._leave()
        self._alarm.stop()
        self._keeper.lost(self)

    def eof_received(self) -> None:
        """The client sends nothing more. One that only half-closed looks like one that left, and is taken for it."""
        if self._task is not None and self._reply is not None and not self._reply.ended:
            self.abort()
        else:
            self._hear_no_more()
            self._await_reader()

    def pause_writing(self) -> None:
        """The client reads slower than it is written to."""
        self._room = self._loop.create_future()
        if self._task is None:  # the answer has been made, and left at the end of the turn
            self._await_reader()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None
        self._go_on()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self.closes:
            return  # only the client's end matters now
        self._intake.feed(data)
        if self._busy:
            if self._queued_bytes + self._intake.held > self._bounds.ahead_bytes:
                self._too_far_ahead()
        elif self._intake.in_head and self._alarm.act != self._overdue:
            self._alarm.put_off(self._bounds.head_s, self._overdue)

    # What the intake tells it

    def head(self, request: Request, *, with_body: bool) -> None:
        """A head is whole; see `Receiver`."""
        self._keeper.admit(request)
        if with_body:
            self._continue_due = "expect" in request.headers and request.version != "1.0"
            if not self._busy:
                self._await_body()

    def whole(self, request: Request) -> None:
        """A request is whole."""
        self._queue.append(request)
        self._queued_bytes += request.size
        if not self._busy:
            self._go_on()

    def wrong(self, request: Request, error: LumbreError) -> None:
        """Tell what is wrong with what is coming in, and close; behind another request, only close after its answer."""
        has_turn = not self._queue and self._task is None
        self._hear_no_more()
        if has_turn:
            self._turn_away(request, error)
        elif self._task is None:
            self._close_gently()

    # Answering

    @property
    def _busy(self) -> bool:
        """Whether what comes has to wait: for the answer in hand, or for a client that does not read the last one."""
        return self._task is not None or self._room is not None

    def _go_on(self) -> None:
        """Answer what has come, one after the other; where nothing is left, wait for what comes."""
        while self._queue and not self._busy and not self.closes:
            request = self._queue.popleft()
            self._queued_bytes -= request.size
            if request.handler is None:
                self._turn_away(request, request.refusal or LumbreError("nobody answers this"))
            else:
                self._alarm.clear()
                self._reply = reply = Reply(self, request)
                reply.task = self._task = self._loop.create_task(self._answer(request.handler, request, reply))
        if not self.closes:
            self._await_more()

    def _await_more(self) -> None:
        if self._paused and self._room is None:
            self._listen()
        if self._task is not None:
            return
        if self._room is not None:
            self._await_reader()
        elif self._intake.in_head:
            self._alarm.put_off(self._bounds.head_s, self._overdue)
        elif self._intake.in_body:
            self._await_body()
        else:
            self._alarm.put_off(self._bounds.idle_s, self._rested)

    def _await_body(self) -> None:
        if self._continue_due:
            self._continue_due = False
            self.write(_CONTINUE)
        self._alarm.put_off(self._bounds.body_s, self._overdue)

    def _turn_away(self, request: Request, error: LumbreError) -> None:
        self._reply = Reply(self, request)
        self._keeper.refuse(self._reply, request, error)
        self._answered(self._reply)

    async def _answer(self, handler: Handler, request: Request, reply: Reply) -> None:
        try:
            await handler(request, reply)
        except Exception:  # shape: the last line of defence of a connection; handlers tell of what they know
            log.exception("a handler failed")
        finally:
            self._task = None
            self._answered(reply)
            self._go_on()

    def _answered(self, reply: Reply) -> None:
        """An answer is over; close where nothing can follow it."""
        if self.gone or self._transport is None:
            return
        if not reply.ended or reply.given_up:
            # To close it would be to wait until the client has read what lies here; it may never do.
            self._unsent_bytes()
            self.abort()
        elif self.closes:
            self._close_gently()
        elif not reply.keeps_alive:
            self._hear_no_more()
            self._close_when_read()

    # Leaving

    def close(self) -> None:
        """Close it when what is in hand is done; at once if nothing is."""
        if self._task is not None:
            self._hear_no_more()
        elif self._transport is not None and not self._transport.is_closing():
            self._hear_no_more()
            self._close_when_read()

    def _hear_no_more(self) -> None:
        """Finish what is in hand, take nothing more, and close: HTTP lets a server close after any reply."""
        self.closes = True
        self._intake.stop()
        self._queue.clear()
        self._listen()

    def _too_far_ahead(self) -> None:
        """More came than is kept. Where the answer is out, no engine works for nobody: it may wait on the way."""
        if self._reply is not None and self._reply.ended and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        else:
            self._hear_no_more()

    def _listen(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = False

    def _close_gently(self) -> None:
        """Closing at once would reset the connection under what the client still sends, and it would not read why."""
        if self._transport is not None and not self._transport.is_closing():
            unsent = self._unsent_bytes()
            self._transport.write_eof()
            if unsent:
                self._await_reader()
            else:
                self._alarm.put_off(self._bounds.linger_s, self.abort)

    def _close_when_read(self) -> None:
        """Close; that waits for what is not sent yet, and would wait for ever."""
        self._await_reader()
        if self._transport is not None:
            self._transport.close()

    def _unsent_bytes(self) -> int:
        """What the transport holds of what was written, all of which it has been given then."""
        if self._transport is None or self._outlet is None:
            return 0
        self._outlet.flush()
        return self._transport.get_write_buffer_size()

    def _await_reader(self) -> None:
        """Wait for the client to take in what lies here; one that reads, if slowly, is waited for again."""
        self._unsent = self._unsent_bytes()
        self._alarm.put_off(self._bounds.flush_s, self._reader_overdue)

    def _reader_overdue(self) -> None:
        unsent = self._unsent_bytes()
        if 0 < unsent <= self._unsent - _PROGRESS_BYTES:
            self._await_reader()
        else:
            self.abort()

    def abort(self) -> None:
        """Close it now, whatever it does."""
        if self._outlet is not None:
            self._outlet.drop()
        if self._transport is not None:
            self._transport.abort()
        self._leave()

    def _leave(self) -> None:
        """Nobody is there any more: give up what is in hand."""
        self.gone = True
        self._hear_no_more()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None
        if self._task is not None and self._reply is not None and not self._reply.ended:
            self._task.cancel()

    def _overdue(self) -> None:
        if self._intake.in_head or self._intake.in_body or self._intake.unheard:
            self._intake.late()
        else:
            self._rested()

    def _rested(self) -> None:
        if self._transport is None:
            return
        if self._unsent_bytes():
            self.abort()
        else:
            self._transport.close()
