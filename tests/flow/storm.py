"""Many requests at once, over every door: a wave that is held in the backends, and a rain of short ones that goes on
until it is told to stop. Used by the storm tests.
"""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from flow.flow_house import Json, hint_headers

Headers = dict[str, str]

GROUPS: Mapping[str, Mapping[str, str]] = {
    "auto": {},
    "high": {"complexity": "high"},
    "A": {"tier": "A"},
    "express": {"label": "express"},
    "batch": {"label": "batch"},
    "C": {"tier": "C"},
    "embeddings": {},
    "frail A": {},
    "frail B": {},
}
"""Hints: one group for each way to a tier."""

FRAIL = {"frail A": "frail-a", "frail B": "frail-b"}
"""Groups that ask for a model of which all requests fail, so that a breaker opens, and tries again."""

DOORS = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
DOORS_OF = {
    "C": ("/v1/chat/completions", "/v1/messages", "/v1/responses"),  # nobody outside completes a bare text
    "embeddings": ("/v1/embeddings",),
}


@dataclass(frozen=True)
class Ask:
    """One request; its `id` is the exchange's in the backend."""

    id: str
    group: str
    path: str
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Told:
    """Its reply.

    Attributes:
        sent_s: a moment before the first byte was sent, on the monotonic clock.
        whole: the reply came to its proper end, and no error is in it.
    """

    ask: Ask
    sent_s: float
    status: int
    body: bytes
    whole: bool

    @property
    def is_well(self) -> bool:
        return self.status == 200 and self.whole

    @property
    def code(self) -> str | None:
        return self._error.get("code") or self._own.get("code")

    @property
    def decision(self) -> str | None:
        return self._own.get("decision")

    @property
    def switch(self) -> str | None:
        return self._own.get("switch")

    @property
    def _error(self) -> Json:
        error: Json = json.loads(self.body)["error"] if self.status != 200 else {}
        return error

    @property
    def _own(self) -> Json:
        own: Json = self._error.get("lumbre") or {}
        return own


_numbers = itertools.count(1)


def make_ask(group: str, number: int, **wish: Any) -> Ask:
    """The `number`th request of a group: each door in its turn, streamed and not."""
    name = f"s{next(_numbers)}"
    doors = DOORS_OF.get(group, DOORS)
    door = doors[number % len(doors)]
    stream = group != "embeddings" and number // len(doors) % 2 == 1
    told = json.dumps({"rogue": {"id": name, **wish}})
    body: Json = {"model": FRAIL.get(group, "auto"), "user": told, **({"stream": True} if stream else {})}
    match door:
        case "/v1/embeddings":
            body["input"] = "hello"
        case "/v1/completions":
            body["prompt"] = "hello"
        case "/v1/responses":
            body |= {"input": "hello", "store": False}
        case "/v1/messages":
            del body["user"]
            body |= {"metadata": {"user_id": told}, "max_tokens": 9}
    if door in ("/v1/chat/completions", "/v1/messages"):
        body["messages"] = [{"role": "user", "content": "hello"}]
    return Ask(name, group, door, hint_headers(GROUPS[group]), json.dumps(body).encode())


async def send(url: str, ask: Ask) -> Told:
    """Send a request on a connection of its own, and read the reply to its end."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        head = {"Host": parts.netloc, "Content-Type": "application/json", "Content-Length": str(len(ask.body))}
        lines = "".join(
            f"{name}: {value}\r\n" for name, value in {**head, "Connection": "close", **ask.headers}.items()
        )
        sent_s = time.monotonic()
        writer.write(f"POST {ask.path} HTTP/1.1\r\n{lines}\r\n".encode() + ask.body)
        reply = await reader.read()
    finally:
        writer.transport.abort()  # where the reply is not whole, the gateway is to see that nobody waits for it
    top, _, rest = reply.partition(b"\r\n\r\n")
    status = int(top.split(b" ", 2)[1])
    chunked = b"transfer-encoding: chunked" in top.lower()
    if chunked:
        return Told(ask, sent_s, status, rest, whole=rest.endswith(b"0\r\n\r\n") and b'"error":{' not in rest)
    length = int(next(line for line in top.lower().split(b"\r\n") if line.startswith(b"content-length:"))[15:])
    return Told(ask, sent_s, status, rest, whole=len(rest) == length)


class Storm:
    """The traffic on a gateway, made in a thread of its own."""

    def __init__(self, url: str) -> None:
        self.rained: list[Told] = []
        """What has come back of the rain."""
        self.waved: list[Told] = []
        self.failures: list[str] = []
        """Requests that had no reply at all."""
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[Any] = set()
        self._raining = True

    def __enter__(self) -> "Storm":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._give_up(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def wave(self, size: int) -> list[Ask]:
        """Send so many requests at once; each is held in its backend until it is released."""
        groups = itertools.cycle(group for group in GROUPS if group not in FRAIL)
        asks = [make_ask(next(groups), number // (len(GROUPS) - len(FRAIL)), hold=True) for number in range(size)]
        for ask in asks:
            self._begin(self._once(ask))
        return asks

    def rain(self) -> None:
        """Send short requests of each group, one after the other, until the end."""
        for group in GROUPS:
            self._begin(self._drops(group))

    def stop(self, deadline_s: float = 30) -> None:
        """End the rain, and wait for all that is on its way."""
        self._raining = False
        for task in tuple(self._tasks):
            task.result(deadline_s)

    async def _give_up(self) -> None:
        """Leave whatever has not come back; the gateway sees its clients go."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes the connections in its next turn

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _once(self, ask: Ask) -> None:
        await self._take(ask, self.waved)

    async def _drops(self, group: str) -> None:
        for number in self._while_raining():
            await self._take(make_ask(group, number), self.rained)
            await asyncio.sleep(0.01)

    def _while_raining(self) -> Iterator[int]:
        yield from itertools.takewhile(lambda _: self._raining, itertools.count())

    async def _take(self, ask: Ask, told: list[Told]) -> None:
        try:
            told.append(await send(self._url, ask))
        except (OSError, ValueError, IndexError, StopIteration) as error:
            self.failures.append(f"{ask.group} {ask.path}: {error!r}")
