"""What an id looks like. Pure: the random part comes in from whoever owns the dice."""

from typing import NewType

DecisionId = NewType("DecisionId", str)
"""Names one request from its arrival to its record: `d-` and 24 lower-case hex digits."""


def decision_id(randomness: bytes) -> DecisionId:
    """Make a decision's id from 12 random bytes."""
    return DecisionId(f"d-{randomness[:12].hex()}")
