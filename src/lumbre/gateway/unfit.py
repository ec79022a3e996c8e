"""Why a tier, or one of its nodes, cannot take a request, and the error when nobody can. Pure; the decision notes
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lumbre.core.errors import CapacityError, LumbreError, SwitchClosed

RETRY_SWITCH_S = 30
RETRY_DOWN_S = 5
RETRY_BUDGET_S = 3600


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why.

    Attributes:
        reason: a stable word; `text` says it to a person.
        passes: it may be otherwise in a while.
        switch: the one that stands in the way.
        error: what the request asks for too much.
    """

    reason: str
    text: str
    passes: bool = True
    switch: str | None = None
    error: LumbreError | None = None

    @property
    def weight(self) -> int:
        """Of several nodes' reasons the one with the nearest way out is told: to open a switch, then to wait."""
        return 2 if self.switch is not None else int(self.passes)


def stopped_by(switch: str) -> Unfit:
    """A closed switch stops it."""
    return Unfit("switch_closed", told_switch(switch), switch=switch)


def told_switch(switch: str) -> str:
    """A closed switch, in words."""
    return f"the switch {switch} is closed (stopped)"


def switch_refusal(switch: str) -> SwitchClosed:
    """The error for a request that a closed switch refuses."""
    message = f"{told_switch(switch)}; `lumbre switch open {switch}` opens it"
    return SwitchClosed(message, switch=switch, retry_after_s=RETRY_SWITCH_S)


def nothing_left(unfits: Sequence[tuple[str, Unfit]]) -> LumbreError:
    """The error for a request that no tier can take.

    Args:
        unfits: each tier that was looked at, and why it cannot; the one that was wanted first.
    """
    tier, first = unfits[0]
    lack = next((unfit.error for _, unfit in unfits if unfit.error is not None), None)
    if lack is not None and not any(unfit.passes for _, unfit in unfits):
        return lack
    told = "; ".join(f"{each}: {unfit.text}" for each, unfit in unfits)
    if first.switch is not None:
        message = f"nobody can take the request ({told})"
        return SwitchClosed(message, switch=first.switch, retry_after_s=RETRY_SWITCH_S)
    if any(unfit.reason == "over_budget" for _, unfit in unfits):
        message = f"nobody can take the request within today's budget ({told}); see [flow] daily_budget_usd"
        return CapacityError(message, status=429, code="over_budget", retry_after_s=RETRY_BUDGET_S)
    if tier == "A" and len(unfits) == 1:
        return CapacityError(f"no upstream of tier A is up ({first.text})", retry_after_s=RETRY_DOWN_S)
    return CapacityError(f"no tier can take the request ({told})", retry_after_s=RETRY_DOWN_S)


def strict_json_needs_b() -> CapacityError:
    """The error for strict JSON where there is no tier B at all."""
    return CapacityError(
        "strict JSON needs tier B, and none is configured. Two ways out: a node under [[tier_b.nodes]], or "
        "[tier_a] strict_json = true if tier A's model is up to it",
        code="strict_json_needs_b",
    )
