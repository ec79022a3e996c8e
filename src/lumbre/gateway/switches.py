"""What the kill switches are called, what each of them covers, and what a set of them looks like. Pure; `runtime.board`
keeps the set and asks before every dispatch.

A *closed* switch stops all new dispatch; an *open* one lets it flow.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

TIER_SWITCHES = ("A", "B", "C")
LABEL_SWITCHES = ("batch", "express")
GLOBAL = "global"
PAID = frozenset({"B", "C"})
"""The tiers that cost money by use: `global` closes them, and never A."""

RESERVED = frozenset({*TIER_SWITCHES, *LABEL_SWITCHES, GLOBAL})
"""No node may have these ids."""


@dataclass(frozen=True)
class Switch:
    """One switch.

    Attributes:
        reason: why it was moved last, in the words of who did; None if nobody said.
        by: who did: `operator`, or `lumbre` itself, where the state could not be read.
        at: when; None if nobody ever has.
    """

    name: str
    is_closed: bool = False
    reason: str | None = None
    by: str | None = None
    at: datetime | None = None

    @property
    def state(self) -> str:
        """`closed` or `open`, for programs."""
        return "closed" if self.is_closed else "open"

    @property
    def shown(self) -> str:
        """The same for people, who never read the bare word."""
        return "closed (stopped)" if self.is_closed else "open (flowing)"


def kind_of(name: str) -> str:
    """`tier`, `label`, `global` or `node`."""
    if name in TIER_SWITCHES:
        return "tier"
    if name in LABEL_SWITCHES:
        return "label"
    return GLOBAL if name == GLOBAL else "node"


def covering(
    tier: str, label: str | None = None, node: str | None = None, labels: Sequence[str] = ()
) -> tuple[str, ...]:
    """The switches any of which stops a dispatch, the widest first.

    Args:
        label: for tier B, the label that the work goes by.
        node: for tier B, the node.
        labels: that node's own labels. Where it lends itself to another label, both are asked.
    """
    if tier == "A":
        return ("A",)
    if tier == "C":
        return (GLOBAL, "C")
    own = () if label in labels else labels
    asked = (() if label is None else (label,), own, () if node is None else (node,))
    return (GLOBAL, "B", *(name for names in asked for name in names))


def first_closed(names: Sequence[str], closed: Collection[str]) -> str | None:
    """The widest of these switches that is closed."""
    for name in names:
        if name in closed:
            return name
    return None
