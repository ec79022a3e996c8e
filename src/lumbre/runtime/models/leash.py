"""Decides that a program which fetches ends with whoever started it. Impure; `pip_child` and `hub_child` call it."""

import os
import sys
import threading


def hold() -> None:
    """End this process as soon as its standard input closes, which a parent's death does, however it dies."""
    threading.Thread(target=_wait_and_end, daemon=True).start()


def _wait_and_end() -> None:
    # Not through sys.stdin, whose lock a thread must not hold when the interpreter shuts down.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)
