"""The recorded meshes: three places, their machines, and what those said at many moments. Pure but for `recorded`.

They are drawn once from a seed and then kept in meshes.json, so that the sweep rests on what can be looked at. Every
layer has at least two holders, so that there is a choice. Loads come in bursts: a machine is nearly idle, and at some
moments has more in hand than it can do.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench.router.meshes import seeded

from lumbre.mesh import NodeState

FILE = Path(__file__).with_name("meshes.json")
MODEL = "model"
MOMENTS = 30
_JOINT = ",\n"
_BURST = 0.25
"""The share of moments at which a machine is in a burst."""

Pieces = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Kind:
    """A kind of machine: its score, and the milliseconds that its own stage takes at best and at worst."""

    name: str
    score: float
    fastest_ms: float
    slowest_ms: float


MINI = Kind("mini", 5.0, 8.0, 22.0)
LAPTOP = Kind("laptop", 12.0, 8.0, 22.0)
DESKTOP = Kind("desktop", 40.0, 6.0, 18.0)
SERVER = Kind("server", 120.0, 14.0, 30.0)
"""The server is strong and stands further away, behind one more switch."""


@dataclass(frozen=True)
class Place:
    """A mesh: how many layers its model has, and who holds which."""

    name: str
    about: str
    layers: int
    machines: tuple[tuple[Kind, Pieces], ...]


PLACES = (
    Place(
        "home",
        "3 machines: a desktop, a laptop, a mini PC",
        12,
        (
            (DESKTOP, ((0, 3), (4, 7))),
            (LAPTOP, ((4, 7), (8, 11))),
            (MINI, ((0, 3), (8, 11))),
        ),
    ),
    Place(
        "office",
        "8 machines of four kinds, in quarters of the model",
        32,
        (
            (SERVER, ((0, 7), (8, 15))),
            (DESKTOP, ((8, 15), (16, 23))),
            (DESKTOP, ((16, 23), (24, 31))),
            (LAPTOP, ((0, 7),)),
            (LAPTOP, ((8, 15), (16, 23))),
            (LAPTOP, ((24, 31),)),
            (MINI, ((0, 7),)),
            (MINI, ((16, 23),)),
        ),
    ),
    Place(
        "lab",
        "16 machines of four kinds, in eighths of the model",
        64,
        (
            *((SERVER, ((first, first + 7), (first + 8, first + 15))) for first in (0, 32)),
            *((DESKTOP, ((first, first + 7), (first + 8, first + 15))) for first in (8, 16, 24, 48)),
            *((LAPTOP, ((first, first + 7), (first + 8, first + 15))) for first in (0, 24, 40)),
            *((LAPTOP, ((first, first + 7),)) for first in (16, 48, 56)),
            *((MINI, ((first, first + 7),)) for first in (0, 8, 40, 56)),
        ),
    ),
)


def record() -> str:
    """What stands in meshes.json; the same every time."""
    return _as_text([_recorded_place(place, seeded(place.name)) for place in PLACES])


def recorded() -> list[list[NodeState]]:
    """Read the meshes: one for each place and moment."""
    return [states for place in json.loads(FILE.read_bytes()) for states in _moments(place)]


def _recorded_place(place: Place, dice: Random) -> dict[str, Any]:
    names = [f"{kind.name}-{number}" for number, (kind, _) in enumerate(place.machines)]
    return {
        "place": place.name,
        "about": place.about,
        "last_layer": place.layers - 1,
        "nodes": [
            {"node_id": name, "capacity_score": kind.score, "served_layers": pieces}
            for name, (kind, pieces) in zip(names, place.machines, strict=True)
        ],
        "latency_ms_and_load": [[_said(kind, dice) for kind, _ in place.machines] for _ in range(MOMENTS)],
    }


def _said(kind: Kind, dice: Random) -> tuple[float, float]:
    """A machine's latency and load at one moment."""
    load = dice.uniform(0.3, 1.5) if dice.random() < _BURST else dice.uniform(0.0, 0.15)
    return round(dice.uniform(kind.fastest_ms, kind.slowest_ms), 1), round(load, 2)


def _moments(place: dict[str, Any]) -> Iterator[list[NodeState]]:
    for moment in place["latency_ms_and_load"]:
        yield [
            NodeState.from_dict({**node, "latency_ms": latency_ms, "current_load": load, "alive": True})
            for node, (latency_ms, load) in zip(place["nodes"], moment, strict=True)
        ]


def _as_text(places: list[dict[str, Any]]) -> str:
    """JSON with one node, or one moment, a line."""
    return f"[\n{_JOINT.join(map(_place_as_text, places))}\n]\n"


def _place_as_text(place: dict[str, Any]) -> str:
    parts = []
    for name, value in place.items():
        lines = ",\n    ".join(map(json.dumps, value)) if isinstance(value, list) else ""
        parts.append(f'  "{name}": ' + (f"[\n    {lines}\n  ]" if lines else json.dumps(value)))
    return f" {{\n{_JOINT.join(parts)}\n }}"
