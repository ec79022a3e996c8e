"""An engine that misbehaves by dice: it answers, drips, stalls, resets, refuses, and cuts its answers off. Run as a
process of its own, so that it can also die:

    python bench/decision/chaos.py --port PORT --seen FILE [--calm]

It speaks the part of OpenAI's API that the gateway asks tiers for. Every request that has come whole is written into
FILE before anything else happens to it: one line with the monotonic clock's nanoseconds and the request's tag. So the
count outlives it. Once it listens it says so: {"url": "http://127.0.0.1:PORT"}.
"""

import argparse
import asyncio
import os
import random
import re
import socket
import struct
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httptools
import orjson

MODEL = "chaos"
TEXT = '{"answer": 42}'
"""What it says to everybody; it fits the one schema that is asked for."""
PIECES = ("{", '"answer"', ": ", "42", "}")
TAG = re.compile(rb"tag-\d+")

ACTS = ("answer", "drip", "stall", "reset", "500", "503", "429", "cut", "error")
MOODS: Mapping[str, Sequence[int]] = {
    "calm": (1, 0, 0, 0, 0, 0, 0, 0, 0),
    "well": (920, 30, 4, 8, 8, 6, 1, 8, 8),
    "rough": (720, 60, 30, 40, 40, 30, 5, 30, 30),
    "ill": (0, 0, 10, 30, 30, 30, 0, 0, 0),
}
"""How often each act is done, by mood."""
MOOD_WEIGHTS = {"well": 75, "rough": 20, "ill": 5}
MOOD_S = (1.0, 6.0)
THINKS_S, GAP_S, DRIP_S, STALL_S = 0.15, 0.03, 0.5, 60.0
"""How long it thinks at most; how long it takes for a piece, as a rule and when it drips; how long it says nothing."""
_NOTHING_MORE = struct.pack("ii", 1, 0)

Request = tuple[str, dict[str, Any]]


class Engine:
    """The dice, and the count."""

    def __init__(self, seen: Path, *, calm: bool) -> None:
        self._dice = random.Random()  # noqa: S311 it keeps no secret
        self._calm = calm
        self._mood, self._until = "calm", 0.0
        self._seen = os.open(seen, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, body: bytes) -> None:
        """A request has come."""
        found = TAG.search(body)
        os.write(self._seen, b"%d %s\n" % (time.monotonic_ns(), found.group() if found else b"-"))

    def act(self) -> str:
        """What is done to the next request."""
        return self._dice.choices(ACTS, MOODS[self.mood()])[0]

    def mood(self) -> str:
        """The one of now."""
        now = time.monotonic()
        if not self._calm and now >= self._until:
            self._mood = self._dice.choices(tuple(MOOD_WEIGHTS), tuple(MOOD_WEIGHTS.values()))[0]
            self._until = now + self._dice.uniform(*MOOD_S)
        return self._mood

    async def think(self, most_s: float) -> None:
        """Take a while."""
        if not self._calm:
            await asyncio.sleep(self._dice.uniform(0, most_s))

    def tosses(self) -> bool:
        """Heads."""
        return self._dice.random() < 0.5


class Connection(asyncio.Protocol):
    """One client, one request after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 it is what TCP has
        self._transport = transport

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        path = self._url.decode()
        if self._parser.get_method() == b"GET":
            self._look()
            return
        self._engine.note(self._body)
        request = path, orjson.loads(self._body)
        self._task = asyncio.get_running_loop().create_task(self._answer(request))

    def _look(self) -> None:
        """The gateway's probe; a sick engine fails it."""
        models = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "chaos"}]}
        if self._engine.mood() == "ill":
            self._whole(500, _error("sick"))
        else:
            self._whole(200, models)

    async def _answer(self, request: Request) -> None:
        path, body = request
        stream = body.get("stream") is True
        await self._engine.think(THINKS_S)
        match self._engine.act():
            case "answer":
                await self._say(path, body, gap_s=GAP_S)
            case "drip":
                await self._say(path, body, gap_s=DRIP_S)
            case "stall":
                if stream and self._engine.tosses():
                    await self._say(path, body, gap_s=GAP_S, pieces=2)
                await asyncio.sleep(STALL_S)
            case "reset":
                self._reset()
            case "cut":
                await self._say(path, body, gap_s=GAP_S, pieces=2)
                self._leave()
            case "429":
                self._whole(429, _error("too much"), "Retry-After: 1\r\n")
            case "error" if stream:
                self._head()
                self._chunk(b"data: %s\n\n" % orjson.dumps(_error("out of memory")))
                self._chunk(b"")
            case "503":
                self._whole(503, _error("busy"))
            case _:
                self._whole(500, _error("broken"))

    async def _say(self, path: str, body: dict[str, Any], *, gap_s: float, pieces: int | None = None) -> None:
        """Answer, or as much of it as `pieces` says; a slow answer is as slow whole as in a stream."""
        if body.get("stream") is True:
            self._head()
            said = 0
            async for event in self._events(path, body, gap_s):
                self._chunk(event)
                said += 1
                if said == pieces:
                    return
            self._chunk(b"")
            return
        await self._engine.think(gap_s * len(PIECES))
        data = _reply(200, orjson.dumps(_document(path, body)))
        self._write(data if pieces is None else data[: -len(TEXT)])

    async def _events(self, path: str, body: dict[str, Any], gap_s: float) -> AsyncIterator[bytes]:
        for number, piece in enumerate(PIECES):
            yield _event(_chunk_of(path, piece, first=number == 0, end=None))
            await self._engine.think(gap_s)
        yield _event(_chunk_of(path, "", first=False, end="stop"))
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event(_chunk_of(path, None, first=False, end=None) | {"usage": USAGE})
        yield b"data: [DONE]\n\n"

    def _head(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def _whole(self, status: int, document: object, more: str = "") -> None:
        self._write(_reply(status, orjson.dumps(document), more))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _leave(self) -> None:
        if self._engine.tosses():
            self._reset()
        elif self._transport is not None:
            self._transport.close()

    def _reset(self) -> None:
        if self._transport is not None:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOTHING_MORE)
            self._transport.abort()


USAGE = {"prompt_tokens": 12, "completion_tokens": len(PIECES), "total_tokens": 12 + len(PIECES)}


def _reply(status: int, body: bytes, more: str = "") -> bytes:
    head = f"HTTP/1.1 {status} So\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def _event(document: object) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(document)


def _document(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    always = {"id": "chaos-1", "created": 1, "model": body.get("model")}
    if path.endswith("/embeddings"):
        data = [{"object": "embedding", "index": 0, "embedding": [0.25, 0.5]}]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return always | {"object": "list", "data": data, "usage": usage}
    end = {"index": 0, "finish_reason": "stop", "logprobs": None}
    if path.endswith("/chat/completions"):
        choice = end | {"message": {"role": "assistant", "content": TEXT}}
        return always | {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    return always | {"object": "text_completion", "choices": [end | {"text": TEXT}], "usage": USAGE}


def _chunk_of(path: str, piece: str | None, *, first: bool, end: str | None) -> dict[str, Any]:
    """One chunk of a stream; without a piece, one that has no choice."""
    chat = path.endswith("/chat/completions")
    always = {"id": "chaos-1", "created": 1, "model": MODEL}
    always["object"] = "chat.completion.chunk" if chat else "text_completion"
    if piece is None:
        return always | {"choices": []}
    choice: dict[str, Any] = {"index": 0, "finish_reason": end, "logprobs": None}
    if chat:
        choice["delta"] = {"role": "assistant"} if first else {}
        choice["delta"] |= {"content": piece} if piece else {}
    else:
        choice["text"] = piece
    return always | {"choices": [choice]}


def port_of(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port


def bound(port: int) -> socket.socket:
    """A socket at the port (0: a free one), which others may be bound to as well.

    Whoever keeps one, and does not listen on it, keeps the port for an engine that dies and comes back.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock


async def serve(port: int, engine: Engine) -> None:
    """Serve until the process ends."""
    sock = bound(port)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(engine), sock=sock, backlog=1024)
    print(orjson.dumps({"url": f"http://127.0.0.1:{port_of(sock)}"}).decode(), flush=True)
    await server.serve_forever()


def main() -> None:
    """Read the line of the shell, and serve."""
    parser = argparse.ArgumentParser("chaos", description="An engine that misbehaves.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seen", type=Path, required=True, help="the file of what has come")
    parser.add_argument("--calm", action="store_true", help="answer everything at once")
    options = parser.parse_args()
    asyncio.run(serve(options.port, Engine(options.seen, calm=options.calm)))


if __name__ == "__main__":
    main()
