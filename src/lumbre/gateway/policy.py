"""The routing policies: which tier work goes to that asks for none, and until when a drain holds. Pure; `decision`
asks.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted

PolicyName = Literal["balanced", "drain-batch", "drain-express", "local-only"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
DRAINS = ("drain-batch", "drain-express")
LONGEST_DRAIN = timedelta(days=30)

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class Policy:
    """The policy that was chosen last.

    Attributes:
        until: when the default returns; None: it stays.
    """

    name: PolicyName
    until: datetime | None = None

    def at(self, now: datetime, default: PolicyName) -> "Policy":
        """The policy that holds at a moment: this one, or the default when its time is over."""
        return self if self.until is None or now < self.until else Policy(default)


def label_for(policy: PolicyName, complexity: str, klass: str) -> str | None:
    """Where a policy sends work that asks for no tier: a label of tier B, or None for tier A.

    Args:
        complexity: `low`, `medium` or `high`.
        klass: `interactive` or `background`.
    """
    match policy:
        case "drain-batch":
            return "batch"
        case "drain-express":
            return "express"
        case "local-only":
            return None
        case "balanced":
            return label_by_class(klass) if complexity == "high" else None


def label_by_class(klass: str) -> str:
    """The label of tier B for work that names none: a person who waits cannot wait for a cold start."""
    return "batch" if klass == "background" else "express"


def chosen(name: object, lasting: object, now: datetime) -> Policy:
    """The policy that a caller asks for.

    Args:
        name: one of `POLICIES`.
        lasting: for a drain, how long: `90s`, `30m`, `2h`, `1d`; None: until it is changed.
        now: an aware moment.

    Raises:
        CallerError: 400 that names the field.
    """
    if name not in POLICIES:
        said = "nothing is said; it is one" if name is None else f"{_told(name)} is none"
        message = f"policy: {said} of {', '.join(POLICIES)}"
        raise CallerError(message, param="policy", code="unknown_policy", valid=POLICIES)
    policy = name
    if lasting is None:
        return Policy(policy)
    if policy not in DRAINS:
        message = f"for: only {' and '.join(DRAINS)} take a time; {policy} stays until it is changed"
        raise CallerError(message, param="for", code="invalid_duration")
    return Policy(policy, now + duration(lasting))


def duration(said: object) -> timedelta:
    """A length of time such as `2h`.

    Raises:
        CallerError: 400 `invalid_duration`.
    """
    text = said if isinstance(said, str) else ""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit()) or unit not in _UNITS_S or len(number) > 9:
        message = f"for: {_told(said)} is no length of time; say 90s, 30m, 2h or 1d"
        raise CallerError(message, param="for", code="invalid_duration")
    length = timedelta(seconds=int(number) * _UNITS_S[unit])
    if not timedelta(0) < length <= LONGEST_DRAIN:
        message = f"for: a drain lasts at least 1s and at most {LONGEST_DRAIN.days}d"
        raise CallerError(message, param="for", code="invalid_duration")
    return length


def _told(value: object) -> str:
    return quoted(value) if isinstance(value, str) else f"a value of the type {type(value).__name__}"
