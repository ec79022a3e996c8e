"""Where the words of a chat or completions request stand, for them to be hidden: everywhere, but at a few places. Pure;
the passage to an outside API drives it.

The tables below name the places that are left alone, since a request would mean nothing with something else there: the
model, roles, types, ids, the names of tools and of a schema's properties with what refers to them, parameters that are
numbers, and base64, which cannot be read here. What no table knows is hidden with its keys and its numbers, so a field
that was invented yesterday goes out no more readable than a message.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lumbre.wire.json_strings import hidden_in_json

__all__ = ["hide_request"]

_Change = Callable[[str], str]


def hide_request(body: Mapping[str, Any], hide: Callable[[Sequence[str]], Sequence[str]]) -> dict[str, Any]:
    """Make a request with nothing in it that `hide` finds; the one given stays as it is.

    A number that is hidden becomes a string. A speaker's `name` is left out, for APIs take no placeholder there. An
    address of the web is hidden within its text, and may lead nowhere then.

    Args:
        body: a request for chat completions or completions whose types have been checked.
        hide: given the request's different texts, gives each with placeholders in it.
    """
    texts: dict[str, str] = {}
    _walked(body, lambda text: texts.setdefault(text, text))
    hidden = dict(zip(texts, hide(list(texts)), strict=True))
    return _walked(body, hidden.__getitem__)


def _plain(text: str, hide: _Change) -> str | None:
    return hide(text)


def _kept(text: str, _: _Change) -> str | None:
    return text


def _kept_within(text: str, hide: _Change) -> str | None:
    """Of a reference: it names something of its own schema."""
    return text if text.startswith("#") else hide(text)


def _kept_or_left_out(text: str, hide: _Change) -> str | None:
    return text if hide(text) == text else None


_DATA_URL = re.compile(r"((?i:data:[^,]{0,200};base64),)[A-Za-z0-9+/\r\n]*+={0,2}")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4}){64,}+(?:[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=))?")
"""Of sound: it has no head that says what it is, so it is known by its length as well."""


def _medium(text: str, hide: _Change) -> str | None:
    if _BASE64.fullmatch(text):
        return text
    if (url := _DATA_URL.fullmatch(text)) is None:
        return hide(text)
    return hide(url[1]) + text[url.end(1) :]


@dataclass(frozen=True, slots=True)
class _Place:
    """What stands somewhere; the elements of a list stand where it does.

    Attributes:
        keys: of an object, those that are known, and where their values stand.
        named: of an object whose keys are names that stay: where their values stand. Without it, keys are hidden.
        text: hides a text; None: it is left out.
        keeps_numbers: they are parameters, or tokens.
    """

    keys: Mapping[str, "_Place"] = field(default_factory=dict)
    named: "_Place | None" = None
    text: Callable[[str, _Change], str | None] = _plain
    keeps_numbers: bool = False


_DATA = _Place()
_KEPT = _Place(text=_kept)
_NUMBERS = _Place(keeps_numbers=True)


def _walked(body: Mapping[str, Any], hide: _Change) -> dict[str, Any]:
    whole: list[Any] = [dict(body)]
    left: list[tuple[Any, Any, _Place]] = [(whole, 0, _REQUEST)]
    while left:  # no recursion: a caller may nest as deep as the parser lets it
        holder, key, place = left.pop()
        value = holder[key]
        if isinstance(value, dict):
            holder[key], inner = _opened(value, place, hide)
            left += inner
        elif isinstance(value, list):
            holder[key] = each = list(value)
            left += [(each, number, place) for number in reversed(range(len(each)))]
        elif isinstance(value, str):
            holder[key] = place.text(value, hide)
            if holder[key] is None:
                del holder[key]
        elif isinstance(value, int | float) and not isinstance(value, bool) and not place.keeps_numbers:
            written = json.dumps(value)
            hidden = hide(written)
            holder[key] = value if hidden == written else hidden
    made: dict[str, Any] = whole[0]
    return made


def _opened(value: Mapping[str, Any], place: _Place, hide: _Change) -> tuple[dict[str, Any], list[Any]]:
    """A copy of an object with its keys hidden, and where its values stand, the last first."""
    made: dict[str, Any] = {}
    inner = []
    for name, each in value.items():
        at = place.keys.get(name, place.named)
        said = hide(name) if at is None else name
        made[said] = each
        inner.append((made, said, at or _DATA))
    return made, inner[::-1]


_SCHEMA_KEYS: dict[str, _Place] = {}
_SCHEMA = _Place(_SCHEMA_KEYS)
_NESTED = (
    *("additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items"),
    *("not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_BOUNDS = (
    *("exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems"),
    *("minLength", "minProperties", "minimum", "multipleOf"),
)
_SCHEMA_KEYS |= dict.fromkeys(_NESTED, _SCHEMA)
_SCHEMA_KEYS |= dict.fromkeys(("$defs", "definitions", "dependentSchemas", "properties"), _Place(named=_SCHEMA))
_SCHEMA_KEYS |= {"$ref": _Place(text=_kept_within), "required": _KEPT, "type": _KEPT}
_SCHEMA_KEYS |= {"dependentRequired": _Place(named=_KEPT)} | dict.fromkeys(_BOUNDS, _NUMBERS)

_FUNCTION = _Place({"name": _KEPT, "parameters": _SCHEMA})
_CUSTOM = _Place({"name": _KEPT})
_TOOL = _Place({"type": _KEPT, "function": _FUNCTION, "custom": _CUSTOM})
_CHOICE_KEYS = {"type": _KEPT, "mode": _KEPT, "name": _KEPT, "function": _CUSTOM, "custom": _CUSTOM, "tools": _TOOL}
_CHOICE = _Place({**_CHOICE_KEYS, "allowed_tools": _Place(_CHOICE_KEYS)}, text=_kept)
_FORMAT = _Place({"type": _KEPT, "json_schema": _Place({"name": _KEPT, "schema": _SCHEMA})})

_CALLED = _Place({"name": _KEPT, "arguments": _Place(text=hidden_in_json)})
_CALL = _Place({"id": _KEPT, "type": _KEPT, "index": _NUMBERS, "function": _CALLED, "custom": _CALLED})
_MEDIA = dict.fromkeys(("url", "data", "file_data"), _Place(text=_medium)) | {"file_id": _KEPT}
_MEDIUM = _Place(_MEDIA, text=_medium)
_PART = _Place({"type": _KEPT} | dict.fromkeys(("image_url", "input_audio", "audio_url", "video_url", "file"), _MEDIUM))
_MESSAGE = _Place(
    {
        "role": _KEPT,
        "name": _Place(text=_kept_or_left_out),
        "content": _PART,
        "tool_calls": _CALL,
        "tool_call_id": _KEPT,
        "function_call": _CALLED,
    }
)
_PARAMETERS = (
    *("best_of", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "min_p", "n"),
    *("presence_penalty", "repetition_penalty", "seed", "temperature", "top_k", "top_logprobs", "top_p"),
)
_REQUEST = _Place(
    {
        "model": _KEPT,
        "messages": _MESSAGE,
        "prompt": _NUMBERS,  # a prompt may come as tokens
        "tools": _TOOL,
        "tool_choice": _CHOICE,
        "functions": _FUNCTION,
        "function_call": _CHOICE,
        "response_format": _FORMAT,
    }
    | dict.fromkeys(_PARAMETERS, _NUMBERS)
)
