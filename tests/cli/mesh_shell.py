"""Runs `lumbre mesh` in the test's own process, and makes nodes for its files."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lumbre.cli.main import main


@dataclass
class Said:
    """What a command said."""

    status: int
    out: str
    err: str


Say = Callable[..., Said]


def speaker(capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs `lumbre mesh …`, in English unless the words say otherwise."""

    def run(*words: str) -> Said:
        status = main(["mesh", *words, *(() if "--lang" in words else ("--lang", "en"))])
        return Said(status, *capsys.readouterr())

    return run


def node(node_id: str, *layers: list[float], **more: object) -> dict[str, object]:
    said = {"latency_ms": 1, "current_load": 0, "capacity_score": 100, "served_layers": list(layers), "alive": True}
    return {"node_id": node_id, **said, **more}
