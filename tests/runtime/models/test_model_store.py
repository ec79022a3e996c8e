"""What the cache does with files that are whole, touched, altered, put there by hand, or the user's own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_bench import Bench, running_bench

from lumbre.core.errors import OperatorError
from lumbre.runtime.models import REGISTRY, ModelStore


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with running_bench(tmp_path, monkeypatch) as bench:
        yield bench


def test_a_whole_file_is_found_without_hashing_it(bench: Bench) -> None:
    bench.put()
    before = bench.file.stat()
    bench.file.write_bytes(b"x" * before.st_size)
    os.utime(bench.file, ns=(before.st_atime_ns, before.st_mtime_ns))

    # Altered behind the clock's back: only a hash could tell, and it was not made.
    assert bench.store().path_of("tiny") == bench.file


def test_a_file_that_was_only_touched_is_hashed_and_kept(bench: Bench) -> None:
    bench.put()
    os.utime(bench.file)
    assert bench.store().path_of("tiny") is None

    bench.ensure()

    assert bench.index.asked == []
    assert bench.store().path_of("tiny") == bench.file


@pytest.mark.parametrize("harm", ["truncate", "alter", "remove"])
def test_a_harmed_file_is_fetched_again(bench: Bench, harm: str) -> None:
    bench.put()
    good = bench.file.read_bytes()
    bad = {"truncate": good[:-1], "alter": good[:1000] + b"!" + good[1001:], "remove": None}[harm]
    bench.file.unlink()
    if bad is not None:
        bench.file.write_bytes(bad)

    bench.ensure()

    assert bench.file.read_bytes() == good
    assert bench.index.asked == [bench.one, bench.two]


def test_a_harmed_file_is_not_there_while_it_cannot_be_fetched(bench: Bench) -> None:
    bench.put()
    bench.file.write_bytes(b"GGUF and nothing else")
    bench.index.plan(bench.one, "garbage", "garbage", "garbage")

    with pytest.raises(OperatorError):
        bench.ensure()

    assert bench.store().path_of("tiny") is None


def test_a_damaged_sidecar_costs_a_hash_and_no_fetch(bench: Bench) -> None:
    bench.put()
    bench.file.with_name("tiny.gguf.json").write_text("{half")

    bench.ensure()

    assert bench.index.asked == []
    assert bench.store().path_of("tiny") == bench.file


def test_a_file_put_there_by_hand_is_taken_when_it_hashes_right(bench: Bench) -> None:
    bench.file.parent.mkdir(parents=True)
    bench.file.write_bytes(bench.index.content)

    assert bench.ensure() == bench.file
    assert bench.index.asked == []
    assert bench.left() == ["tiny/tiny.gguf", "tiny/tiny.gguf.json"]


def test_the_list_says_what_is_here(bench: Bench) -> None:
    (before,) = bench.store().list()
    bench.put()
    (after,) = bench.store().list()

    assert (before.present, after.present) == (False, True)
    assert (after.name, after.file, after.license, after.path) == ("tiny", "tiny.gguf", "MIT", bench.file)


def test_the_list_of_an_empty_cache_names_the_registry(tmp_path: Path) -> None:
    entries = ModelStore(tmp_path / "nothing-here").list()

    assert [(entry.name, entry.present) for entry in entries] == [(name, False) for name in REGISTRY]


def test_remove_frees_the_file_and_says_how_much(bench: Bench) -> None:
    bench.put()

    assert bench.store().remove("tiny") == bench.model.size_bytes
    assert bench.left() == []
    with pytest.raises(OperatorError, match="not in the cache"):
        bench.store().remove("tiny")


def test_remove_does_not_touch_a_file_of_the_users_own(bench: Bench, tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")

    with pytest.raises(OperatorError, match="a file of your own"):
        bench.store().remove(str(own))

    assert own.exists()


def test_a_path_may_be_absolute_or_relative_or_begin_at_home(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF and more")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert [bench.store().ensure(name) for name in (str(own), "./own.gguf", "own.gguf", "~/own.gguf")] == [own] * 4
    assert bench.store().path_of("own.gguf") == own


def test_a_path_that_is_no_model_is_refused_with_the_reason(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>")

    with pytest.raises(OperatorError, match="does not begin with the letters GGUF"):
        bench.store().ensure(str(tmp_path / "page.gguf"))
    with pytest.raises(OperatorError, match="No such file"):
        bench.store().ensure(str(tmp_path / "absent.gguf"))
    with pytest.raises(OperatorError, match="Is a directory"):
        bench.store().ensure(f"{tmp_path}/")


def test_a_cache_folder_that_cannot_be_made_names_the_setting(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")

    with pytest.raises(OperatorError, match=r"cannot keep tiny in .*\[models\] cache_dir"):
        bench.ensure()


def test_the_default_model_is_whole_and_found_again(smollm2_path: Path, models_cache: Path) -> None:
    store = ModelStore(models_cache)

    assert store.path_of("smollm2-135m-instruct") == smollm2_path
    assert store.ensure("smollm2-135m-instruct") == smollm2_path
    assert smollm2_path.stat().st_size == 98_362_432
