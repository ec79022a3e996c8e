"""How the list of models looks in Anthropic's API, page by page. Pure; the door asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted

USUAL_LIMIT = 20
LARGEST_LIMIT = 1000


@dataclass(frozen=True)
class Entry:
    """One model.

    Attributes:
        created_s: seconds since 1970.
        context_tokens: how much it takes in; None where nobody has said.
    """

    id: str
    created_s: int
    context_tokens: int | None = None


def one(entry: Entry) -> dict[str, Any]:
    """`GET /v1/models/{model}`."""
    created = datetime.fromtimestamp(entry.created_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"type": "model", "id": entry.id, "display_name": entry.id, "created_at": created, "lifecycle": "active"}
    return told if entry.context_tokens is None else {**told, "max_input_tokens": entry.context_tokens}


def page(entries: Sequence[Entry], query: Mapping[str, str]) -> dict[str, Any]:
    """`GET /v1/models`: a part of the list, and whether there is more of it in the direction asked for.

    Args:
        query: `limit`, from 1 to `LARGEST_LIMIT`; `after_id` for what follows an entry, `before_id` for what stands
            just before it.

    Raises:
        CallerError: 400 `invalid_value`; names the parameter.
    """
    limit = _limit(query.get("limit"))
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None and before is not None:
        raise _wrong("before_id", "`after_id` is there too; ask in one direction")
    first, last = 0, len(entries)
    if after is not None:
        first = _place(entries, "after_id", after) + 1
    if before is not None:
        last = _place(entries, "before_id", before)
        first = max(0, last - limit)
    found = [one(entry) for entry in entries[first : min(last, first + limit)]]
    return {
        "data": found,
        "has_more": first > 0 if before is not None else first + limit < last,
        "first_id": found[0]["id"] if found else None,
        "last_id": found[-1]["id"] if found else None,
    }


def _limit(text: str | None) -> int:
    if text is None:
        return USUAL_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= LARGEST_LIMIT):
        raise _wrong("limit", f"{quoted(text)} is no number from 1 to {LARGEST_LIMIT}")
    return int(text)


def _place(entries: Sequence[Entry], name: str, wanted: str) -> int:
    for place, entry in enumerate(entries):
        if entry.id == wanted:
            return place
    raise _wrong(name, f"there is no model {quoted(wanted)}")


def _wrong(name: str, message: str) -> CallerError:
    return CallerError(f"{name}: {message}", param=name, code="invalid_value")
