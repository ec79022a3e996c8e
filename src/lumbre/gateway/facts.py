"""What the decision has to know: of a request, and of the house. Only data; `runtime.house` gathers it."""

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from lumbre.core.errors import CallerError
from lumbre.gateway.aliases import Asked
from lumbre.gateway.hints import Hints
from lumbre.gateway.policy import PolicyName


class NodeState(enum.StrEnum):
    """Whether one upstream, a burst node or other, takes work."""

    READY = "ready"
    STARTING = "starting"
    """Not yet: a request may wait for it."""
    STOPPED = "stopped"
    """A machine that may be started, and so is available."""
    DOWN = "down"
    TRIPPED = "tripped"
    """Its breaker is open."""
    COOLING = "cooling"
    """It asked to be left alone for a while (`Retry-After`)."""


AVAILABLE = frozenset({NodeState.READY, NodeState.STARTING, NodeState.STOPPED})


@dataclass(frozen=True, slots=True)
class Node:
    """One upstream of a tier.

    Attributes:
        reason: why it takes no work; None if it does.
        labels: of a burst node; none elsewhere.
        models: what it serves by name.
    """

    id: str
    state: NodeState = NodeState.READY
    reason: str | None = None
    labels: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """The house, as far as it is known now. Two that are equal decide alike.

    Attributes:
        a, b, c: the tiers' upstreams; of C none or one.
        a_does_strict_json: tier A's model is up to strict schemas.
        a_is_complete: each of A's upstreams has said what it serves, so that a name nobody serves does not exist.
        policy: the one that holds now.
        closed: the names of the closed switches.
        on_closed: what a closed switch does to a request that does not say: `auto`, `fall` or `reject`.
        c_has_key: a key for C is there.
        c_direct: models that may be asked of C by name, and `sha256:…` of keys that may; `*` for everybody.
        over_budget: the tiers, B or C, for which no money is left today.
        holds_work: work that cannot run now can be kept for later.
    """

    a: tuple[Node, ...]
    b: tuple[Node, ...] = ()
    c: tuple[Node, ...] = ()
    a_does_strict_json: bool = False
    a_is_complete: bool = True
    policy: PolicyName = "balanced"
    closed: frozenset[str] = frozenset()
    on_closed: str = "auto"
    c_has_key: bool = False
    c_direct: frozenset[str] = frozenset()
    over_budget: frozenset[str] = frozenset()
    holds_work: bool = False

    def nodes(self, tier: str) -> tuple[Node, ...]:
        """A tier's upstreams."""
        return self.a if tier == "A" else self.b if tier == "B" else self.c

    def serves(self, tier: str, model: str) -> bool:
        """Whether somebody in the tier serves a model by this name."""
        return any(model in node.models for node in self.nodes(tier))

    @functools.cached_property
    def models(self) -> tuple[str, ...]:
        """Every model that can be had by name, each once; those of the cheaper tiers first."""
        nodes = (*self.a, *self.b, *self.c)
        return tuple(dict.fromkeys(model for node in nodes for model in node.models))

    @functools.cached_property
    def askable(self) -> tuple[str, ...]:
        """Those of them that everybody may ask for: tier C's only where they are designated."""
        free = {model for node in (*self.a, *self.b) for model in node.models}
        everything = "*" in self.c_direct
        return tuple(model for model in self.models if everything or model in free or model in self.c_direct)


@dataclass(slots=True)  # not frozen: every request makes one
class Question:
    """What the decision has to know of a request.

    Attributes:
        model: the name to decide by, such as `Asked.model`.
        asked: what the caller's name stands for; None: it stands for itself.
        key: `sha256:…` of the key that the request came with; empty for none.
        lacks: by a node's id, why it cannot do this request (its context is too short, it takes no tools, …).
    """

    model: str
    hints: Hints
    strict_json: bool = False
    asked: Asked | None = None
    key: str = ""
    lacks: Mapping[str, CallerError] = field(default_factory=dict)
