"""The meshes on which the router is timed: random, but the same ones in every run. Pure; `timing` asks for them.

Machines join in pipelines, one after the other. Each pipeline cuts the layers into pieces, and its machines take them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from lumbre.mesh import NodeState

SIZES = ((3, 12), (16, 32), (100, 80), (1000, 128), (10000, 128))
RANDOM, ALIGNED, MULTI = "random", "aligned", "three fragments"
KINDS = (RANDOM, ALIGNED, MULTI)
"""Random: each pipeline is cut elsewhere. Aligned: all are cut alike. Three fragments: cut finer, and each machine
takes three pieces; for every other one two of them follow each other."""

MODEL = "model"
_PIECES = (4, 12)
_LEAST_LAYERS = 4
_ALIGNED_PIECES = 8
_HELD = 3


@dataclass(frozen=True)
class Size:
    """One mesh to be timed."""

    kind: str
    nodes: int
    layers: int

    @property
    def name(self) -> str:
        return f"{self.nodes} × {self.layers}"

    @property
    def window(self) -> tuple[int, int]:
        return 0, self.layers - 1


CASES = tuple(Size(kind, nodes, layers) for nodes, layers in SIZES for kind in KINDS)


def seeded(seed: str) -> Random:
    """A source of numbers that gives the same ones for the same seed, everywhere."""
    return Random(seed)  # noqa: S311 - meshes, not secrets


def mesh(size: Size) -> list[NodeState]:
    """The nodes of a mesh; at least one route covers all layers."""
    dice = seeded(f"{size.kind} {size.nodes} {size.layers}")
    states: list[NodeState] = []
    while len(states) < size.nodes:
        for held in _pipeline(size, dice):
            states.append(telling(f"node-{len(states)}", held, dice))
    return states[: size.nodes]


def telling(node_id: str, layers: tuple[tuple[int, int], ...], dice: Random) -> NodeState:
    """A node with these fragments, and whatever latency, load and capacity."""
    numbers = round(dice.uniform(1, 40), 1), round(dice.random(), 2), round(dice.uniform(2, 100), 1)
    return NodeState(node_id, *numbers, layers)


def _pipeline(size: Size, dice: Random) -> Iterator[tuple[tuple[int, int], ...]]:
    """The fragments of each machine of one pipeline."""
    most = min(size.nodes, size.layers // _LEAST_LAYERS)
    machines = min(most, _ALIGNED_PIECES if size.kind == ALIGNED else dice.randint(*_PIECES))
    if size.kind == ALIGNED:
        cuts = [size.layers * place // machines for place in range(1, machines)]
    else:
        count = machines * (_HELD if size.kind == MULTI else 1)
        cuts = sorted(dice.sample(range(1, size.layers), count - 1))
    pieces = [(first, after - 1) for first, after in zip([0, *cuts], [*cuts, size.layers], strict=True)]
    yield from _in_threes(pieces, dice) if size.kind == MULTI else ((piece,) for piece in pieces)


def _in_threes(pieces: list[tuple[int, int]], dice: Random) -> Iterator[tuple[tuple[int, int], ...]]:
    """Three pieces a machine: for every other one two that follow each other and a third, for the rest any three."""
    pairs = [pieces[place : place + 2] for place in range(0, len(pieces), 2 * _HELD)]
    others = [piece for place, piece in enumerate(pieces) if place % (2 * _HELD) > 1]
    dice.shuffle(others)
    for machine in range(len(pieces) // _HELD):
        own = pairs[machine // 2] if machine % 2 == 0 else []
        yield (*own, *(others.pop() for _ in range(_HELD - len(own))))
