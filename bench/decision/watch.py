"""What can be seen of a gateway's process from outside: sockets, threads, children, memory, tasks, and what it says of
its own permits and money. Driver over /proc and HTTP.
"""

import asyncio
import http.client
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import psutil
from bench.gateway.processes import BenchError

ANSWER_S = 30.0


@dataclass(frozen=True)
class Look:
    """One look.

    Attributes:
        tasks: of its loop.
        in_flight: places that are taken, of all tiers.
        waiting: requests in line.
        reserved: micro-dollars that are set aside.
        resident_mb: memory, of 10^6 bytes.
    """

    sockets: int
    threads: int
    children: int
    tasks: int
    in_flight: int
    waiting: int
    reserved: int
    resident_mb: float


class Watch:
    """Looks at one gateway.

    Args:
        tasks_file: where `watched` writes its tasks down.
    """

    def __init__(self, pid: int, url: str, tasks_file: Path) -> None:
        self._pid = pid
        self._process = psutil.Process(pid)
        self._netloc = urlsplit(url).netloc
        self._tasks_file = tasks_file

    async def look(self) -> Look:
        """Look now."""
        return await asyncio.to_thread(self._look)

    def tasks(self) -> dict[str, int]:
        """The gateway's tasks, by what they run.

        Raises:
            BenchError: it does not say.
        """
        self._tasks_file.unlink(missing_ok=True)
        os.kill(self._pid, signal.SIGUSR1)
        for _ in range(3000):
            if self._tasks_file.exists():
                told: dict[str, int] = orjson.loads(self._tasks_file.read_bytes())
                return told
            self.get("/healthz")  # a turn of its loop
        raise BenchError("the gateway does not tell its tasks")

    def get(self, path: str) -> Any:
        """A document of the gateway's.

        Raises:
            BenchError: it does not answer.
        """
        return self._ask("GET", path)

    def post(self, path: str, document: object) -> Any:
        """Have it do something.

        Raises:
            BenchError: it does not answer, or not as it should.
        """
        return self._ask("POST", path, orjson.dumps(document))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        # A connection for each question: one that is kept may be closed just when it is used.
        connection = http.client.HTTPConnection(self._netloc, timeout=ANSWER_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", "Connection": "close"})
            reply = connection.getresponse()
            data = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise BenchError(f"the gateway does not answer {method} {path}: {error!r}") from error
        finally:
            connection.close()
        if method == "POST" and reply.status != 200:
            raise BenchError(f"{method} {path}: {reply.status} {data.decode(errors='replace')[:500]}")
        return orjson.loads(data)

    def _look(self) -> Look:
        flow = self.get("/v1/flow")
        embeddings = self.get("/readyz")["embeddings"]["waiting"]
        tiers = flow["tiers"].values()
        upstreams = [upstream for tier in tiers for upstream in tier["upstreams"]]
        links = [_link(path) for path in Path(f"/proc/{self._pid}/fd").iterdir()]
        return Look(
            sum(link.startswith("socket:") for link in links),
            self._process.num_threads(),
            len(self._process.children(recursive=True)),
            sum(self.tasks().values()),
            sum(upstream["in_flight"] for upstream in upstreams),
            max(embeddings, sum(upstream["waiting"] for upstream in upstreams)),
            flow["budget"]["reserved_microusd"],
            self._process.memory_info().rss / 1e6,
        )


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except FileNotFoundError:
        return ""  # it was closed meanwhile
