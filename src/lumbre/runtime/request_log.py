"""Where the line of every request goes: a file of JSON lines, written many at a time. Driver; `records` makes them.

A line is on disk a tenth of a second after its request, so a gateway that is killed loses the last few. A file that
cannot be written costs its lines and one warning, and no request.
"""

import asyncio
import logging
from pathlib import Path

_TOGETHER_S = 0.1
_LIMIT_BYTES = 10 * 1024 * 1024

log = logging.getLogger(__name__)


class RequestLog:
    """The file; what is older than its limit lies beside it, under the name with `.1`.

    Args:
        path: made with the first line.
        limit_bytes: where a new file is begun.
    """

    def __init__(self, path: Path, *, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_broken = False

    def add(self, line: bytes) -> None:
        """Take a line, without its end."""
        self._lines.append(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TOGETHER_S, self.flush)

    def flush(self) -> None:
        """Write what has been taken."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            self._write(b"\n".join(lines) + b"\n")
        except OSError as error:
            if not self._is_broken:
                log.warning("%s cannot be written (%s); requests are not logged there", self._path, error.strerror)
            self._is_broken = True
        else:
            self._is_broken = False

    def _write(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(data)
            size = file.tell()
        if size > self._limit_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
