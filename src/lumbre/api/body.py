"""Reads a request's body as JSON, and tells the place of a fault. Pure; the doors ask."""

from typing import Any

import orjson

from lumbre.core.errors import CallerError

DEPTH_LIMIT = 200
"""Levels of arrays and objects. Below what any JSON library of ours can write, for bodies are written anew."""


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
    # So few brackets cannot be so deep: most bodies need no walk.
    if body.count(b"{") + body.count(b"[") > DEPTH_LIMIT and _is_deeper(value, DEPTH_LIMIT):
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
