"""The guard, as a real process around real shells: nothing of a command outlives it or the gateway."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE

import pytest

from processes import is_gone, until

GUARD = (sys.executable, "-P", "-m", "lumbre.backends.guard")
FAMILY = "trap '' HUP; sleep 600 & echo $!; setsid sleep 600 & echo $!; echo $$; wait"
"""A shell wrapper with a background process, one that left its session, and itself."""
PARENT = """
import subprocess, sys
guard = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
print(guard.pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def guarded(
    *words: str, grace_s: float = 4, inside: tuple[str, ...] = (), stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    argv = [*inside, *GUARD, "--grace-s", str(grace_s), "--", *words]
    with subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, stderr=stderr, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def numbers(process: subprocess.Popen[str], count: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def test_the_status_is_the_commands_own() -> None:
    with guarded("sh", "-c", "exit 7") as guard:
        assert guard.wait(10) == 7


def test_a_signal_that_ends_the_command_shows_as_a_shell_would_show_it() -> None:
    with guarded("sh", "-c", "kill -KILL $$") as guard:
        assert guard.wait(10) == 128 + signal.SIGKILL


def test_a_program_that_is_not_there_is_named() -> None:
    with guarded("no-such-engine", stderr=subprocess.STDOUT) as guard:
        assert guard.wait(10) == 127
        assert guard.stdout is not None
        assert "cannot run 'no-such-engine': No such file or directory" in guard.stdout.read()


@pytest.mark.parametrize("words", [[], ["--"], ["sh"], ["--grace-s", "1", "sh"]])
def test_without_a_command_it_says_how_to_call_it(words: list[str]) -> None:
    asked = subprocess.run([*GUARD, *words], capture_output=True, text=True, check=False)
    assert asked.returncode == 2
    assert asked.stderr.startswith("usage: ")


def test_the_end_of_stdin_ends_the_whole_family() -> None:
    with guarded("sh", "-c", FAMILY) as guard:
        family = numbers(guard, 3)
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait(5)
        assert all(is_gone(pid) for pid in family)


def test_sigterm_lets_the_command_finish_in_its_own_way() -> None:
    with guarded("sh", "-c", "trap 'exit 3' TERM; echo $$; sleep 600 & wait") as guard:
        numbers(guard, 1)
        guard.terminate()
        assert guard.wait(5) == 3


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace() -> None:
    with guarded("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 600; done", grace_s=0.2) as guard:
        (shell,) = numbers(guard, 1)
        guard.terminate()
        assert guard.wait(5) == 128 + signal.SIGKILL
        assert is_gone(shell)


def test_the_end_of_stdin_cuts_a_long_grace_short() -> None:
    with guarded("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 600; done", grace_s=600) as guard:
        numbers(guard, 1)
        guard.terminate()
        assert guard.stdin is not None
        guard.stdin.close()
        assert guard.wait(5) == 128 + signal.SIGKILL


def test_what_a_command_leaves_in_the_background_ends_with_it() -> None:
    with guarded("sh", "-c", "setsid sh -c 'trap \"\" TERM; sleep 600 & wait' & echo $!; exit 5") as guard:
        (left,) = numbers(guard, 1)
        assert guard.wait(10) == 5
        assert is_gone(left)


def test_ctrl_c_in_the_terminal_is_not_the_guards_to_obey() -> None:
    with guarded("sh", "-c", "echo $$; read line; echo $?; exec sleep 600") as guard:
        (command, read_status) = numbers(guard, 2)
        assert read_status == 1, "the command's stdin is empty, not the life line"
        guard.send_signal(signal.SIGINT)
        guard.send_signal(signal.SIGHUP)
        os.kill(command, signal.SIGINT)
        assert guard.wait(5) == 128 + signal.SIGINT, "the command itself has the usual signals"


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's parent-death signal")
def test_when_the_gateway_is_killed_the_whole_family_is_gone_within_two_seconds() -> None:
    with guarded("sh", "-c", FAMILY, inside=(sys.executable, "-c", PARENT)) as parent:
        family = numbers(parent, 4)
        parent.kill()
        until(lambda: all(is_gone(pid) for pid in family), 2)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's parent-death signal")
def test_when_the_guard_itself_is_killed_the_command_goes_too() -> None:
    with guarded("sh", "-c", "echo $$; exec sleep 600") as guard:
        (command,) = numbers(guard, 1)
        guard.kill()
        until(lambda: is_gone(command), 2)


def test_it_starts_in_a_moment_because_it_imports_next_to_nothing() -> None:
    asked = "import sys, lumbre.backends.guard; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    theirs = {name for name in loaded.stdout.split() if name.startswith("lumbre")}
    assert theirs == {"lumbre", "lumbre.backends", "lumbre.backends.guard"}
    assert "asyncio" not in loaded.stdout.split()
