"""The rogue's doors: models, the endpoints it misbehaves on, and `/rogue/` for tests. Driven by `__main__`.

    GET    /rogue/log                      everything seen: running, most at once, each request
    DELETE /rogue/log                      forget what has ended
    GET    /rogue/sent?id=X                the body bytes sent in exchange X, without framing
    GET    /rogue/wait?id=X&until=U&n=N    until X is started, held (N times), sent (N bytes), gone or ended
    GET    /rogue/wait?running=N           until N run; `seen=N`: until at least N have come
    POST   /rogue/release?id=X&steps=N     let X go on for N holds
    PUT    /rogue/models?status=S          answer /v1/models with S from now on; 0: never answer it
    PUT    /rogue/page?path=P&status=S     answer P with S and this body from now on; 0: as before
    PUT    /rogue/order?times=N            do what this wish says with the next N requests (0: all), whatever they say
    PUT    /rogue/demand?api=A&key=K       be as strict as A's vendor (`openai`, `anthropic`); no A: as before

A wait has `timeout_s` (10) and answers 408 when it passes; all of them answer JSON.
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from lumbre.backends.fakes.rogue.acts import ACTS
from lumbre.backends.fakes.rogue.demands import Demand
from lumbre.backends.fakes.rogue.exchange import JSON, Exchange
from lumbre.backends.fakes.rogue.orders import Orders
from lumbre.backends.fakes.rogue.pages import Pages
from lumbre.backends.fakes.rogue.record import Book, Record
from lumbre.backends.fakes.rogue.script import MODEL, write_error
from lumbre.backends.fakes.rogue.wire import Connection, OutOfPatience, PeerGone, Request, write_head
from lumbre.backends.fakes.rogue.wish import MODEL_PREFIX, WishError, read_ask

GENERATION = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages"})

UNTIL: dict[str, Callable[[Record, int], bool]] = {
    "started": lambda record, n: True,
    "held": lambda record, n: record.held >= n,
    "sent": lambda record, n: record.sent_bytes >= n,
    "gone": lambda record, n: record.gone_s is not None,
    "ended": lambda record, n: record.ended_s is not None,
}


class Rogue:
    """The server's state: one book, and the task of each open connection."""

    def __init__(self) -> None:
        self.book = Book()
        self.pages = Pages()
        self.orders = Orders()
        self.demand = Demand()
        self._models_status = 200
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0

    def new_connection(self) -> Connection:
        return Connection(self._opened, self.book.change)  # whoever holds an answer looks whether its client is there

    def _opened(self, connection: Connection) -> None:
        self._connections += 1
        connection.number = self._connections
        task = asyncio.create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: Connection) -> None:
        try:
            while await self._answer(connection, await connection.read_request()):
                pass
        except PeerGone:
            pass
        finally:
            connection.close()

    async def _answer(self, connection: Connection, request: Request) -> bool:
        """Answer one request; False when the connection is not to be used again."""
        if request.path.startswith("/rogue/") and request.path != "/rogue/trap":
            await self._tell(connection, request)
            return True
        if (page := self.pages.answer(request)) is not None:
            await _send(connection, *page)
            return True
        if request.path == "/v1/models":
            await self._list_models(connection)
            return True
        return await self._play(connection, request)

    async def _play(self, connection: Connection, request: Request) -> bool:
        try:
            ask = self.orders.take(read_ask(request.body))
        except WishError as error:
            await _send(connection, 400, write_error(400, str(error)))
            return True
        record = self.book.open(ask.wish.id, request, connection.number)
        act = ACTS.get(ask.wish.do)
        try:
            if (refusal := self.demand.refusal(request)) is not None:
                await _send(connection, *refusal)
                return True
            if request.path not in GENERATION or act is None:
                await _send(connection, 404, write_error(404, f"no {request.path} or no act {ask.wish.do!r}"))
                return True
            play = Exchange(connection, self.book, record, ask)
            await act(play)
            return play.is_open
        except OutOfPatience:
            return False
        except PeerGone:
            record.gone_s = time.monotonic()
            raise
        finally:
            record.ended_s = time.monotonic()
            self.book.change()

    async def _list_models(self, connection: Connection) -> None:
        self.book.models_asked += 1
        if self._models_status == 0:
            await connection.until_gone()
        if self._models_status != 200:
            await _send(connection, self._models_status, write_error(self._models_status))
            return
        names = (MODEL, *(MODEL_PREFIX + act for act in ACTS))
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "rogue"} for name in names]
        await _send_json(connection, 200, {"object": "list", "data": models})

    async def _tell(self, connection: Connection, request: Request) -> None:
        asked = {name: values[-1] for name, values in parse_qs(request.query).items()}
        exchange = asked.get("id", "")
        match request.method, request.path:
            case "GET", "/rogue/log":
                await _send_json(connection, 200, {**self.book.as_json(), "pages": self.pages.asked})
            case "DELETE", "/rogue/log":
                self.book.forget()
                self.pages.asked.clear()
                await _send_json(connection, 200, self.book.as_json())
            case "GET", "/rogue/sent":
                record = self.book.find(exchange)
                await _send(connection, 200 if record else 404, bytes(record.sent) if record else b"")
            case "GET", "/rogue/wait":
                await self._wait(connection, asked)
            case "POST", "/rogue/release":
                self.book.released[exchange] += int(asked.get("steps", 1))
                self.book.change()
                await _send_json(connection, 200, {"released": self.book.released[exchange]})
            case "PUT", "/rogue/models":
                self._models_status = int(asked["status"])
                await _send_json(connection, 200, {"status": self._models_status})
            case "PUT", "/rogue/page":
                self.pages.lay(asked["path"], int(asked.get("status", 200)), request.body)
                await _send_json(connection, 200, {"path": asked["path"]})
            case "PUT", "/rogue/order":
                self.orders.give(json.loads(request.body), int(asked.get("times", 0)))
                await _send_json(connection, 200, {})
            case "PUT", "/rogue/demand":
                self.demand = Demand(asked.get("api", ""), asked.get("key", ""))
                await _send_json(connection, 200, {})
            case _:
                await _send(connection, 404, write_error(404, f"no {request.method} {request.path}"))

    async def _wait(self, connection: Connection, asked: dict[str, str]) -> None:
        came_true = await self.book.until(self._condition(asked), float(asked.get("timeout_s", 10)))
        record = self.book.find(asked.get("id", ""))
        shown = record.as_json() if record else self.book.as_json()
        await _send_json(connection, 200 if came_true else 408, shown)

    def _condition(self, asked: dict[str, str]) -> Callable[[], bool]:
        if "running" in asked:
            return lambda: self.book.running == int(asked["running"])
        if "seen" in asked:
            return lambda: self.book.seen >= int(asked["seen"])
        reached, n = UNTIL[asked["until"]], int(asked.get("n", 1))

        def is_true() -> bool:
            record = self.book.find(asked["id"])
            return record is not None and reached(record, n)

        return is_true


async def _send(connection: Connection, status: int, body: bytes) -> None:
    head = write_head(status, {"Content-Type": JSON, "Content-Length": str(len(body))})
    await connection.write(head + body)


async def _send_json(connection: Connection, status: int, value: dict[str, Any]) -> None:
    await _send(connection, status, json.dumps(value).encode())
