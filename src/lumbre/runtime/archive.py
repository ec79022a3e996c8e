"""The kept responses as the loop may ask for them: in one thread of their own, each question with a deadline, and none
while an earlier one hangs. Driver; `response_store` keeps.

A file on a disk that hangs, or that somebody else has locked, so holds up nobody but those who want what is in it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from lumbre.runtime.response_store import ResponseStore, StoreBroken

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_S = 2.0
"""Longer than the store itself waits for a lock."""


class Archive:
    """The store of one gateway.

    Attributes:
        store: whose methods are asked; call none of them from the loop.
    """

    def __init__(self, store: ResponseStore) -> None:
        self.store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="responses")
        self._hanging: Future[Any] | None = None

    async def ask(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Have a method of the store done.

        Raises:
            StoreBroken: it cannot be, or not in time.
        """
        if self._hanging is not None and not self._hanging.done():
            raise StoreBroken(self.store.path, "it does not answer")
        job = self._thread.submit(act, *args, **kwargs)
        answer = asyncio.wrap_future(job)
        answer.add_done_callback(_unheard)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asyncio.shield(answer)
        except TimeoutError:
            if not job.cancel():  # what has not begun is not done behind the back of whoever was told that it is not
                self._hanging = job
            raise StoreBroken(self.store.path, f"it did not answer within {ANSWER_S:g} s") from None

    async def close(self) -> None:
        """Close the file, if it lets itself be closed in time."""
        try:
            await self.ask(self.store.close)
        except StoreBroken:
            return
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)


def _unheard(late: "asyncio.Future[Any]") -> None:
    """Take what came too late, so that nobody calls it forgotten."""
    if not late.cancelled():
        late.exception()
