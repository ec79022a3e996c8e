"""Takes a request's body: its size checked before it is read, its JSON with the place of a fault. Driver over ASGI."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Receive

from lumbre.core.errors import CallerError


class ClientGone(Exception):
    """The client closed its connection before its request was whole; there is nobody to answer."""


async def read_body(headers: Mapping[str, str], receive: Receive, limit_bytes: int) -> bytes:
    """Read the whole body.

    Args:
        headers: names in lower case.

    Raises:
        CallerError: 413 `body_too_large`, from its declared length alone if it has one; 415 for a compressed body.
        ClientGone: there is nobody any more.
    """
    if (encoding := headers.get("content-encoding", "identity")) != "identity":
        raise CallerError(
            f"the body is encoded as {encoding}; send it as it is", status=415, code="unsupported_encoding"
        )
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit_bytes:
        raise _too_large(limit_bytes)
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
        CallerError: 400 `invalid_json` with the position.
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
    return value
