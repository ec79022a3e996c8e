"""Whether a file's bytes are the ones they should be. Reads disk; `store` and `wheels` drive it.

A full hash of a model takes a moment, so a sidecar beside the file keeps the hash together with the size and
the time of change that the file had then: while these two still hold, so does the hash.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

PIECE_BYTES = 1 << 20
MAGIC = b"GGUF"


@dataclass(frozen=True)
class Sidecar:
    """What was true of a model's file when it was last hashed; `source` says where its bytes came from."""

    name: str
    sha256: str
    size_bytes: int
    mtime_ns: int
    source: str

    def still_holds(self, file: Path) -> bool:
        try:
            now = file.stat()
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == (self.size_bytes, self.mtime_ns)


def sidecar_path(file: Path) -> Path:
    """Where the sidecar of a file lies."""
    return file.with_name(f"{file.name}.json")


def read_sidecar(path: Path) -> Sidecar | None:
    """The sidecar, or None if there is none that can be read."""
    try:
        fields = json.loads(path.read_bytes())
        return Sidecar(
            name=str(fields["name"]),
            sha256=str(fields["sha256"]),
            size_bytes=int(fields["size_bytes"]),
            mtime_ns=int(fields["mtime_ns"]),
            source=str(fields["source"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_sidecar(file: Path, name: str, sha256: str, source: str) -> None:
    """Record that the file, as it is now, hashes to this."""
    now = file.stat()
    record = Sidecar(name, sha256, now.st_size, now.st_mtime_ns, source)
    path = sidecar_path(file)
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(asdict(record), indent=2) + "\n")
    draft.replace(path)


def sha256_of(file: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """Hash a file; `on_bytes` hears how many bytes are done, about every 16 MiB."""
    digest = hashlib.sha256()
    done_bytes = 0
    with file.open("rb") as source:
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
            done_bytes += len(piece)
            if on_bytes is not None and done_bytes % (16 * PIECE_BYTES) == 0:
                on_bytes(done_bytes)
    return digest.hexdigest()


def is_gguf(file: Path) -> bool:
    """Whether the file starts as every GGUF file does."""
    with file.open("rb") as source:
        return source.read(len(MAGIC)) == MAGIC


def publish(draft: Path, file: Path) -> None:
    """Move a finished draft to its place on the same disk: after a power cut, all is there or nothing."""
    with draft.open("rb") as finished:
        os.fsync(finished.fileno())
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
