"""The folder that holds what outlives a run: one gateway at a time owns it. Driver."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

import orjson

from lumbre.core.errors import OperatorError


class StateHeld(OperatorError):
    """Another gateway has the state folder.

    Attributes:
        which: its process and address in brackets, with a space before; empty if they are not known.
    """

    code = "state_held"

    def __init__(self, path: Path, which: str) -> None:
        super().__init__(f"another gateway{which} uses the state folder {path}; stop it, or say another --state-dir")
        self.path = path
        self.which = which


class StateDir:
    """A context manager that owns the folder while it is open.

    The lock is the kernel's and ends with the process, so a gateway that was killed leaves nothing to clean up.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        self._lock: int | None = None

    def __enter__(self) -> "StateDir":
        """Take the folder.

        Raises:
            StateHeld: another gateway has it.
            OperatorError: it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            logs = self.path / "logs"
            logs.mkdir(exist_ok=True)
            # The folder itself may be somebody's own, with a mode for a reason; what the logs say is for us alone.
            logs.chmod(0o700)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            why = error.strerror or "unknown error"
            message = f"the state folder {self.path} cannot be written: {why}; choose another with --state-dir"
            raise OperatorError(message) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            self._lock = None
            raise StateHeld(self.path, self._holder()) from error
        return self

    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Give the folder up."""
        if self._lock is not None:
            (self.path / "gateway.json").unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def announce(self, url: str, started_at: str) -> None:
        """Leave word of where the gateway listens, for `lumbre status` and `lumbre chat`."""
        write_whole(self.path / "gateway.json", {"url": url, "pid": self.pid, "started_at": started_at})

    def _holder(self) -> str:
        """Which gateway has it, as far as it has said; empty if it has not announced itself yet."""
        try:
            word = orjson.loads((self.path / "gateway.json").read_bytes())
            return f" (process {word['pid']}, {word['url']})"
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return ""


def write_whole(path: Path, document: object) -> None:
    """Write a JSON document so that a reader, or a crash, sees the old one or the new one and nothing between.

    Raises:
        OperatorError: it cannot be written.
    """
    draft = path.with_suffix(".new")
    try:
        with draft.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(orjson.dumps(document))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or 'unknown error'}; mend that, or choose another folder"
        raise OperatorError(f"{message} with --state-dir") from error
