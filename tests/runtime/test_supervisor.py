"""The supervisor with real processes: the real engine, and servers that misbehave."""

import asyncio
import os
import signal
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest
import uvloop

from lumbre.core.errors import OperatorError
from lumbre.runtime.launches import Launch
from lumbre.runtime.supervisor import EngineStatus
from processes import descendants, is_gone
from supervised import Loop, Scene, command, embedded, run, server


async def models_status(status: EngineStatus, api_key: str | None) -> int:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{status.address}/v1/models", headers=headers) as reply,
    ):
        return reply.status


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_the_real_engine_answers_and_comes_back_after_it_was_killed(
    smollm2_path: Path, tmp_path: Path, loop: Loop
) -> None:
    async def scene() -> None:
        async with Scene(embedded(smollm2_path), tmp_path) as engine:
            first = await engine.phase("ready")
            assert first.pid is not None
            assert await models_status(first, first.api_key) == 200
            assert await models_status(first, None) == 401
            os.kill(first.pid, signal.SIGKILL)
            crashed = await engine.phase("backing_off", 1)
            assert (crashed.address, crashed.api_key, crashed.pid) == (None, None, None)
            assert "ended by SIGKILL" in (crashed.reason or "")
            second = await engine.phase("ready")
            assert (second.restarts, second.reason) == (1, None)
            assert second.api_key != first.api_key
            assert await models_status(second, second.api_key) == 200

    run(scene(), loop)


def test_a_model_that_cannot_be_loaded_is_told_with_the_engines_own_words(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF and then nothing that makes sense")

    async def scene() -> None:
        async with Scene(embedded(model), tmp_path) as engine:
            failed = await engine.phase("backing_off")
            assert failed.reason is not None
            assert f"llama.cpp could not load {model}; its log says: " in failed.reason

    run(scene())


def test_a_crash_loop_waits_longer_each_time_and_shows_what_the_log_says(tmp_path: Path) -> None:
    async def scene() -> None:
        words = ("sh", "-c", "echo starting; echo 'fatal: no licence found' >&2; echo bye; exit 3")
        async with Scene(command(*words), tmp_path) as engine:
            await asyncio.wait_for(fourth_start(engine), 20)
            starts = [at for status, at in zip(engine.story, engine.times_s, strict=True) if is_start(status)]
            waits = [after - before for before, after in pairwise(starts)]
            assert waits[1] >= 0.45
            assert waits[2] >= 0.9
            assert engine.story[-1].restarts == 3
            reason = engine.story[-1].reason
            assert reason == "the engine's process exited with status 3; its log says: fatal: no licence found"

    async def fourth_start(engine: Scene) -> None:
        while sum(map(is_start, engine.story)) < 4:
            await engine.news()

    def is_start(status: EngineStatus) -> bool:
        return status.phase == "starting"

    run(scene())


def test_a_boot_that_takes_too_long_is_ended_and_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Scene(command("sh", "-c", "exec sleep 600"), tmp_path, boot_timeout_s=0.3) as engine:
            started = await engine.phase("starting")
            failed = await engine.until(lambda status: status.phase == "backing_off" and status.pid is None)
            assert failed.reason == "not ready within 0.3 s"
            assert started.pid is not None
            assert started.pid not in descendants(os.getpid())
            assert (await engine.phase("starting")).restarts == 1

    run(scene())


def test_a_server_that_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Scene(server(), tmp_path, probe_s=0.1, failures=2) as engine:
            ready = await engine.phase("ready")
            assert ready.pid is not None
            (hung,) = descendants(ready.pid)
            os.kill(hung, signal.SIGSTOP)
            killed = await engine.phase("backing_off")
            assert "2 health probes in a row failed: no good answer from http://127.0.0.1:" in (killed.reason or "")
            assert (await engine.phase("ready")).restarts == 1
            assert is_gone(hung)

    run(scene())


def test_an_engine_that_is_doubted_is_probed_at_once(tmp_path: Path) -> None:
    probed = asyncio.Event()

    async def probe(_address: str, _key: str) -> bool:
        probed.set()
        return True

    async def scene() -> None:
        async with Scene(server(), tmp_path, probe_s=600, probe=probe) as engine:
            await engine.phase("ready")
            probed.clear()
            engine.supervisor.suspect()
            async with asyncio.timeout(5):
                await probed.wait()

    run(scene())


def test_answers_of_a_booting_server_do_not_count_against_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Scene(server(refusals=3), tmp_path, failures=1) as engine:
            assert (await engine.phase("ready")).restarts == 0

    run(scene())


def test_a_server_without_a_health_page_is_asked_for_its_models_with_the_key(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Scene(server("/v1/models"), tmp_path, probe_s=0.1, failures=1) as engine:
            ready = await engine.phase("ready")
            assert await models_status(ready, ready.api_key) == 200
            assert await models_status(ready, "another") == 401
            assert (await still(engine)).phase == "ready"

    async def still(engine: Scene) -> EngineStatus:
        with suppress(TimeoutError):  # several probes long
            await engine.phase("backing_off", 0.5)
        return engine.supervisor.status

    run(scene())


def test_a_launch_that_fails_is_tried_again(tmp_path: Path) -> None:
    failures = [OperatorError("the model is not there"), FileNotFoundError("no such program")]

    def make_launch() -> Launch:
        if failures:
            raise failures.pop(0)
        return server()()

    async def scene() -> None:
        async with Scene(make_launch, tmp_path) as engine:
            assert "the model is not there" in ((await engine.phase("backing_off")).reason or "")
            assert "no such program" in ((await engine.phase("backing_off")).reason or "")
            assert (await engine.phase("ready")).restarts == 2

    run(scene())


def test_a_folder_that_takes_no_log_is_a_reason_and_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")

    async def scene() -> None:
        async with Scene(server(), tmp_path) as engine:
            assert "could not be started" in ((await engine.phase("backing_off")).reason or "")

    run(scene())


@pytest.mark.parametrize("phase", ["starting", "ready", "backing_off"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_stop_leaves_nothing_in_whatever_phase_it_comes(tmp_path: Path, phase: str, loop: Loop) -> None:
    launches = {
        "starting": command("sh", "-c", "sleep 600 & sleep 600 & wait"),
        "ready": server(),
        "backing_off": command("sh", "-c", "exit 1"),
    }

    async def scene() -> None:
        async with Scene(launches[phase], tmp_path) as engine:
            await engine.phase(phase)
            await engine.supervisor.stop(1)
            assert engine.supervisor.status.phase == "stopped"
            assert engine.supervisor.status.pid is None
            assert not engine.processes()

    run(scene(), loop)


def test_a_stop_while_a_hung_engine_is_being_killed_ends_too(tmp_path: Path) -> None:
    async def scene() -> None:
        words = ("sh", "-c", "trap '' TERM; setsid sleep 600 & while :; do sleep 600; done")
        async with Scene(command(*words), tmp_path, boot_timeout_s=0.3) as engine:
            await engine.phase("backing_off")  # its process is still there: it ignores SIGTERM
            assert engine.supervisor.status.pid is not None
            family = engine.processes()
            assert len(family) == 4
            await engine.supervisor.stop(1)
            assert engine.supervisor.status.phase == "stopped"
            assert all(map(is_gone, family))

    run(scene())


def test_a_supervisor_that_is_stopped_before_it_began_starts_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        unstarted = Scene(server(), tmp_path)
        await unstarted.supervisor.stop()
        await asyncio.wait_for(unstarted.supervisor.run(), 1)
        assert not unstarted.story
        assert not unstarted.processes()

    run(scene())


def test_a_cancelled_supervisor_takes_its_engine_with_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Scene(server(), tmp_path) as engine:
            ready = await engine.phase("ready")
            engine.task.cancel()
            await asyncio.wait([engine.task], timeout=10)
            assert ready.pid is not None
            assert ready.pid not in descendants(os.getpid())

    run(scene())


def test_the_log_begins_anew_when_it_has_grown_too_long(tmp_path: Path) -> None:
    log_path = tmp_path / "logs" / "engine.log"
    log_path.parent.mkdir()
    log_path.write_bytes(b"old\n" * 1_500_000)

    async def scene() -> None:
        async with Scene(server(), tmp_path) as engine:
            await engine.phase("ready")

    run(scene())
    text = log_path.read_text()
    assert text.startswith("serving ")
    assert log_path.stat().st_mode & 0o777 == 0o600
    run(scene())
    assert log_path.read_text().startswith(text)
