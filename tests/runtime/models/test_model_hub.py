"""Fetching through the real client of the hub, from a hub on loopback that misbehaves as it is told."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_hub import COMMIT, LoopbackHub, running_hub
from loopback_index import noise

from lumbre.core.errors import OperatorError
from lumbre.runtime.models import ModelStore, Outside, Patience, Progress

NAME = "hf:org/repo/quants/tiny.gguf"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with running_hub(b"GGUF" + noise(3)) as hub:
        for name in [name for name in os.environ if name.startswith("HF_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield hub


def make_store(tmp_path: Path, silence_s: float = 30, free_bytes: int = 10**12) -> ModelStore:
    outside = Outside(pause=lambda _: None, free_bytes=lambda _: free_bytes)
    return ModelStore(tmp_path / "cache", patience=Patience(silence_s=silence_s), outside=outside)


def left(tmp_path: Path) -> list[str]:
    """Every file in the cache, but for the locks."""
    files = (path.relative_to(tmp_path / "cache") for path in (tmp_path / "cache").rglob("*") if path.is_file())
    return sorted(str(file) for file in files if file.parts[0] != ".locks")


def test_a_file_of_a_hub_is_fetched_once_listed_and_removed(hub: LoopbackHub, tmp_path: Path) -> None:
    store = make_store(tmp_path)

    file = store.ensure(NAME)

    assert file == tmp_path / "cache" / "hf--org--repo" / "quants" / "tiny.gguf"
    assert file.read_bytes() == hub.data
    asked = list(hub.asked)
    assert store.ensure(NAME) == file
    assert hub.asked == asked
    entry = store.list()[-1]
    assert (entry.name, entry.size_bytes, entry.present, entry.path) == (NAME, len(hub.data), True, file)
    assert store.remove(NAME) == len(hub.data)
    assert left(tmp_path) == []
    assert store.path_of(NAME) is None


def test_the_hub_is_asked_for_the_file_and_nothing_else(hub: LoopbackHub, tmp_path: Path) -> None:
    make_store(tmp_path).ensure(f"{NAME}@v1")

    revisions = [line.split("/resolve/")[1].split("/")[0] for line in hub.asked]
    assert revisions == ["v1", COMMIT, COMMIT]
    assert all(line.split()[1].endswith("/quants/tiny.gguf") for line in hub.asked)


def test_a_transfer_that_is_cut_goes_on_where_it_stopped(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.data = b"GGUF" + noise(4, 5_000_000)
    hub.deeds.append("cut")

    file = make_store(tmp_path).ensure(NAME)

    assert file.read_bytes() == hub.data
    assert hub.ranges() == ["", f"bytes={2 << 20}-"]


def test_a_file_with_another_hash_than_the_hub_says_is_fetched_again(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.deeds.extend(["altered", "refuse"])
    notes: list[str] = []

    file = make_store(tmp_path).ensure(NAME, lambda now: notes.append(now.note) if now.note else None)

    assert file.read_bytes() == hub.data
    assert f"should to {hub.sha256}" in notes[0]
    assert "500" in notes[1]


def test_a_transfer_that_falls_silent_is_ended_and_begun_again(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.deeds.append("hang")
    told: list[Progress] = []

    file = make_store(tmp_path, silence_s=4).ensure(NAME, told.append)

    assert {now.note for now in told if now.phase == "retry"} == {"not a byte came for 4 s"}
    assert file.read_bytes() == hub.data


@pytest.mark.parametrize(
    ("status", "word", "way_out"),
    [
        (401, "RepoNotFound", "no such repository, or it is private"),
        (403, "GatedRepo", "accept their terms"),
        (404, "RevisionNotFound", "no such revision"),
        (404, "EntryNotFound", "no such file"),
    ],
)
def test_a_refusal_of_the_hub_is_told_with_the_way_out(
    hub: LoopbackHub, tmp_path: Path, status: int, word: str, way_out: str
) -> None:
    hub.refusals["/org/repo/"] = (status, word)

    with pytest.raises(OperatorError, match=way_out) as failure:
        make_store(tmp_path).ensure(NAME)

    assert failure.value.message.startswith(f"cannot fetch {NAME}: ")
    assert len(hub.asked) == 1
    assert left(tmp_path) == []


def test_a_hub_that_cannot_be_reached_is_told_after_the_last_attempt(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    with pytest.raises(OperatorError, match=r"3 attempts failed.*Connection refused"):
        make_store(tmp_path).ensure(NAME)


def test_hub_offline_mode_is_told(hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with pytest.raises(OperatorError, match="HF_HUB_OFFLINE is set"):
        make_store(tmp_path).ensure(NAME)


def test_a_file_that_is_no_model_is_refused(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.data = b"<html>"

    with pytest.raises(OperatorError, match="is not a GGUF file"):
        make_store(tmp_path).ensure(NAME)

    assert left(tmp_path) == []


def test_a_disk_without_room_is_noticed_when_the_size_is_known(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.deeds.append("hang")

    with pytest.raises(OperatorError, match="not enough room"):
        make_store(tmp_path, free_bytes=1_000_000).ensure(NAME)

    assert left(tmp_path) == []


def test_a_report_that_raises_ends_the_transfer(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.deeds.append("hang")

    def report(_: Progress) -> None:
        if hub.hanging.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_store(tmp_path).ensure(NAME, report)

    assert left(tmp_path) == []


def test_the_program_that_fetches_ends_when_its_parent_is_gone(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.deeds.append("hang")
    words = [sys.executable, "-m", "lumbre.runtime.models.hub_child", "org/repo", hub.path, "main", str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert hub.hanging.wait(20)
        assert process.poll() is None
        assert process.stdin is not None

        process.stdin.close()  # what the system does for a parent that is killed

        assert process.wait(20) == 1
