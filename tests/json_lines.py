"""A child process that tells of itself in JSON lines on its standard output. Drives it; used by the tests."""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Event = dict[str, Any]


class JsonLines:
    """Starts the process; hands out its events, each at most once."""

    def __init__(self, argv: Sequence[str], stderr: Path, env: Mapping[str, str] | None = None) -> None:
        self.events: list[Event] = []
        """Every event so far."""
        self.stderr_path = stderr
        self._rest = b""
        with stderr.open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=None if env is None else dict(env),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def wait_for(self, event: str, deadline_s: float = 20) -> Event:
        """Wait until the process has told of `event`, and return it."""
        until = time.monotonic() + deadline_s
        while (found := next((told for told in self.events if told.get("event") == event), None)) is None:
            if not self._read(until - time.monotonic()):
                raise AssertionError(f"no {event!r} in {self.events}; its stderr:\n{self.stderr[-4000:]}")
        return found

    def wait_for_end(self, deadline_s: float = 20) -> int:
        """Wait until the process has ended; its exit status. What it told last is in `events`."""
        until = time.monotonic() + deadline_s
        while self._read(until - time.monotonic()):
            pass
        return self.process.wait(max(0.1, until - time.monotonic()))

    def _read(self, left_s: float) -> bool:
        """Take in what the process has written; False when it closed its output or time is up."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            return False
        data = os.read(descriptor, 65_536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.events += [json.loads(line) for line in lines if line.strip()]
        return bool(data)

    def kill(self) -> None:
        """End it at once, whatever it is doing; nothing is left, not even a zombie."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
