"""Decides which model files this machine has whole and fetches those it lacks. Owns the cache folder on disk;
`lumbre up` and `lumbre models` drive it, from where they may block."""

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lumbre.core.errors import OperatorError
from lumbre.runtime.models import hub, lock, names, wheels
from lumbre.runtime.models.child import TransferError
from lumbre.runtime.models.content import (
    Sidecar,
    is_gguf,
    publish,
    read_sidecar,
    sha256_of,
    sidecar_path,
    write_sidecar,
)
from lumbre.runtime.models.fetching import Fetched, Fetching, Outside, Patience
from lumbre.runtime.models.names import HubRef, PathRef, RegistryRef
from lumbre.runtime.models.progress import Progress, Report, silent
from lumbre.runtime.models.registry import REGISTRY, Registry

Kept = RegistryRef | HubRef


@dataclass(frozen=True)
class ModelEntry:
    """One line of `lumbre models list`.

    Attributes:
        license: its name; empty where Lumbre does not know it, as for a file from a hub.
        present: in the cache, and unchanged since its hash was checked.
        path: where the file lies, or would.
    """

    name: str
    file: str
    size_bytes: int
    license: str
    terms_url: str
    present: bool
    path: Path


class ModelStore:
    """The models in one cache folder: `<folder>/<name>/<file>.gguf`, each with a sidecar for its hash."""

    def __init__(
        self,
        cache_dir: Path,
        *,
        registry: Registry = REGISTRY,
        patience: Patience | None = None,
        outside: Outside | None = None,
    ) -> None:
        self._cache_dir = cache_dir.expanduser().absolute()
        self._registry = registry
        self._patience = patience or Patience()
        self._outside = outside or Outside()

    def list(self) -> tuple[ModelEntry, ...]:
        """Every model of the registry, present or not, then every file that was fetched from a hub."""
        return (*self._registry_entries(), *self._hub_entries())

    def path_of(self, name: str) -> Path | None:
        """Where the model's file is, or None if it is not here whole. Fast: no hash is made.

        `OperatorError` if the name means nothing, or is a path to no GGUF file.
        """
        ref = names.parse(name, self._registry)
        if isinstance(ref, PathRef):
            return _own_file(ref)
        return file if self._is_whole(ref, file := self._file_of(ref)) else None

    def ensure(self, name: str, report: Report = silent) -> Path:
        """The model's file, fetched first if it is not here whole. Blocks.

        Raises:
            OperatorError: the name means nothing, the file is no GGUF, the disk is full, or the fetch failed.
        """
        ref = names.parse(name, self._registry)
        if isinstance(ref, PathRef):
            return _own_file(ref)
        file = self._file_of(ref)
        if self._is_whole(ref, file):
            return file
        try:
            with self._alone(ref, report):
                # Another process may have fetched it while this one waited.
                if not self._is_whole(ref, file) and not self._adopted(ref, file, report):
                    self._fetch(ref, file, report)
        except OSError as error:
            raise OperatorError(
                f"cannot keep {name} in {file.parent}: {error.strerror or error};"
                " mend that, or set [models] cache_dir to another folder",
                code="model_cache",
            ) from error
        return file

    def remove(self, name: str) -> int:
        """Take a model out of the cache; returns the bytes freed."""
        ref = names.parse(name, self._registry)
        if isinstance(ref, PathRef):
            raise OperatorError(
                f"{name} is a file of your own, not in the cache: delete it yourself", code="model_file"
            )
        file = self._file_of(ref)
        with self._alone(ref, silent):
            if not file.exists():
                raise OperatorError(f"{name} is not in the cache ({file} does not exist)", code="model_absent")
            freed_bytes = file.stat().st_size
            if isinstance(ref, RegistryRef):
                shutil.rmtree(file.parent)
            else:
                file.unlink()
                sidecar_path(file).unlink(missing_ok=True)
                self._drop_empty(file.parent)
        return freed_bytes

    def _file_of(self, ref: Kept) -> Path:
        match ref:
            case RegistryRef(name=name):
                return self._cache_dir / name / self._registry[name].file
            case HubRef(folder=folder, path=path):
                return self._cache_dir / folder / path

    def _is_whole(self, ref: Kept, file: Path) -> bool:
        sidecar = read_sidecar(sidecar_path(file))
        if sidecar is None or not sidecar.still_holds(file):
            return False
        return isinstance(ref, HubRef) or sidecar.sha256 == self._registry[ref.name].sha256

    def _adopted(self, ref: Kept, file: Path, report: Report) -> bool:
        """Take a file that lies there already: put there by hand, or touched since its hash was last made."""
        sidecar = read_sidecar(sidecar_path(file))
        expected = sidecar.sha256 if sidecar else ""
        if isinstance(ref, RegistryRef):
            expected = self._registry[ref.name].sha256
        if not file.is_file() or not is_gguf(file):
            return False
        size_bytes = file.stat().st_size
        found = sha256_of(file, lambda done: report(Progress(ref.name, "verify", done, size_bytes)))
        if expected and found != expected:
            return False
        write_sidecar(file, ref.name, found, sidecar.source if sidecar else "by hand")
        return True

    def _fetch(self, ref: Kept, file: Path, report: Report) -> None:
        folder = file.with_name(f"{file.name}.partial")
        # What a fetch that was killed has left; no other runs, since this one holds the lock.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        fetching = Fetching(ref.name, folder, report, self._patience, self._outside)
        try:
            fetched = fetching.persist(lambda: self._attempt(ref, fetching))
            publish(fetched.file, file)
            write_sidecar(file, ref.name, fetched.sha256, fetched.source)
            for paper in fetched.papers:
                paper.replace(file.with_name(paper.name))
        except TransferError as broke:
            raise self._gave_up(ref, file, str(broke)) from broke
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _attempt(self, ref: Kept, fetching: Fetching) -> Fetched:
        match ref:
            case RegistryRef(name=name):
                return wheels.fetch(self._registry[name], fetching)
            case HubRef():
                return hub.fetch(ref, fetching)

    def _gave_up(self, ref: Kept, file: Path, reason: str) -> OperatorError:
        expected = f" (sha256 {self._registry[ref.name].sha256})" if isinstance(ref, RegistryRef) else ""
        return OperatorError(
            f"cannot fetch {ref.name}: {self._patience.attempts} attempts failed, the last because {reason}."
            f" Try again when that is mended, or put the file at {file}{expected} by hand,"
            ' or set model = "/path/to/file.gguf"',
            code="model_fetch_failed",
        )

    def _alone(self, ref: Kept, report: Report) -> AbstractContextManager[None]:
        return lock.held(
            self._cache_dir / ".locks" / quote(ref.name, safe="")[:200],
            limit_s=self._patience.lock_s,
            pause=self._outside.pause,
            on_wait=lambda: report(Progress(ref.name, "wait")),
        )

    def _registry_entries(self) -> Iterator[ModelEntry]:
        for name, model in self._registry.items():
            ref = RegistryRef(name)
            file = self._file_of(ref)
            present = self._is_whole(ref, file)
            yield ModelEntry(name, model.file, model.size_bytes, model.license, model.terms_url, present, file)

    def _hub_entries(self) -> Iterator[ModelEntry]:
        for path in sorted(self._cache_dir.glob("hf--*/**/*.gguf.json")):
            sidecar: Sidecar | None = read_sidecar(path)
            if sidecar is not None:
                file = path.with_suffix("")
                present = sidecar.still_holds(file)
                yield ModelEntry(sidecar.name, file.name, sidecar.size_bytes, "", "", present, file)

    def _drop_empty(self, folder: Path) -> None:
        with suppress(OSError):  # the first folder that still holds something ends it
            while folder != self._cache_dir:
                folder.rmdir()
                folder = folder.parent


def _own_file(ref: PathRef) -> Path:
    file = Path(ref.name).expanduser().absolute()
    try:
        fine = is_gguf(file)
    except OSError as error:
        raise OperatorError(f"cannot read the model {file}: {error.strerror}", code="model_file") from error
    if not fine:
        raise OperatorError(f"{file} is not a GGUF file: it does not begin with the letters GGUF", code="model_file")
    return file
