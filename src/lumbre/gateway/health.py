"""Whether an upstream gets work, from its probes. Pure; the tier's driver probes and acts.

One good probe brings it back; so many failed in a row take it out. Before its first probe it is `starting`: requests
may wait for it, and nobody calls it broken.
"""

import enum
from dataclasses import dataclass, replace


class HealthState(enum.StrEnum):
    """Whether it gets work."""

    STARTING = "starting"
    """Not yet: requests wait for it."""
    READY = "ready"
    DOWN = "down"
    """No: requests that only it could serve are turned away."""


@dataclass(frozen=True)
class Health:
    """What is known of an upstream's state.

    Attributes:
        failures: failed probes in a row.
        reason: what went wrong last; None when it is ready.
    """

    state: HealthState = HealthState.STARTING
    failures: int = 0
    reason: str | None = None


def probed_well() -> Health:
    """A probe was answered, whatever was before."""
    return Health(HealthState.READY)


def probed_badly(health: Health, reason: str, failures: int) -> Health:
    """A probe failed; `failures` in a row, or one before it was ever well, take the upstream out."""
    count = health.failures + 1
    if health.state is HealthState.STARTING or count >= failures:
        return Health(HealthState.DOWN, count, reason)
    return replace(health, failures=count)
