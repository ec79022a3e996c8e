"""Runs `lumbre mesh` in the test's own process, and makes nodes for its files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumbre.cli.main import main


@dataclass
class Said:
    """What a command said."""

    status: int
    out: str
    err: str


Say = Callable[..., Said]
Write = Callable[[str | bytes], str]


def speaker(capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs `lumbre mesh …`, in English unless the words say otherwise."""

    def run(*words: str) -> Said:
        status = main(["mesh", *words, *(() if "--lang" in words else ("--lang", "en"))])
        return Said(status, *capsys.readouterr())

    return run


def writer(tmp_path: Path) -> Write:
    """Writes a file of nodes, and tells its name."""

    def write(content: str | bytes) -> str:
        path = tmp_path / "nodes.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def node(node_id: str, *layers: Sequence[float], **more: object) -> dict[str, object]:
    said = {"latency_ms": 1, "current_load": 0, "capacity_score": 100, "served_layers": list(layers), "alive": True}
    return {"node_id": node_id, **said, **more}
