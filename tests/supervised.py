"""An engine under a supervisor, with all that the supervisor says of it. Used by the tests."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lumbre.runtime.launches import Launch, command_launch, embedded_launch
from lumbre.runtime.schema import TierASection
from lumbre.runtime.supervisor import EngineStatus, Supervisor
from processes import descendants

Loop = Callable[[], asyncio.AbstractEventLoop]

SERVER = """
import http.server, os, sys
port, page, refusals = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global refusals
        known = self.path == page
        may = page == "/health" or self.headers["Authorization"] == "Bearer " + os.environ["LLAMA_API_KEY"]
        status = 404 if not known else 401 if not may else 503 if refusals > 0 else 200
        refusals -= known
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *ignored):
        pass
print("serving", os.getpid(), flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def run(scene: Coroutine[Any, Any, None], loop: Loop = asyncio.new_event_loop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scene)


def command(*words: str) -> Callable[[], Launch]:
    settings = TierASection(backend="command", command=(*words, "{port}"))
    return lambda: command_launch(settings, environ=os.environ)


def server(page: str = "/health", refusals: int = 0) -> Callable[[], Launch]:
    settings = TierASection(backend="command", command=(sys.executable, "-c", SERVER, "{port}", page, str(refusals)))
    return lambda: command_launch(settings, environ=os.environ)


def embedded(model: Path) -> Callable[[], Launch]:
    settings = TierASection(slots=1, context_tokens=256)
    return lambda: embedded_launch(settings, model, alias="smol", environ=os.environ)


class Scene:
    """A supervised engine, and all that its supervisor said of it. At the end no process may be left of it."""

    def __init__(self, make_launch: Callable[[], Launch], folder: Path, **settings: Any) -> None:
        self.log_path = folder / "logs" / "engine.log"
        self.story: list[EngineStatus] = []
        self._before = set(descendants(os.getpid()))
        self.times_s: list[float] = []
        self._news = asyncio.Event()
        usual = {"boot_timeout_s": 60.0, "probe_s": 5.0, "failures": 3}
        self.supervisor = Supervisor(make_launch, log_path=self.log_path, on_change=self._note, **{**usual, **settings})

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.supervisor.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.supervisor.stop(1)
        with suppress(asyncio.CancelledError):
            await self.task
        assert not self.processes(), "a process, or a zombie, is left"

    def processes(self) -> set[int]:
        """The processes below this one that were not there before."""
        return set(descendants(os.getpid())) - self._before

    async def until(self, condition: Callable[[EngineStatus], bool], within_s: float = 30) -> EngineStatus:
        """Wait for a status, past or to come, and forget what came before it."""
        async with asyncio.timeout(within_s):
            while True:
                for number, status in enumerate(self.story):
                    if condition(status):
                        del self.story[: number + 1], self.times_s[: number + 1]
                        return status
                await self.news()

    async def news(self) -> None:
        self._news.clear()
        await self._news.wait()

    async def phase(self, phase: str, within_s: float = 30) -> EngineStatus:
        return await self.until(lambda status: status.phase == phase, within_s)

    def _note(self, status: EngineStatus) -> None:
        self.story.append(status)
        self.times_s.append(asyncio.get_running_loop().time())
        self._news.set()
