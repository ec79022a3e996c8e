"""Reads the golden transcripts: a folder of `wire/golden/API` is a case, what goes in beside what must come out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from lumbre.wire.sse import DONE, Splitter


class Golden:
    """The cases of one API.

    Args:
        stream: the file of what `chat.sse` becomes.
        reply: the file of what `completion.json` becomes.
    """

    def __init__(self, api: str, *, stream: str, reply: str) -> None:
        folder = Path(__file__).parent / "wire" / "golden" / api
        self.cases = sorted(path for path in folder.iterdir() if path.is_dir())
        self._pairs = (("request.json", "chat.json"), ("chat.sse", stream), ("completion.json", reply))

    def with_file(self, name: str) -> list[Any]:
        """The cases that have a file, as parameters."""
        return [pytest.param(case, id=case.name) for case in self.cases if (case / name).exists()]

    def check_cover(self, *names: str) -> None:
        """All of these are there, and none is half a case."""
        assert {case.name for case in self.cases} >= set(names)
        for case in self.cases:
            found = {path.name for path in case.iterdir()}
            assert found
            assert all((left in found) == (right in found) for left, right in self._pairs)


def read(case: Path, name: str) -> Any:
    """A file of JSON."""
    return orjson.loads((case / name).read_bytes())


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """What the events of a file say."""
    splitter = Splitter()
    for event in splitter.feed(path.read_bytes()):
        if event.data is not None and event.data != DONE:
            yield orjson.loads(event.data)
    assert splitter.tail == b""
