"""An even load on a gateway, in a process of its own, until it is ended: complex work, which goes to tier B, and to A
when B is stopped. Run by `moves`:

    python -m bench.decision.steady URL RATE
"""

import asyncio
import sys
import time
from urllib.parse import urlsplit

from bench.decision.clients import CHAT, Ask, Clients, body_of

LIMIT_S = 30.0


async def load(url: str, rate: float) -> None:
    """Ask; say so on its output once the first answer has come.

    Raises:
        ExceptionGroup: something else than an answer came.
    """
    place = urlsplit(url)
    clients = Clients(place.hostname or "", place.port or 0, limit_s=LIMIT_S)
    ask = Ask("tag-0", CHAT, body_of(CHAT, "tag-0", stream=False), {"x-lumbre-complexity": "high"}, stream=False)
    due, told = time.monotonic(), False

    async def one() -> None:
        nonlocal told
        came = (await clients.ask(ask)).verdict
        if came.kind != "answer":
            raise ValueError(f"no answer: {came}")
        if not told:
            told = True
            print('{"loading": true}', flush=True)

    async with asyncio.TaskGroup() as group:
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(one())
            due += 1 / rate


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1], float(sys.argv[2])))
