"""What a test lays down at a path of the rogue, so that it looks like another kind of engine. Driven by `rogue.server`.

A page is a fixed answer: llama.cpp's `/props`, vLLM's `/tokenize`, a model list of one's own. A page at a path that the
rogue answers itself stands in the place of its answer.
"""

from typing import Any

from lumbre.backends.fakes.rogue.wire import Request


class Pages:
    """The pages by path, and who asked for them."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self._pages: dict[str, tuple[int, bytes]] = {}

    def lay(self, path: str, status: int, body: bytes) -> None:
        """Answer this path so from now on; status 0: no longer."""
        if status:
            self._pages[path] = (status, body)
        else:
            self._pages.pop(path, None)

    def answer(self, request: Request) -> tuple[int, bytes] | None:
        """Status and body for a request; None where nothing was laid down."""
        found = self._pages.get(request.path)
        if found is not None:
            body = request.body.decode("utf-8", "replace")
            self.asked.append({"method": request.method, "path": request.path, "body": body})
        return found
