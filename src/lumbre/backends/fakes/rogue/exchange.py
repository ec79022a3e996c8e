"""One request and its reply, written as an act wants: framing, holds, cuts. Driven by `rogue.acts`."""

import asyncio
from collections.abc import Iterable, Mapping

from lumbre.backends.fakes.rogue.record import Book, Record
from lumbre.backends.fakes.rogue.wire import LONGEST_WAIT_S, Connection, OutOfPatience, PeerGone, write_head
from lumbre.backends.fakes.rogue.wish import Ask, Wish

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
CHUNKED = -1
COOKIES = "session=s3cret; Path=/\ntracker=1"


class Exchange:
    """What an act plays on."""

    def __init__(self, connection: Connection, book: Book, record: Record, ask: Ask) -> None:
        self.ask = ask
        self.path = record.path
        self.chat = record.path.endswith("/chat/completions")
        self.messages = record.path.endswith("/messages")
        self.is_open = True
        """False once the act has closed the connection."""
        self._connection = connection
        self._book = book
        self._record = record
        self._chunked = False

    @property
    def wish(self) -> Wish:
        return self.ask.wish

    @property
    def given(self) -> bytes:
        """The request's body."""
        return self._record.body

    async def head(
        self, status: int, content_type: str, length: int = CHUNKED, extra: Mapping[str, str] | None = None
    ) -> None:
        """Send the reply's head; `length` is what Content-Length claims, true or not."""
        self._chunked = length == CHUNKED
        headers = {"Content-Type": content_type, "Server": "rogue"}
        headers |= {"Transfer-Encoding": "chunked"} if self._chunked else {"Content-Length": str(length)}
        headers |= {"Set-Cookie": COOKIES} if self.wish.cookies else {}
        await self._connection.write(write_head(status, {**headers, **(extra or {})}))

    async def reply(self, status: int, content_type: str, body: bytes, extra: Mapping[str, str] | None = None) -> None:
        """Send a whole reply with an honest length."""
        await self.head(status, content_type, len(body), extra)
        await self.write(body)

    async def write(self, data: bytes) -> None:
        """Send one piece of the body: one HTTP chunk where the body is chunked."""
        if not data:
            return
        if self.wish.hold:
            await self.hold()
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data
        # Recorded first: a client that has a byte must find it in the record.
        self._book.sent(self._record, data)
        size = 1 if self.wish.split == "wire" else len(framed)
        for at in range(0, len(framed), size):
            await self._connection.write(framed[at : at + size])
            await asyncio.sleep(0)

    async def write_events(self, events: Iterable[bytes]) -> None:
        """Send events in the writes that the wish's `split` asks for, with its pause between two."""
        for number, part in enumerate(self._split(tuple(events))):
            if number and self.wish.pause_s:
                await self.pause(self.wish.pause_s)
            await self.write(part)

    def _split(self, events: tuple[bytes, ...]) -> Iterable[bytes]:
        whole = b"".join(events)
        match self.wish.split:
            case "joined":
                return (whole,)
            case "bytes":
                return (whole[at : at + 1] for at in range(len(whole)))
            case "cut":
                return (whole[: self.wish.at], whole[self.wish.at :])
            case _:
                return events

    async def end(self) -> None:
        """End a chunked body as HTTP wants it."""
        if self._chunked:
            await self._connection.write(b"0\r\n\r\n")

    async def hold(self) -> None:
        """Wait until a test releases this step."""
        record, gone = self._record, self._connection.gone
        record.held += 1
        step = record.held
        self._book.change()
        if not await self._book.until(lambda: gone.is_set() or self._book.released[record.id] >= step, LONGEST_WAIT_S):
            raise OutOfPatience
        if gone.is_set():
            raise PeerGone

    async def pause(self, seconds: float) -> None:
        await self._connection.pause(seconds)

    async def until_gone(self) -> None:
        await self._connection.until_gone()

    async def write_raw(self, data: bytes) -> None:
        """Send bytes outside any framing."""
        await self._connection.write(data)

    def cut(self, reset: bool = False) -> None:
        """Close the connection, whatever was promised."""
        self._connection.close(reset)
        self.is_open = False
