"""One start of an engine: its process, its announcement, last words and end. Driven by the supervisor."""

import asyncio
import json
import re
import signal
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lumbre.runtime.launches import Launch

HURRY_S = 2.5
"""After the life line is cut: the guard kills what it guards within 1 s, and a busy machine may need longer."""
UNKILLABLE_S = 5.0
"""After SIGKILL; what is still there then is stuck in the kernel."""
LOG_LIMIT_BYTES = 5 * 1024 * 1024

_TAIL_BYTES = 32 * 1024
_LONGEST_WORDS = 300
_ENGINE_STAMP = re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} [A-Z] ")
_TELLING = (
    re.compile(
        r"error loading|memory|failed to allocate|cannot |unable to|no such file|not found|permission denied"
        r"|already in use",
        re.IGNORECASE,
    ),
    re.compile(r"error|fail|fatal|exception|abort", re.IGNORECASE),
    re.compile(r"\S"),
)


@dataclass(frozen=True)
class Announced:
    """The engine's line on stdout: an address, or the reason why there is none.

    Attributes:
        context_tokens: what each slot really got; 0 if it does not say.
    """

    address: str | None
    reason: str = ""
    context_tokens: int = 0


class EngineProcess:
    """A process that runs, or ran. Use `spawn`."""

    def __init__(self, process: Process, launch: Launch, log_path: Path, log_start: int) -> None:
        self._process = process
        self._log_path = log_path
        self._log_start = log_start
        self.launch = launch
        self.pid = process.pid

    @classmethod
    async def spawn(cls, launch: Launch, log_path: Path) -> "EngineProcess":
        """Start the process and hand it its order.

        Raises:
            OSError: it could not be started, or its log could not be opened.
        """
        with open_log(log_path) as log:
            log_start = log.tell()  # before the process is there: it shares this position and moves it
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                stdin=PIPE,
                stdout=PIPE if launch.announces else log,
                stderr=log,
                env=dict(launch.env),
                start_new_session=True,  # Ctrl-C in a terminal is the gateway's to handle
            )
        if launch.stdin_order is not None and process.stdin is not None:
            process.stdin.write(launch.stdin_order)
        return cls(process, launch, log_path, log_start)

    async def announced(self) -> Announced | None:
        """Wait for the line on stdout; None if stdout ended without it."""
        line = await self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            return None
        try:
            said = json.loads(line)
            address = said["address"] if said["event"] == "ready" else None
            return Announced(address, str(said.get("reason", "")), int(said.get("context_tokens", 0)))
        except (ValueError, TypeError, KeyError):
            return Announced(None, f"the engine's process announced something else: {line[:80]!r}")

    async def exited(self) -> str:
        """Wait until it is gone and reaped; how it ended, for a person."""
        return _ending(await self._process.wait())

    async def end(self, grace_s: float) -> bool:
        """SIGTERM, `grace_s` seconds, the life line cut, SIGKILL. False: not even that ended it."""
        for act, patience_s in (
            (self._process.terminate, grace_s),
            (self._cut_life_line, HURRY_S),
            (self._process.kill, UNKILLABLE_S),
        ):
            with suppress(ProcessLookupError):  # it has just ended by itself
                act()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._process.wait()
                    return True
        return False

    def last_words(self) -> str:
        """The line of this start's log that tells most about why it failed; empty if it said nothing."""
        try:
            with self._log_path.open("rb") as log:
                end = log.seek(0, 2)
                log.seek(max(self._log_start, end - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        lines = [_ENGINE_STAMP.sub("", line).strip() for line in text.splitlines()]
        for pattern in _TELLING:
            for line in reversed(lines):
                if pattern.search(line):
                    return line.replace(self.launch.api_key, "…")[:_LONGEST_WORDS]
        return ""

    def _cut_life_line(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


def open_log(path: Path) -> BinaryIO:
    """Open the engines' log for appending; for its owner alone, since engines may log what they are asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.open("ab")
    path.chmod(0o600)
    return log


def trim_log(path: Path) -> None:
    """Begin the log anew if it has grown beyond `LOG_LIMIT_BYTES`."""
    with suppress(OSError):  # a log that cannot be read cannot be opened either, and then the start says so
        if path.stat().st_size > LOG_LIMIT_BYTES:
            path.write_bytes(b"")


def _ending(code: int) -> str:
    number = -code if code < 0 else code - 128  # the guard, like a shell, says 128 + the signal
    if number in signal.valid_signals():
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        hint = " (is the machine out of memory?)" if number == signal.SIGKILL else ""
        return f"the engine's process was ended by {name}{hint}"
    return f"the engine's process exited with status {code}"
