"""Whether an upstream gets work, from its probes. Pure; the tier's driver probes and acts.

One good probe brings it back; so many failed in a row take it out. Before its first probe it is `starting`: requests
may wait for it, and nobody calls it broken.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Health:
    """What the probes have shown.

    Attributes:
        state: `starting`, `ready` or `down`.
        failures: failed probes in a row.
        reason: why it is down; None otherwise.
    """

    state: str = "starting"
    failures: int = 0
    reason: str | None = None


def probed_well(_health: Health) -> Health:
    """A probe was answered."""
    return Health("ready")


def probed_badly(health: Health, reason: str, failures: int) -> Health:
    """A probe failed; `failures` in a row, or one before it was ever well, take the upstream out."""
    count = health.failures + 1
    if health.state == "starting" or count >= failures:
        return Health("down", count, reason)
    return replace(health, failures=count)
