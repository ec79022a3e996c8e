"""What a mesh node says of itself, checked when it comes in. Pure; health replies and files bring it.

What stands here is the seed's section 7. The cost reads these numbers without looking at them again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from lumbre.core.quoting import quoted
from lumbre.mesh.errors import InvalidTelemetry
from lumbre.mesh.reach import Fragment

MOST = 1e9
"""No number of a node is larger: beyond it float64 begins to lose what the order of routes depends on."""

_NUMBERS = ("latency_ms", "current_load", "capacity_score")
_REQUIRED = ("node_id", *_NUMBERS, "served_layers", "alive")
_KNOWN = frozenset({*_REQUIRED, "model"})
_ID_CHARS = 200
_MOST_FRAGMENTS = 4_096
"""Of one node. No model has so many layers, and a reply with more could only keep the router busy."""


class Links(NamedTuple):
    """How a node's fragments follow each other.

    Attributes:
        last: those behind which none of its own begins.
        leading: the others.
        following: those that begin where one of its own ends; they are among the `last` or the `leading` too.
    """

    last: tuple[Fragment, ...]
    leading: tuple[Fragment, ...]
    following: tuple[Fragment, ...]


def _links(fragments: tuple[Fragment, ...]) -> Links:
    if len(fragments) < 2:
        return Links(fragments, (), ())
    begin, end = {first for first, _ in fragments}, {last + 1 for _, last in fragments}
    return Links(
        tuple(each for each in fragments if each[1] + 1 not in begin),
        tuple(each for each in fragments if each[1] + 1 in begin),
        tuple(each for each in fragments if each[0] in end),
    )


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node at one moment.

    Attributes:
        node_id: its name; unique among those that are routed over.
        latency_ms: the worker's own moving average for its stage, milliseconds, 0 to 1e9.
        current_load: requests in hand, as a share or a count, 0 to 1e9.
        capacity_score: how strong it is, 0 to 1e9; below 0.01 counts as 0.01.
        served_layers: its fragments, in any order; they may overlap.
        alive: dead nodes take no part.
        model: the one whose layers it holds; None: any.
        diagnostics: whatever else it said, for display; no part of the cost.
        links: how its fragments follow each other; made of `served_layers`.

    Raises:
        InvalidTelemetry: a value is none; names the field.
    """

    node_id: str
    latency_ms: float
    current_load: float
    capacity_score: float
    served_layers: tuple[Fragment, ...]
    alive: bool = True
    model: str | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    links: Links = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if type(self.node_id) is not str or not 0 < len(self.node_id) <= _ID_CHARS:
            raise InvalidTelemetry("node_id", f"a text of 1 to {_ID_CHARS} characters, not {quoted(self.node_id)}")
        for name in _NUMBERS:
            _check_number(name, getattr(self, name))
        if not isinstance(self.served_layers, tuple):
            raise InvalidTelemetry("served_layers", f"pairs [first, last], not {quoted(self.served_layers)}")
        if len(self.served_layers) > _MOST_FRAGMENTS:
            raise InvalidTelemetry(
                "served_layers", f"{len(self.served_layers)} fragments; {_MOST_FRAGMENTS} is the most"
            )
        for number, fragment in enumerate(self.served_layers):
            _check_fragment(f"served_layers[{number}]", fragment)
        if type(self.alive) is not bool:
            raise InvalidTelemetry("alive", f"true or false, not {quoted(self.alive)}")
        if self.model is not None and type(self.model) is not str:
            raise InvalidTelemetry("model", f"a text, or null for any, not {quoted(self.model)}")
        object.__setattr__(self, "links", _links(self.served_layers))

    @classmethod
    def from_dict(cls, said: object) -> "NodeState":
        """Read a health reply.

        Keys that are not known are kept in `diagnostics`; `model` may be left out.

        Args:
            said: any JSON value.

        Raises:
            InvalidTelemetry: it is none; names the field.
        """
        if not isinstance(said, Mapping):
            raise InvalidTelemetry("(the node)", f"an object, not {quoted(said)}")
        for name in _REQUIRED:
            if name not in said:
                raise InvalidTelemetry(name, "is missing")
        layers = said["served_layers"]
        return cls(
            said["node_id"],
            said["latency_ms"],
            said["current_load"],
            said["capacity_score"],
            tuple(tuple(each) if isinstance(each, list) else each for each in layers)
            if isinstance(layers, list | tuple)
            else layers,
            said["alive"],
            said.get("model"),
            {key: value for key, value in said.items() if key not in _KNOWN},
        )


def states_from(said: object) -> tuple[NodeState, ...]:
    """Read a list of health replies, or an object whose `nodes` is one.

    Raises:
        InvalidTelemetry: one is none, or two have the same id; names the field, such as `[2].latency_ms`.
    """
    prefix = ""
    if isinstance(said, Mapping):
        if "nodes" not in said:
            raise InvalidTelemetry("nodes", "is missing")
        said, prefix = said["nodes"], "nodes"
    if not isinstance(said, Sequence) or isinstance(said, str):
        raise InvalidTelemetry(prefix or "(the file)", f"a list of nodes, not {quoted(said)}")
    states = []
    for number, each in enumerate(said):
        try:
            states.append(NodeState.from_dict(each))
        except InvalidTelemetry as error:
            where = f"{prefix}[{number}]"
            raise InvalidTelemetry(
                f"{where}.{error.field}" if isinstance(each, Mapping) else where, error.why
            ) from None
    if (twice := first_twice(states)) is not None:
        raise InvalidTelemetry(f"{prefix}[{twice}].node_id", f"{quoted(states[twice].node_id)} is there already")
    return tuple(states)


def first_twice(states: Iterable[NodeState]) -> int | None:
    """The place of the first node whose id another one before it has; None if each has its own."""
    seen: set[str] = set()
    for number, state in enumerate(states):
        if state.node_id in seen:
            return number
        seen.add(state.node_id)
    return None


def _check_number(name: str, value: object) -> None:
    if type(value) not in (int, float):
        raise InvalidTelemetry(name, f"a number, not {quoted(value)}")
    # An int may be too large for a float, so it is compared first.
    if not isinstance(value, int | float) or not 0 <= value <= MOST or not isfinite(value):
        raise InvalidTelemetry(name, f"a number from 0 to 1e9, not {quoted(value)}")


def _check_fragment(name: str, fragment: object) -> None:
    if not isinstance(fragment, tuple) or len(fragment) != 2:
        raise InvalidTelemetry(name, f"a pair [first, last], not {quoted(fragment)}")
    for end, layer in enumerate(fragment):
        if type(layer) is not int or not 0 <= layer <= MOST:
            raise InvalidTelemetry(f"{name}[{end}]", f"a whole number from 0 to 1e9, not {quoted(layer)}")
    if fragment[0] > fragment[1]:
        raise InvalidTelemetry(name, f"its first layer comes after its last: {quoted(list(fragment))}")
