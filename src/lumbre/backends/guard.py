"""Decides when the operator's own server line must end, and ends all of it. Not pure; run with `python -m`.

    python -m lumbre.backends.guard [--grace-s SECONDS] -- COMMAND ARGUMENTS...

It runs the command in a session of its own and holds on to two life lines: its stdin, which the gateway
keeps open as long as it lives, and on Linux the kernel's parent-death signal. SIGTERM ends the command,
the end of stdin soon; then what is left is killed. A shell wrapper's background processes count: on Linux the
guard adopts them. Stdlib only: it must start in milliseconds and have nothing that can fail.
"""

import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

GRACE_S = 4.0
"""What the command gets after SIGTERM; less than the gateway allows the guard itself."""
HURRY_S = 1.0
"""What it gets when the gateway is already gone, or when the command ended and left others behind."""
GIVE_UP_S = 5.0
"""After SIGKILL: a process that the kernel cannot end (a stuck disk) must not keep the guard for ever."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_USAGE = "usage: python -m lumbre.backends.guard [--grace-s SECONDS] -- COMMAND ARGUMENTS..."


def die_with_parent(number: signal.Signals) -> None:
    """On Linux, have the kernel send this process `number` when the thread that started it ends.

    Elsewhere, or where a sandbox refuses, nothing happens: the end of stdin is then the only life line.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before the kernel was asked: that signal never comes
        os.kill(os.getpid(), number)


class Guard:
    """One command, from its start until no process of it is left.

    Args:
        words: the command line, without a shell.
        grace_s: seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, words: list[str], grace_s: float = GRACE_S) -> None:
        self._words = words
        self._grace_s = grace_s
        self._child = 0
        self._status: int | None = None
        self._alone = False
        self._kill_at_s: float | None = None

    def run(self) -> int:
        """Run the command to its end and return its exit status; 128 + the signal if one ended it."""
        wake = _signal_pipe()
        die_with_parent(signal.SIGTERM)
        if sys.platform == "linux":
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._child = _start(self._words)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while not self._alone and not self._gave_up():
            for fd, _ in poll.poll(self._wait_ms()):
                if fd == wake:
                    self._heed_signals(os.read(wake, 512))
                elif not os.read(fd, 4096):
                    poll.unregister(fd)
                    self._end(HURRY_S)
            self._reap()
            if self._kill_at_s is not None and time.monotonic() >= self._kill_at_s:
                self._send(signal.SIGKILL)
        if sys.platform != "linux":  # nobody was adopted: only the group knows of background processes
            self._send(signal.SIGKILL)
        return 1 if self._status is None else self._status

    def _heed_signals(self, numbers: bytes) -> None:
        if signal.SIGTERM in numbers:
            self._end(self._grace_s)

    def _end(self, within_s: float) -> None:
        kill_at_s = time.monotonic() + within_s
        self._send(signal.SIGTERM)
        self._kill_at_s = kill_at_s if self._kill_at_s is None else min(self._kill_at_s, kill_at_s)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._alone = True
                return
            if pid == 0:
                return
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                self._status = code if code >= 0 else 128 - code
                self._end(HURRY_S)

    def _send(self, number: signal.Signals) -> None:
        for pid in _children():
            try:
                if os.getpgid(pid) != self._child:  # not twice: many servers take a second one as "now"
                    os.kill(pid, number)
            except ProcessLookupError:
                continue
        try:
            os.killpg(self._child, number)
        except (ProcessLookupError, PermissionError):  # empty, or (macOS) only a zombie is left in it
            return

    def _wait_ms(self) -> float | None:
        if self._kill_at_s is None:
            return None
        # After the kill, look again soon: the dead leave orphans, which are adopted and killed in their turn.
        return 1000 * max(0.05, self._kill_at_s - time.monotonic())

    def _gave_up(self) -> bool:
        return self._kill_at_s is not None and time.monotonic() > self._kill_at_s + GIVE_UP_S


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), zero, zero, zero)


def _signal_pipe() -> int:
    """Turn SIGTERM and SIGCHLD into bytes on a pipe, which `poll` can wait for; return its reading end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal tells the whole group; the gateway decides
        signal.signal(number, signal.SIG_IGN)
    return reading


def _start(words: list[str]) -> int:
    guard = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)  # an ignored signal stays ignored across exec
        os.setsid()
        if sys.platform == "linux":
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        if os.getppid() == guard:
            os.execvp(words[0], words)  # noqa: S606  the operator's own words, and no shell
    except OSError as error:
        os.write(2, f"lumbre guard: cannot run {words[0]!r}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _children() -> list[int]:
    """This process's children, adopted ones too; from /proc, so none where there is no /proc."""
    me = str(os.getpid())
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if after_name[1] == me:
            found.append(int(stat.parent.name))
    return found


def main(arguments: list[str]) -> int:
    """Read the command line and run what stands after `--`."""
    before, separator, words = arguments, "", list[str]()
    if "--" in arguments:
        cut = arguments.index("--")
        before, separator, words = arguments[:cut], "--", arguments[cut + 1 :]
    grace_s = GRACE_S
    if len(before) == 2 and before[0] == "--grace-s":
        grace_s, before = float(before[1]), []
    if before or not separator or not words:
        os.write(2, f"{_USAGE}\n".encode())
        return 2
    return Guard(words, grace_s).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
