"""Where a request keeps its wish when the `rogue` object itself cannot come through: a gateway that tells a request in
another API's words drops what it does not know. Pure; `rogue.wish` asks.

A field for the caller's own name for its user comes through every API; its text may then be JSON with the `rogue`
object. A list there is a wish for each turn of the conversation, so that a tool is called once and not for ever.
"""

import json
from collections.abc import Mapping
from typing import Any


def wished(whole: Mapping[str, Any]) -> object:
    """The `rogue` object of a request, wherever it stands; {} when there is none."""
    asked = whole.get("rogue")
    if asked is None:
        metadata = whole.get("metadata")
        asked = _whispered(whole.get("user") or (metadata.get("user_id") if isinstance(metadata, dict) else None))
    if not isinstance(asked, list):
        return asked
    turn = sum(_answers(whole.get("messages")))
    return asked[min(turn, len(asked) - 1)] if asked else {}


def _whispered(user: object) -> object:
    if not isinstance(user, str) or not user.startswith("{"):
        return {}
    try:
        told = json.loads(user)
    except ValueError:
        return {}
    return told.get("rogue", {})


def _answers(messages: object) -> list[bool]:
    given = messages if isinstance(messages, list) else []
    return [isinstance(each, dict) and each.get("role") == "assistant" for each in given]
