"""What a failed attempt means: for its node's breaker, for the node's rest, and for the request. Pure; the dispatcher
asks after every attempt that failed before the client had any of the answer.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from lumbre.core.errors import BrokenPromise, CapacityError, DeadlineError, LumbreError, UpstreamError
from lumbre.gateway.decision import Attempt

LONGEST_REST_S = 86_400
_AFTER_SATURATION = {"A": "B", "B": "A"}


class UpstreamRefusal(UpstreamError):
    """An upstream refused with a status of its own that another may not have: 408, 429, 5xx."""


@dataclass(frozen=True)
class Failure:
    """What one failed attempt means.

    Attributes:
        moves_on: another node or tier may be asked.
        counts: it is the node's fault, and its breaker's to know.
        rest_s: how long the node wants to be left alone; 0 for not at all.
    """

    moves_on: bool
    counts: bool
    rest_s: float = 0.0


def judge(error: LumbreError) -> Failure:
    """What a failure means.

    The caller's own 4xx never moves on and never counts; nor does an answer that breaks a promise, since the next
    engine has been asked for nothing else, nor the end of the time for the whole request.
    """
    if isinstance(error, UpstreamRefusal):
        return Failure(moves_on=True, counts=error.status != 429, rest_s=float(error.retry_after_s or 0))
    if isinstance(error, DeadlineError):
        own = error.name != "total"
        return Failure(moves_on=own, counts=own)
    if isinstance(error, CapacityError):
        return Failure(moves_on=error.code != "draining", counts=False)
    if not isinstance(error, UpstreamError) or isinstance(error, BrokenPromise) or error.status < 500:
        return Failure(moves_on=False, counts=False)
    return Failure(moves_on=True, counts=True)


def next_attempt(attempts: Sequence[Attempt], tried: Collection[str], full: str | None = None) -> Attempt | None:
    """The first attempt that still has somebody to ask; None when nothing is left.

    Where a tier is only full the work does not leave the house, and starts no machine: A's goes to a B that runs, B's
    to A.

    Args:
        tried: the nodes that have been asked, or were all taken.
        full: the tier that was full, if one was.
    """
    wanted = None if full is None else _AFTER_SATURATION.get(full, "")
    for attempt in attempts:
        if attempt.starts or (wanted is not None and attempt.tier != wanted):
            continue
        if not all(node in tried for node in attempt.nodes):
            return attempt
    return None


def retry_after(value: str, now: datetime) -> int | None:
    """Seconds that a `Retry-After` header asks for, at least 1 and at most a day; None where it says nothing.

    Args:
        value: a number of seconds, or an HTTP date.
        now: an aware moment.
    """
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(max(int(text), 1), LONGEST_REST_S)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    moment = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return min(max(math.ceil((moment - now).total_seconds()), 1), LONGEST_REST_S)
