"""What is told of a start that went wrong: which line of the log, and how the process ended."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from lumbre.runtime.engine_process import Announced, EngineProcess
from lumbre.runtime.launches import Launch

KEY = "a-key-for-the-tests"
SOMETHING_ELSE = "the engine's process announced something else: "


def launch(*argv: str, announces: bool = False) -> Launch:
    return Launch(argv, None, announces, None, KEY, dict(os.environ))


def shell(script: str, *, announces: bool = False) -> Launch:
    return launch("sh", "-c", script, announces=announces)


def ending(start: Launch, log_path: Path) -> tuple[str, str]:
    async def scene() -> tuple[str, str]:
        process = await EngineProcess.spawn(start, log_path)
        return await process.exited(), process.last_words()

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("said", "telling"),
    [
        (["loading", "done"], "done"),
        (["loading", "", "   "], "loading"),
        ([], ""),
        (["error: bad flag --frob", "see --help"], "error: bad flag --frob"),
        (["Traceback:", "  x = 1", "ModuleNotFoundError: no vllm"], "ModuleNotFoundError: no vllm"),
        (["sh: 1: llama-server: not found", "failed"], "sh: 1: llama-server: not found"),
        (
            [
                "0.00.054.928 E llama_model_load: error loading model: the file is incomplete",
                "0.00.055.037 E srv    load_model: failed to load model",
                "0.00.060.105 E srv          init: exiting due to model loading error",
            ],
            "llama_model_load: error loading model: the file is incomplete",
        ),
        ([f"error: the key {KEY} is too short"], "error: the key … is too short"),
        (["error: " + "x" * 5000], ("error: " + "x" * 5000)[:300]),
        (["error: " + "x" * 100, *["padding " * 10] * 10_000], "padding " * 9 + "padding"),
    ],
)
def test_the_line_that_tells_most_is_picked(tmp_path: Path, said: list[str], telling: str) -> None:
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in said))
    assert ending(shell(f"cat {text}"), tmp_path / "engine.log")[1] == telling


def test_the_words_of_an_earlier_start_are_not_taken_for_this_ones(tmp_path: Path) -> None:
    log_path = tmp_path / "engine.log"
    assert ending(shell("echo error: the first"), log_path)[1] == "error: the first"
    assert ending(shell("exit 1"), log_path)[1] == ""
    assert ending(shell("echo fine"), log_path)[1] == "fine"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 3", "exited with status 3"),
        ("kill -SEGV $$", "was ended by SIGSEGV"),
        ("kill -KILL $$", "was ended by SIGKILL (is the machine out of memory?)"),
        ("exit 143", "was ended by SIGTERM"),
        ("exit 255", "exited with status 255"),
    ],
)
def test_how_it_ended_is_told_in_words(tmp_path: Path, script: str, told: str) -> None:
    assert ending(shell(script), tmp_path / "engine.log")[0] == f"the engine's process {told}"


@pytest.mark.parametrize(
    ("line", "announced"),
    [
        ('{"event": "ready", "address": "http://127.0.0.1:1"}', Announced("http://127.0.0.1:1")),
        ('{"event": "failed", "reason": "no model"}', Announced(None, "no model")),
        ("hello", Announced(None, f"{SOMETHING_ELSE}b'hello\\n'")),
        ('{"event": "ready"}', Announced(None, f'{SOMETHING_ELSE}b\'{{"event": "ready"}}\\n\'')),
        ("", None),
    ],
)
def test_an_announcement_is_an_address_or_a_reason(tmp_path: Path, line: str, announced: Announced | None) -> None:
    async def scene() -> None:
        script = f"printf %s '{line}{chr(10) if line else ''}'"
        process = await EngineProcess.spawn(shell(script, announces=True), tmp_path / "engine.log")
        assert await process.announced() == announced
        await process.exited()

    asyncio.run(scene())


def test_a_process_that_listens_to_nothing_is_killed(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"

    async def scene() -> None:
        start = launch(sys.executable, "-c", deaf, announces=True)
        process = await EngineProcess.spawn(start, tmp_path / "engine.log")
        async with asyncio.timeout(10):
            await process.announced()
        assert await process.end(0.1)
        assert signal.Signals.SIGKILL.name in await process.exited()
        assert await process.end(0.1), "ending it twice is no error"

    asyncio.run(scene())
