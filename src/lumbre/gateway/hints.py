"""What a caller may say about where and how its request should run. Pure; every door reads hints through `read`.

Hints come as headers (`X-Lumbre-Tier`) or in the body's `lumbre` object (`"tier"`); saying two different things is an
error, and so is a value that does not exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted

VALUES: Mapping[str, tuple[str, ...]] = {
    "tier": ("A", "B", "C"),
    "label": ("batch", "express"),
    "complexity": ("low", "medium", "high"),
    "affinity": ("A", "B", "C"),
    "class": ("interactive", "background"),
    "closed": ("auto", "fall", "reject"),
    "external": ("never", "allow"),
}
"""Every hint and the values it may take."""

_CODES = {"tier": "unknown_tier", "label": "unknown_label"}

MODEL_TIERS: Mapping[str, tuple[str | None, str | None]] = {
    "auto": (None, None),
    "tier-a": ("A", None),
    "tier-b": ("B", None),
    "tier-b/batch": ("B", "batch"),
    "tier-b/express": ("B", "express"),
    "tier-c": ("C", None),
}
"""Model names that are no model: the tier and the label that each asks for."""


@dataclass(frozen=True)
class Hints:
    """What was said; None where nothing was."""

    tier: str | None = None
    label: str | None = None
    complexity: str | None = None
    affinity: str | None = None
    klass: str | None = None
    closed: str | None = None
    external: str | None = None


NONE = Hints()
_HEADERS = frozenset(f"x-lumbre-{name}" for name in VALUES)


def read(headers: Mapping[str, str], lumbre: object) -> Hints:
    """Read the hints of one request.

    Args:
        headers: names in lower case.
        lumbre: the body's `lumbre` value, None if it has none.

    Raises:
        CallerError: 400 `invalid_hint`, `unknown_tier` or `unknown_label`, with the valid values.
    """
    if lumbre is None and _HEADERS.isdisjoint(headers):
        return NONE
    if lumbre is not None and not isinstance(lumbre, dict):
        raise CallerError("`lumbre` is an object of hints", param="lumbre", code="invalid_hint")
    said = {name: _hint(name, headers.get(f"x-lumbre-{name}"), (lumbre or {}).get(name)) for name in VALUES}
    known = {*VALUES, "context"}
    for key in lumbre or ():
        if key not in known:
            raise CallerError(
                f"no such hint: {quoted(key)}", param=f"lumbre.{key}", code="invalid_hint", valid=sorted(known)
            )
    return Hints(klass=said.pop("class"), **said)


def _hint(name: str, header: str | None, field: Any) -> str | None:
    value = field if header is None else header
    if value is None:
        return None
    if header is not None and field is not None and header != field:
        message = f"the header X-Lumbre-{name.title()} says {quoted(header)}, the body's lumbre.{name} {quoted(field)}"
        raise CallerError(message, param=f"lumbre.{name}", code="invalid_hint")
    if value not in VALUES[name]:
        where = f"X-Lumbre-{name.title()}" if header is not None else f"lumbre.{name}"
        valid = ", ".join(VALUES[name])
        code = _CODES.get(name, "invalid_hint")
        raise CallerError(f"{where}: {quoted(value)} is none of {valid}", param=where, code=code, valid=VALUES[name])
    return str(value)
