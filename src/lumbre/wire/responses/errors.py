"""How a Lumbre error looks to a client of the Responses API, and in that API's words. Pure; the door sends it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from lumbre.core.errors import CallerError, LumbreError
from lumbre.wire.openai.errors import error_body
from lumbre.wire.responses.items import Item, Placed, kind_of
from lumbre.wire.responses.request import RENAMED, conversation, sent_tools

__all__ = ["error_body", "error_event", "in_callers_words"]


def error_event(error: LumbreError, decision: str | None, sequence_number: int | None = None) -> bytes:
    """The same error inside a stream that has already begun; nothing but the end may follow it.

    The API's own event says it at its top. `error` holds it once more as the other doors say it: OpenAI's clients raise
    what they find there.

    Args:
        sequence_number: that of this event, `ResponseTranslation.sequence_number`; None where nobody knows it.
    """
    number = {} if sequence_number is None else {"sequence_number": sequence_number}
    event = {
        "type": "error",
        "code": error.code,
        "message": error.message,
        "param": error.param,
        **number,
        **orjson.loads(error_body(error, decision)),
    }
    return b"event: error\ndata: " + orjson.dumps(event) + b"\n\n"


_FIELDS: Sequence[tuple[str, str]] = (
    ("response_format.json_schema", "text.format"),
    ("response_format", "text.format"),
    ("reasoning_effort", "reasoning.effort"),
    ("verbosity", "text.verbosity"),
    ("logprobs", "include"),
    ("max_completion_tokens", "max_output_tokens"),
    ("tool_choice.function", "tool_choice"),
    *((name, field) for field, name in RENAMED.items()),
)
"""The chat API's fields and what they are called here; the first that fits."""


def in_callers_words(
    error: CallerError, body: Mapping[str, Any], history: Sequence[Item] = (), known: Mapping[str, Item] | None = None
) -> CallerError:
    """An error about the chat completion that a request became, told by the field of the request.

    Args:
        error: what a check of the chat completion found.
        body: the request that `to_chat` took, with the `history` and `known` that it had.
    """
    if error.param is None:
        return error
    return error.told_by(_field(error.param, body, conversation(body, history, known)))


def _field(path: str, body: Mapping[str, Any], messages: Sequence[Placed]) -> str:
    if (found := re.fullmatch(r"messages\[(\d+)\](.*)", path)) and int(found[1]) < len(messages):
        return _place(messages[int(found[1])], found[2], body)
    if found := re.fullmatch(r"tools\[(\d+)\](?:\.function)?(.*)", path):
        sent = sent_tools(body)
        return f"tools[{sent[int(found[1])] if int(found[1]) < len(sent) else found[1]}]{found[2]}"
    if path.startswith("messages"):
        return "input"
    for theirs, ours in _FIELDS:
        if path == theirs or path.startswith((f"{theirs}.", f"{theirs}[")):
            return ours + path.removeprefix(theirs)
    return path


def _place(placed: Placed, inside: str, body: Mapping[str, Any]) -> str:
    found = re.fullmatch(r"input\[(\d+)\]", placed.place)
    if found is None or kind_of(body["input"][int(found[1])]) != "message" or not inside.startswith(".content"):
        return placed.place
    return placed.place + inside.replace("image_url.url", "image_url").replace("image_url.detail", "detail")
