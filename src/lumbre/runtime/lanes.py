"""What the tier knows of each of its upstreams: where it is, what it serves, how it is. One lane an upstream; a source
(a supervised engine, or a prober) writes it, the tier reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lumbre.backends.capability import of_model_list
from lumbre.backends.permit import Address, Permit
from lumbre.backends.traits import UNKNOWN, Traits, traits_of
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import UpstreamError
from lumbre.gateway.breaker import Breaker, BreakerState, Seen
from lumbre.gateway.capability import UNKNOWN as UNKNOWN_CAPABILITY
from lumbre.gateway.capability import Capability
from lumbre.gateway.facts import NodeState
from lumbre.gateway.health import Health, HealthState

MODELS_TIMEOUT_S = 5.0


@dataclass
class Lane:
    """One upstream as the tier sees it now.

    Attributes:
        id: its name in replies, headers and metrics.
        slots: how many requests it takes at once when it is well.
        model: what it is asked for when the request leaves the choice open.
        address: None while it is not up.
        asked: it has said what it serves, at least once, or need not be asked.
        settled: it has been looked at, well or not, so nobody has to wait for its first word.
        said: what the settings say that it can do, whatever it says itself.
        capabilities: what it can do with each model, by the model's name there, the settings' word over its own. A
            model that is not in it can do what `said` says.
        labels: of a burst node.
        api: the only API that it speaks, where that is not OpenAI's.
        outside: it is not the organisation's own.
        redacts: what is sent there has its secrets hidden.
        max_tokens: what a request is sent with that sets no limit to its answer; 0: none.
        breaker: as the tier's breakers wrote it last.
        is_doubted: a request has just failed there.
        rests_until: when it may be asked again that asked to be left alone, on the loop's clock.
        check: asked before anything is sent there; raises `SwitchClosed`.
    """

    id: str
    slots: int
    model: str
    address: Address | None = None
    health: Health = field(default_factory=Health)
    models: tuple[str, ...] = ()
    traits: Traits = UNKNOWN
    asked: bool = False
    settled: bool = False
    said: Capability = UNKNOWN_CAPABILITY
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    api: Literal["openai", "anthropic"] = "openai"
    outside: bool = False
    redacts: bool = False
    max_tokens: int = 0
    breaker: Breaker = field(default_factory=Breaker)
    is_doubted: bool = False
    rests_until: float = 0.0
    check: Callable[[], None] = lambda: None

    @property
    def speaks_messages(self) -> bool:
        """Whether it takes requests in Anthropic's API as they are."""
        endpoints = self.said.endpoints
        return self.traits.messages if endpoints is None else "messages" in endpoints

    def learn(self, told: Mapping[str, Capability]) -> None:
        """Take what the upstream says that it can do with each model, in place of what it said before."""
        known = {model: self.said.over(capability) for model, capability in told.items()}
        self.capabilities = {model: each for model, each in known.items() if each != UNKNOWN_CAPABILITY}

    def capability(self, model: str | None) -> Capability:
        """What it can do with a model (None: with its own choice)."""
        return self.capabilities.get(self.target(model), self.said) if self.capabilities else self.said

    def serves(self, model: str | None) -> bool:
        """Whether it takes a request for this model (None: for any)."""
        return model is None or model in self.models or model == self.model

    def target(self, model: str | None) -> str:
        """The model's name as this upstream knows it."""
        return model or self.model or (self.models[0] if self.models else "default")

    def permit(self, address: Address, check: Callable[[], None] | None = None) -> Permit:
        """Leave to ask the upstream about itself; a request of a client's needs a tier's permit.

        Args:
            check: asked before it is sent; None: the lane's own.
        """
        return Permit(address, check or self.check)


def state_of(lane: Lane) -> NodeState:
    """Whether a lane takes work, by all that is known of it."""
    if lane.health.state is HealthState.DOWN:
        return NodeState.DOWN
    if lane.breaker.state is BreakerState.OPEN:
        return NodeState.TRIPPED
    if lane.rests_until:
        return NodeState.COOLING
    return NodeState.STARTING if lane.health.state is HealthState.STARTING else NodeState.READY


Changed = Callable[[Lane], None]
"""Called by a lane's source after it wrote to it."""

Saw = Callable[[Lane, Seen, str | None], None]
"""Called by a lane's source with what a probe found, and why."""


@dataclass(frozen=True)
class Catalogue:
    """What an upstream says of itself.

    Attributes:
        capabilities: as far as its list of models tells.
    """

    models: tuple[str, ...]
    traits: Traits
    capabilities: Mapping[str, Capability] = field(default_factory=dict)


async def read_catalogue(outbound: Outbound, permit: Permit, timeout_s: float = MODELS_TIMEOUT_S) -> Catalogue:
    """Ask an upstream for its models.

    Raises:
        SwitchClosed: it may not be asked.
        UpstreamError: it does not answer, refuses the key, or answers 5xx. A server that answers otherwise and
            has no model list is taken to serve what it is configured for.
    """
    status, server, document = await outbound.get(permit, "/models", timeout_s)
    if status in (401, 403):
        raise UpstreamError(f"it refuses the gateway's key ({status}); see api_key_env")
    if status >= 500:
        raise UpstreamError(f"GET /models answers {status}")
    entries = _entries(document)
    owners = [entry["owned_by"] for entry in entries if isinstance(entry.get("owned_by"), str)]
    names = tuple(entry["id"] for entry in entries if isinstance(entry.get("id"), str))
    return Catalogue(names, traits_of(owners, server), of_model_list(document))


def _entries(document: object) -> list[dict[str, Any]]:
    data = document.get("data") if isinstance(document, dict) else None
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
