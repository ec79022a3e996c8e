"""What the ledger says of a request, an attempt, a crossing, a hold, a switch and a policy. Pure; `store` keeps it.

Every record has the nine keys of `KEYS`, null where one does not apply, and after them those of its kind. It has names,
sizes, counts and codes, and never what was asked or answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lumbre.gateway.policy import Policy
from lumbre.gateway.switches import Switch, kind_of
from lumbre.wire.openai.story import Usage

Entry = dict[str, Any]
"""One record, as it is written: JSON, but for `at` and `until`, which are aware moments in UTC."""

KINDS = ("request", "attempt", "crossing", "hold", "switch", "policy")
KEYS = ("kind", "decision", "at", "tier", "node", "model", "status", "reasons", "cost_microusd")

_CALLERS_CHARS = 200
"""What a caller may put into a record with the name of a model or of a field."""
_REASON_CHARS = 1000


@dataclass(slots=True)  # not frozen, like all below: every request makes one
class Place:
    """Where it ran, or was to run; None for what was not settled.

    Attributes:
        label: of tier B's work.
        model: as the upstream calls it.
    """

    tier: str | None = None
    label: str | None = None
    node: str | None = None
    model: str | None = None


@dataclass(slots=True)
class Asked:
    """What came in.

    Attributes:
        model: as the caller called it.
    """

    endpoint: str
    stream: bool
    model: str | None


@dataclass(slots=True)
class Ended:
    """How a request ended.

    Attributes:
        status: the HTTP status that its caller got.
        outcome: `ok`, `client_gone`, `cut_off`, or the code of the error that ended it.
        attempts: how often it was dispatched.
        param: the field that was at fault.
        cost_microusd: of all its attempts; None where nothing is charged.
        times_s: seconds from its arrival to what happened: `admitted`, `header`, `token`, `end`.
    """

    status: int
    outcome: str
    attempts: int
    usage: Usage
    param: str | None = None
    cost_microusd: int | None = None
    times_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Tried:
    """How one attempt of a request ended.

    Attributes:
        number: 1 for the first.
        outcome: as in `Ended`.
        status: the HTTP status that the upstream gave; None if it gave none.
        seconds: from its dispatch to its end.
        idle: nobody is left for whom its machine works; None where no machine's time is paid.
    """

    number: int
    outcome: str
    status: int | None
    seconds: float
    cost_microusd: int | None = None
    idle: bool | None = None


@dataclass(slots=True)
class Parcel:
    """What is about to leave the organisation's machines.

    Attributes:
        host: where it goes.
        size_bytes: of the body.
        sha256: of the same bytes, in hex.
        messages: how many it holds.
        redactions: how many different values of each kind are hidden in it.
        reserved_microusd: set aside for it until its cost is known.
    """

    host: str
    size_bytes: int
    sha256: str
    messages: int
    redactions: Mapping[str, int]
    reserved_microusd: int


def request(decision: str, at: datetime, place: Place, asked: Asked, ended: Ended, reasons: Sequence[str]) -> Entry:
    """A request has ended.

    Args:
        at: an aware moment, as everywhere here.
        place: where the answer came from.
        reasons: the decision's, in the order of its steps.
    """
    usage = ended.usage
    entry = _entry("request", decision, at, place, reasons)  # filled in: to merge two costs every request as much again
    entry["status"] = ended.status
    entry["cost_microusd"] = ended.cost_microusd
    entry["endpoint"] = asked.endpoint
    entry["stream"] = asked.stream
    entry["model_asked"] = _cut(asked.model, _CALLERS_CHARS)
    entry["outcome"] = ended.outcome
    entry["param"] = _cut(ended.param, _CALLERS_CHARS)
    entry["attempts"] = ended.attempts
    entry["prompt_tokens"] = usage.prompt
    entry["completion_tokens"] = usage.completion
    entry["tokens_estimated"] = usage.estimated
    entry["times_s"] = dict(ended.times_s)
    return entry


def attempt(decision: str, at: datetime, place: Place, tried: Tried, reasons: Sequence[str] = ()) -> Entry:
    """A dispatch to one upstream has ended.

    Args:
        reasons: why it was tried there.
    """
    entry = _entry("attempt", decision, at, place, reasons)
    entry["status"] = tried.status
    entry["cost_microusd"] = tried.cost_microusd
    entry["attempt"] = tried.number
    entry["outcome"] = tried.outcome
    entry["seconds"] = tried.seconds
    entry["idle"] = tried.idle
    return entry


def crossing(decision: str, at: datetime, place: Place, parcel: Parcel, reasons: Sequence[str]) -> Entry:
    """A request is about to leave for tier C. Its cost is not known yet; the attempt has it.

    Args:
        reasons: why no other tier can serve it, or why this one was asked.
    """
    return {
        **_entry("crossing", decision, at, place, reasons),
        "host": parcel.host,
        "bytes": parcel.size_bytes,
        "sha256": parcel.sha256,
        "messages": parcel.messages,
        "redactions": dict(parcel.redactions),
        "reserved_microusd": parcel.reserved_microusd,
    }


def hold(decision: str, at: datetime, node: str, reserved_microusd: int) -> Entry:
    """A paid machine that was idle is about to work. The attempt that leaves it idle again ends this.

    Args:
        decision: of the request that it begins to work for.
        reserved_microusd: set aside for its time, whoever shares it.
    """
    return {**_entry("hold", decision, at, Place("B", None, node), ()), "reserved_microusd": reserved_microusd}


def switch(moved: Switch, at: datetime) -> Entry:
    """A switch was closed or opened, as it stands now."""
    covers = kind_of(moved.name)
    place = Place()
    if covers == "tier":
        place.tier = moved.name
    elif covers in ("label", "node"):
        place.tier = "B"
        place.label = moved.name if covers == "label" else None
        place.node = moved.name if covers == "node" else None
    return {
        **_entry("switch", None, at, place, _said(moved.reason)),
        "switch": moved.name,
        "covers": covers,
        "state": moved.state,
        "shown": moved.shown,
        "by": moved.by,
    }


def policy(chosen: Policy, at: datetime, *, by: str | None = None, reason: str | None = None) -> Entry:
    """Another policy holds from now on.

    Args:
        by: who chose it: `operator`, or `lumbre` itself when a drain's time is over.
        reason: in the words of who did.
    """
    return {
        **_entry("policy", None, at, Place(), _said(reason)),
        "policy": chosen.name,
        "until": None if chosen.until is None else _utc(chosen.until),
        "by": by,
    }


def _entry(kind: str, decision: str | None, at: datetime, place: Place, reasons: Sequence[str]) -> Entry:
    return {
        "kind": kind,
        "decision": decision,
        "at": _utc(at),
        "tier": place.tier,
        "node": place.node,
        "model": _cut(place.model, _CALLERS_CHARS),
        "status": None,
        "reasons": list(reasons),
        "cost_microusd": None,
        "label": place.label,
    }


def _utc(at: datetime) -> datetime:
    if at.tzinfo is UTC:
        return at
    if at.tzinfo is None:
        raise ValueError(f"{at} says no time zone, and would be taken for this machine's")
    return at.astimezone(UTC)


def _said(reason: str | None) -> list[str]:
    return [] if not reason else [reason[:_REASON_CHARS]]


def _cut(text: str | None, most_chars: int) -> str | None:
    return None if text is None else text[:most_chars]
