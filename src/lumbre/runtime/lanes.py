"""What the tier knows of each of its upstreams: where it is, what it serves, how it is. One lane an upstream; a source
(a supervised engine, or a prober) writes it, the tier reads it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lumbre.backends.traits import UNKNOWN, Traits, traits_of
from lumbre.backends.upstream import Address, Outbound
from lumbre.core.errors import UpstreamError
from lumbre.gateway.health import Health

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

    def serves(self, model: str | None) -> bool:
        """Whether it takes a request for this model (None: for any)."""
        return model is None or model in self.models or model == self.model

    def target(self, model: str | None) -> str:
        """The model's name as this upstream knows it."""
        return model or self.model or (self.models[0] if self.models else "default")


Changed = Callable[[Lane], None]
"""Called by a lane's source after it wrote to it."""


@dataclass(frozen=True)
class Catalogue:
    """What an upstream says of itself."""

    models: tuple[str, ...]
    traits: Traits


async def read_catalogue(outbound: Outbound, address: Address, timeout_s: float = MODELS_TIMEOUT_S) -> Catalogue:
    """Ask an upstream for its models.

    Raises:
        UpstreamError: it does not answer, refuses the key, or answers 5xx. A server that answers otherwise and
            has no model list is taken to serve what it is configured for.
    """
    status, server, document = await outbound.get(address, "/models", timeout_s)
    if status in (401, 403):
        raise UpstreamError(f"it refuses the gateway's key ({status}); see api_key_env")
    if status >= 500:
        raise UpstreamError(f"GET /models answers {status}")
    entries = _entries(document)
    owner = next((entry["owned_by"] for entry in entries if isinstance(entry.get("owned_by"), str)), None)
    names = tuple(entry["id"] for entry in entries if isinstance(entry.get("id"), str))
    return Catalogue(names, traits_of(owner, server))


def _entries(document: object) -> list[dict[str, Any]]:
    data = document.get("data") if isinstance(document, dict) else None
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
