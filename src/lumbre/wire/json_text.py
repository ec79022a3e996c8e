"""JSON as engines write it. Pure: what a strict parser refuses (infinities, lone surrogates) is read all the same.

The gateway only looks into a reply; whether its client can read it is between the client and the engine.
"""

import json
from typing import Any

import orjson


def parse(data: bytes) -> Any:
    """Parse a reply's text.

    Raises:
        ValueError: it is no JSON by any reading.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise error from None
