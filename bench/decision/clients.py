"""The clients of the soak: what each asks for, how it reads, and when it loses patience. Driver over plain sockets;
`verdicts` says what came of it.
"""

import asyncio
import random
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httptools
import orjson
from bench.decision.verdicts import LEFT, Verdict, verdict

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
DOORS: Mapping[str, int] = {CHAT: 50, MESSAGES: 20, RESPONSES: 15, COMPLETIONS: 10, EMBEDDINGS: 5}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
STRICT = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
IDLE_S = 1.0
"""How long a client keeps a connection for another request; the gateway keeps it longer."""

Hint = Mapping[str, str]

HINTS: Mapping[str, tuple[int, Hint]] = {
    "none": (45, {}),
    "high": (15, {"x-lumbre-complexity": "high"}),
    "background": (7, {"x-lumbre-complexity": "high", "x-lumbre-class": "background"}),
    "express": (7, {"x-lumbre-label": "express"}),
    "batch": (5, {"x-lumbre-label": "batch", "x-lumbre-closed": "fall"}),
    "a": (7, {"x-lumbre-tier": "A"}),
    "c": (7, {"x-lumbre-tier": "C"}),
    "bound": (4, {"x-lumbre-affinity": "B"}),
    "inside": (3, {"x-lumbre-external": "never"}),
}
LEAVING_SHARE = 0.06
STRICT_SHARE = 0.05
LEAVES_S = (0.0, 0.3)


@dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        tag: the word that it is known by, in its text.
        leaves_s: when its client goes away; None: it stays.
        resets: it goes with a reset, and does not say goodbye.
        keeps: it uses a connection that is open already, and leaves it open.
    """

    tag: str
    door: str
    body: bytes
    hint: Hint
    stream: bool
    leaves_s: float | None = None
    resets: bool = False
    keeps: bool = True


def random_ask(dice: random.Random, tag: str) -> Ask:
    """Any request."""
    door = dice.choices(tuple(DOORS), tuple(DOORS.values()))[0]
    _, hint = dice.choices(tuple(HINTS.values()), [share for share, _ in HINTS.values()])[0]
    stream = door != EMBEDDINGS and dice.random() < 0.5
    strict = door == CHAT and dice.random() < STRICT_SHARE
    leaves_s = dice.uniform(*LEAVES_S) if dice.random() < LEAVING_SHARE else None
    return Ask(
        tag,
        door,
        body_of(door, tag, stream=stream, strict=strict),
        hint,
        stream,
        leaves_s,
        resets=dice.random() < 0.5,
        keeps=dice.random() < 0.7,
    )


def body_of(door: str, tag: str, *, stream: bool, strict: bool = False) -> bytes:
    """A small request whose text is its tag."""
    body: dict[str, Any] = {"model": "auto"}
    if door == EMBEDDINGS:
        body["input"] = tag
    elif door == COMPLETIONS:
        body |= {"prompt": tag, "max_tokens": 16}
    elif door == RESPONSES:
        body |= {"input": tag, "store": False}
    else:
        body |= {"messages": [{"role": "user", "content": tag}], "max_tokens": 16}
    if stream:
        body["stream"] = True
    if strict:
        body["response_format"] = STRICT
    return orjson.dumps(body)


@dataclass
class Heard:
    """What came of one request.

    Attributes:
        decision: the id that the gateway gave it; empty if the client left before it was told.
        seconds: from the first byte out to the end.
    """

    ask: Ask
    verdict: Verdict
    decision: str
    status: int
    seconds: float


@dataclass
class _Reply:
    """httptools' callbacks, and what they told."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    status: int = 0
    is_whole: bool = False
    on_head: Callable[[], int] = lambda: 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self.on_head()

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.is_whole = True


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Clients:
    """All of them, and the connections that they keep.

    Args:
        limit_s: by when a request must have been answered.
    """

    def __init__(self, host: str, port: int, *, limit_s: float) -> None:
        self._place = host, port
        self._limit_s = limit_s
        self._idle: list[tuple[float, Streams]] = []
        self.open = 0

    async def ask(self, ask: Ask) -> Heard:
        """Ask, and hear it to its end."""
        clock = asyncio.get_running_loop().time
        began = clock()
        reply = _Reply()
        self.open += 1
        try:
            async with asyncio.timeout(self._limit_s if ask.leaves_s is None else ask.leaves_s):
                came = await self._exchange(ask, reply)
        except TimeoutError:
            came = LEFT if ask.leaves_s is not None else Verdict("wrong", f"no end within {self._limit_s:g} s")
        except OSError as error:
            came = Verdict("wrong", f"the connection broke: {error!r}")
        finally:
            self.open -= 1
        return Heard(ask, came, reply.headers.get("x-lumbre-decision", ""), reply.status, clock() - began)

    def close(self) -> None:
        """Let go of every connection."""
        for _, (_, writer) in self._idle:
            writer.close()
        self._idle.clear()

    async def _exchange(self, ask: Ask, reply: _Reply) -> Verdict:
        reader, writer = await self._connected(ask)
        keeps = False
        try:
            writer.write(self._request(ask))
            parser = httptools.HttpResponseParser(reply)
            reply.on_head = parser.get_status_code
            while not reply.is_whole:
                data = await reader.read(65_536)
                if not data:
                    return Verdict("wrong", f"it was cut off after {reply.status or 'nothing'}: {reply.body[-200:]!r}")
                parser.feed_data(data)
            keeps = ask.keeps and parser.should_keep_alive()
        finally:
            self._over((reader, writer), ask, whole=reply.is_whole, keeps=keeps)
        media = reply.headers.get("content-type", "").partition(";")[0]
        return verdict(ask.door, stream=ask.stream, status=reply.status, content_type=media, body=bytes(reply.body))

    def _over(self, streams: Streams, ask: Ask, *, whole: bool, keeps: bool) -> None:
        _, writer = streams
        if keeps:
            self._idle.append((asyncio.get_running_loop().time() + IDLE_S, streams))
            return
        if not whole and ask.resets:
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    async def _connected(self, ask: Ask) -> Streams:
        now = asyncio.get_running_loop().time()
        while self._idle and self._idle[0][0] < now:
            self._idle.pop(0)[1][1].close()
        while ask.keeps and self._idle:
            _, streams = self._idle.pop()
            if not streams[0].at_eof():
                return streams
            streams[1].close()
        return await asyncio.open_connection(*self._place)

    def _request(self, ask: Ask) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in ask.hint.items())
        closing = "" if ask.keeps else "Connection: close\r\n"
        head = (
            f"POST {ask.door} HTTP/1.1\r\nHost: {self._place[0]}:{self._place[1]}\r\nContent-Type: application/json\r\n"
            f"{lines}{closing}Content-Length: {len(ask.body)}\r\n\r\n"
        )
        return head.encode() + ask.body
