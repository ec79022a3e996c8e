"""`/v1/ledger`: what ran where, and what it cost. Driver over Starlette."""

from collections.abc import Awaitable, Callable, Mapping

import orjson
from starlette.requests import Request
from starlette.responses import Response

from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted
from lumbre.ledger.records import KINDS
from lumbre.ledger.store import Ledger

Endpoint = Callable[[Request], Awaitable[Response]]

USUAL_LIMIT = 100
LARGEST_LIMIT = 1000

_PARAMETERS = ("decision", "after", "next", "limit", "kind")
_OF_PAGES = ("after", "next", "limit")


def records(ledger: Ledger) -> Endpoint:
    """`GET /v1/ledger`: every record of one decision, oldest first, or the records of all, newest first, page by page.

    Its parameters are `decision`; or `limit`, from 1 to `LARGEST_LIMIT`, and `after`, which is what the page before
    said as `next` and may be called so too. With both goes `kind`.
    """

    async def respond(request: Request) -> Response:
        query = request.query_params
        _check_names(query)
        kind = _kind(query.get("kind"))
        if (decision := query.get("decision")) is not None:
            _check_whole(query)
            found = await ledger.find(decision)
            return _reply([entry for entry in found if kind in (None, entry.get("kind"))], None)
        limit, (name, after) = _limit(query.get("limit")), _after(query)
        try:
            return _reply(*await ledger.page(after=after, limit=limit, kind=kind))
        except CallerError as error:
            raise error.told_by(name) from None

    return respond


def _check_names(query: Mapping[str, str]) -> None:
    """A name that is spelt wrongly must not widen what is told."""
    for name in query:
        if name not in _PARAMETERS:
            message = f"{quoted(name)} is no parameter here; there are {', '.join(_PARAMETERS)}"
            raise CallerError(message, param=name, code="unknown_parameter", valid=_PARAMETERS)


def _check_whole(query: Mapping[str, str]) -> None:
    for name in _OF_PAGES:
        if name in query:
            raise _wrong(name, "the records of a decision are told whole; leave it out")


def _kind(told: str | None) -> str | None:
    if told not in (None, *KINDS):
        message = f"kind: {quoted(told)} is none of {', '.join(KINDS)}"
        raise CallerError(message, param="kind", code="invalid_value", valid=KINDS)
    return told


def _limit(told: str | None) -> int:
    if told is None:
        return USUAL_LIMIT
    # What is longer than four digits is out of range, and need not become a number to be so.
    limit = int(told) if told.isascii() and told.isdigit() and len(told) <= 4 else 0
    if not 1 <= limit <= LARGEST_LIMIT:
        raise _wrong("limit", f"it is a whole number from 1 to {LARGEST_LIMIT}")
    return limit


def _after(query: Mapping[str, str]) -> tuple[str, str | None]:
    """What the caller called the place to go on from, and the place."""
    if "after" in query and "next" in query:
        raise _wrong("next", "it is another name of `after`, which is there too")
    name = "next" if "next" in query else "after"
    return name, query.get(name)


def _wrong(name: str, why: str) -> CallerError:
    return CallerError(f"{name}: {why}", param=name, code="invalid_value")


def _reply(found: list[dict[str, object]], following: str | None) -> Response:
    return Response(orjson.dumps({"records": found, "next": following}), media_type="application/json")
