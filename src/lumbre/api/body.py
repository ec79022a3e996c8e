"""Takes a request's body: its size checked before it is read, its JSON with the place of a fault. Driver over ASGI."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Receive

from lumbre.core.errors import CallerError

DEPTH_LIMIT = 200
"""Levels of arrays and objects. Below what any JSON library of ours can write, for bodies are written anew."""


class ClientGone(Exception):
    """The client closed its connection before its request was whole; there is nobody to answer."""


async def read_body(headers: Mapping[str, str], receive: Receive, limit_bytes: int, limit_s: float) -> bytes:
    """Read the whole body.

    Args:
        headers: names in lower case.
        limit_bytes: of the body.
        limit_s: seconds until it must be whole.

    Raises:
        CallerError: 413 `body_too_large`, from its declared length alone if it has one; 415 for a compressed body; 408
            `body_timeout`.
        ClientGone: there is nobody any more.
    """
    if (encoding := headers.get("content-encoding", "identity")) != "identity":
        raise CallerError(
            f"the body is encoded as {encoding}; send it as it is", status=415, code="unsupported_encoding"
        )
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        async with asyncio.timeout(limit_s):
            return await _whole(receive, limit_bytes)
    except TimeoutError:
        message = f"the body was not whole within {limit_s:g} s ([limits] body_s)"
        raise CallerError(message, status=408, code="body_timeout", headers={"connection": "close"}) from None


async def _whole(receive: Receive, limit_bytes: int) -> bytes:
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(limit_bytes: int) -> CallerError:
    message = f"the body is larger than {limit_bytes} bytes ([limits] body_bytes)"
    return CallerError(message, status=413, code="body_too_large")


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a body that must be a JSON object.

    Raises:
        CallerError: 400 `invalid_json` with the position, or `too_deep`.
    """
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CallerError(f"the body is not UTF-8: byte {error.start} is wrong", code="invalid_json") from error
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno} (character {error.pos})"
        raise CallerError(f"the body is no JSON: {error.msg} at {where}", code="invalid_json") from error
    if not isinstance(value, dict):
        raise CallerError("the body is JSON, but no object", code="invalid_json")
    if _is_deeper(value, DEPTH_LIMIT):
        message = f"the body is JSON of more than {DEPTH_LIMIT} levels, and nothing deeper is taken"
        raise CallerError(message, code="too_deep")
    return value


def _is_deeper(value: dict[str, Any], limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in inside for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True
