"""A gateway that is killed with -9 leaves nothing behind, whatever its engine was doing."""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

from processes import descendants, is_gone, thread_count, until

GATEWAY = """
import asyncio, json, os, sys
from pathlib import Path
from lumbre.runtime.launches import command_launch, embedded_launch
from lumbre.runtime.schema import TierASection
from lumbre.runtime.supervisor import Supervisor
model, log_path, *command = sys.argv[1:]
def make_launch():
    if command:
        return command_launch(TierASection(backend="command", command=command), environ=os.environ)
    settings = TierASection(slots=1, context_tokens=256)
    return embedded_launch(settings, Path(model), alias="smol", environ=os.environ)
def tell(status):
    print(json.dumps({"phase": status.phase, "pid": status.pid}), flush=True)
async def main():
    log = Path(log_path)
    await Supervisor(make_launch, boot_timeout_s=60, probe_s=5, failures=3, log_path=log, on_change=tell).run()
asyncio.run(main())
"""


def gateway(tmp_path: Path, model: Path, *words: str) -> Popen[str]:
    argv = [sys.executable, "-c", GATEWAY, str(model), str(tmp_path / "engine.log"), *words]
    return Popen(argv, stdin=PIPE, stdout=PIPE, text=True)


def told(process: Popen[str], phase: str) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["phase"] == phase:
            return int(event["pid"])
    raise AssertionError(f"the gateway ended before its engine was {phase}")


def assert_gone_with(process: Popen[str], family: list[int]) -> None:
    try:
        assert not any(map(is_gone, family))
        process.kill()
        until(lambda: all(map(is_gone, family)), 2)
    finally:
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_gateway_that_is_killed_leaves_no_engine(smollm2_path: Path, tmp_path: Path) -> None:
    with gateway(tmp_path, smollm2_path) as process:
        assert_gone_with(process, [told(process, "ready")])


def test_a_gateway_that_is_killed_in_mid_boot_leaves_no_engine(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    os.mkfifo(model)  # a model that loads for ever: once its head was read, nobody writes to it again
    with gateway(tmp_path, model) as process:
        pid = told(process, "starting")
        model.write_bytes(b"GGUF")
        until(lambda: thread_count(pid) > 4)
        assert_gone_with(process, [pid])


def test_a_gateway_that_is_killed_leaves_nothing_of_a_command_either(tmp_path: Path) -> None:
    with gateway(tmp_path, Path(), "sh", "-c", "sleep 600 & setsid sleep 600 & wait", "{port}") as process:
        guard = told(process, "starting")
        until(lambda: len(descendants(guard)) == 3)
        assert_gone_with(process, [guard, *descendants(guard)])
