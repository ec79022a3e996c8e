"""`/v1/responses/{response_id}`: the responses that are kept, to be read, listed and deleted; and what a new request
goes on from. Driver over Starlette.

A store that is turned off is None, and the one that asks is told so.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from lumbre.core.errors import CallerError
from lumbre.core.quoting import quoted
from lumbre.runtime.archive import Archive
from lumbre.wire.responses.refusals import INCLUDABLE
from lumbre.wire.responses.request import references

Endpoint = Callable[[Request], Awaitable[Response]]

_OFF = "no responses are kept here; `[responses] store = true` in the gateway's settings turns that on"
UNSUPPORTED: Mapping[str, str] = {
    "input_tokens": "a reply's `usage` has the count; /v1/messages/count_tokens counts without generating",
    "compact": "send a shorter `input`, or let the model sum up what was said",
}
"""Paths below `/v1/responses` that the API publishes and that nobody answers here, each with the way out."""

_MOST_LISTED = 100
_USUALLY_LISTED = 20


@dataclass(frozen=True)
class Recalled:
    """What a request goes on from.

    Attributes:
        history: the items before it, oldest first.
        known: the kept items that it refers to, by id.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, dict[str, Any]] = field(default_factory=dict)


async def recall(store: Archive | None, body: Mapping[str, Any]) -> Recalled:
    """Look up what a request goes on from; without a word about earlier responses the store is not asked.

    Args:
        body: a request whose types have been checked.

    Raises:
        CallerError: 400 `previous_response_not_found`.
        StoreBroken: the store is needed and cannot be read.
    """
    previous, wanted = body.get("previous_response_id"), references(body)
    if store is None:
        if previous is not None:
            message = f"previous_response_id: {_OFF}; or send the conversation so far as `input`"
            raise CallerError(message, param="previous_response_id", code="previous_response_not_found")
        return Recalled()
    return Recalled(
        history=await store.ask(store.store.history, previous) if previous is not None else [],
        known=await store.ask(store.store.items, wanted) if wanted else {},
    )


def retrieve(store: Archive | None) -> Endpoint:
    """`GET /v1/responses/{response_id}`."""

    async def respond(request: Request) -> Response:
        for name in ("stream", "starting_after"):
            if request.query_params.get(name, "false").lower() not in ("false", "0"):
                raise _refused(name, "a kept response is told whole; leave it out")
        _check_include(request)
        response_id = request.path_params["response_id"]
        found = await _on(store).ask(_on(store).store.get, response_id)
        if found is None:
            raise _not_found(response_id)
        return _json(found)

    return respond


def delete(store: Archive | None) -> Endpoint:
    """`DELETE /v1/responses/{response_id}`."""

    async def respond(request: Request) -> Response:
        response_id = request.path_params["response_id"]
        if not await _on(store).ask(_on(store).store.delete, response_id):
            raise _not_found(response_id)
        return _json({"id": response_id, "object": "response.deleted", "deleted": True})

    return respond


def input_items(store: Archive | None) -> Endpoint:
    """`GET /v1/responses/{response_id}/input_items`: the newest first, unless `order=asc`."""

    async def respond(request: Request) -> Response:
        limit, order = _limit(request.query_params.get("limit")), request.query_params.get("order", "desc")
        if order not in ("asc", "desc"):
            raise _wrong("order", "it is `asc` or `desc`")
        _check_include(request)
        response_id = request.path_params["response_id"]
        items = await _on(store).ask(_on(store).store.input_items, response_id)
        if items is None:
            raise _not_found(response_id)
        return _json(_page(items if order == "asc" else items[::-1], limit, request.query_params.get("after")))

    return respond


def cancel(store: Archive | None) -> Endpoint:
    """`POST /v1/responses/{response_id}/cancel`: there is never anything to cancel, and this says why."""

    async def respond(request: Request) -> Response:
        response_id = request.path_params["response_id"]
        if await _on(store).ask(_on(store).store.get, response_id) is None:
            raise _not_found(response_id)
        message = "only a response made with `background: true` can be cancelled, and here there are none"
        raise CallerError(f"{message}; to stop an answer, close its connection", code="not_cancellable")

    return respond


def unsupported(name: str) -> Endpoint:
    """`POST /v1/responses/{name}`, which the API publishes and nobody answers here.

    Args:
        name: one of `UNSUPPORTED`.
    """

    async def respond(_request: Request) -> Response:
        message = f"the gateway does not answer /v1/responses/{name}: {UNSUPPORTED[name]}"
        raise CallerError(message, status=404, code="unsupported_endpoint")

    return respond


def _on(store: Archive | None) -> Archive:
    if store is None:
        raise CallerError(_OFF, status=404, code="response_not_found")
    return store


def _not_found(response_id: str) -> CallerError:
    message = f"no response {quoted(response_id)} is kept here: it was never made, or not stored, or has been forgotten"
    return CallerError(message, status=404, param="response_id", code="response_not_found")


def _refused(name: str, why: str) -> CallerError:
    return CallerError(f"{name}: the gateway cannot honour this: {why}", param=name, code="unsupported_field")


def _wrong(name: str, why: str) -> CallerError:
    return CallerError(f"{name}: {why}", param=name, code="invalid_value")


def _check_include(request: Request) -> None:
    for name in ("include", "include[]"):
        for value in request.query_params.getlist(name):
            if value not in INCLUDABLE:
                raise _refused("include", f"it cannot be had here; there are {', '.join(INCLUDABLE)}")


def _limit(told: str | None) -> int:
    if told is None:
        return _USUALLY_LISTED
    # What is longer than three digits is out of range, and need not become a number to be so.
    limit = int(told) if told.isascii() and told.isdigit() and len(told) <= 3 else 0
    if not 1 <= limit <= _MOST_LISTED:
        raise _wrong("limit", f"it is a whole number from 1 to {_MOST_LISTED}")
    return limit


def _page(items: list[dict[str, Any]], limit: int, after: str | None) -> dict[str, Any]:
    ids = [item.get("id") for item in items]
    if after is not None and after not in ids:
        raise _wrong("after", "this response has no such input item")
    begin = 0 if after is None else ids.index(after) + 1
    page = items[begin : begin + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0].get("id") if page else None,
        "last_id": page[-1].get("id") if page else None,
        "has_more": begin + limit < len(items),
    }


def _json(document: object) -> Response:
    return Response(orjson.dumps(document), media_type="application/json")
