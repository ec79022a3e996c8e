"""Runs one command in the foreground and makes its Ctrl-C a quiet end. Impure; driven by the Makefile.

Ctrl-C reaches everything on the terminal at once. A shell between make and the command would die of it before the
command has finished its work, and make would call the command's own 130 an error. This process stays until the command
has ended, hands on the signals that make sends to its child alone, and turns 130 into 0.
"""

import signal
import subprocess
import sys
import threading
import time
from types import FrameType

INTERRUPTED = 130
# GNU make that is still waiting to run when its child has already ended complains of "No child processes".
MAKE_HAS_NOTICED_S = 0.5


class Foreground:
    """One command, and the signals that came while it ran."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._interrupted_at: float | None = None

    def run(self, command: list[str]) -> int:
        """Run the command to its end; its exit status, or 0 where Ctrl-C ended it."""
        # A handler, not SIG_IGN: the command would inherit that and never hear of Ctrl-C.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._take)
        try:
            self._child = subprocess.Popen(command)
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            return 127
        for early in self._early:
            self._child.send_signal(early)
        status = self._child.wait()
        if self._interrupted_at is not None:
            rest_s = self._interrupted_at + MAKE_HAS_NOTICED_S - time.monotonic()
            threading.Event().wait(max(0.0, rest_s))
        return plain_status(status)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            # Not handed on: the command shares the terminal and has had it already.
            self._interrupted_at = time.monotonic()
        elif self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


def plain_status(status: int) -> int:
    """The shell's view of an exit status: a death by signal N is 128 + N; Ctrl-C is a normal end."""
    status = 128 - status if status < 0 else status
    return 0 if status == INTERRUPTED else status


def main(command: list[str]) -> int:
    """Run the command that the arguments are."""
    if not command:
        sys.stderr.write("usage: foreground.py COMMAND [ARGUMENT ...]\n")
        return 2
    return Foreground().run(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
