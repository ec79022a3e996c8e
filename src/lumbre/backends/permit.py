"""Leave to send something to one upstream. Nothing is sent without one: `upstream.Outbound` takes no bare address.

A permit is no promise: it is asked again in the moment the bytes leave, since a switch may have been closed meanwhile.
Whoever hands permits out (the tiers, in `runtime`) says what asking means.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Address:
    """Where an upstream is.

    Attributes:
        base_url: up to and including `/v1`, without a final slash.
        api_key: the gateway's own key for it; None for none.
        api: whose way it has of taking the key: `openai` (`Authorization`) or `anthropic` (`x-api-key`).
    """

    base_url: str
    api_key: str | None = None
    api: Literal["openai", "anthropic"] = "openai"


class Permit:
    """Leave to send to an address.

    Args:
        check: asked before every sending; raises `SwitchClosed` when it may not be any more.
    """

    __slots__ = ("address", "check")

    def __init__(self, address: Address, check: Callable[[], None]) -> None:
        self.address = address
        self.check = check

    def at(self, base_url: str) -> "Permit":
        """The same leave for another path of the same server."""
        return Permit(Address(base_url, self.address.api_key, self.address.api), self.check)


def looking(address: Address) -> Permit:
    """Leave to look at a process of this machine: an engine that the gateway itself runs, or may find running.

    No request of anybody goes there, so no switch stands before it.
    """
    return Permit(address, _nothing)


def _nothing() -> None:
    return None
