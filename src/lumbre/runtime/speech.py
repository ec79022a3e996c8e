"""How one call is put to one engine, and how its reply is read: in which API, with what added. Pure but for its place;
the dispatcher sends it.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import orjson

from lumbre.core.errors import CallerError
from lumbre.gateway.redaction import Redaction
from lumbre.runtime.call import Call
from lumbre.runtime.lanes import Lane
from lumbre.runtime.reading import Reading
from lumbre.wire.anthropic.from_chat import USUAL_MAX_TOKENS, to_messages
from lumbre.wire.anthropic.turns import has_system_turn
from lumbre.wire.dialects import MESSAGES, OPENAI, Dialect
from lumbre.wire.openai.hidden import hide_request
from lumbre.wire.translation import Translation

_UNCANCELLABLE_BYTES = 512
"""Of a conversation and its tools, put to an engine that works through a prompt without looking who listens."""


@dataclass(slots=True)  # not frozen: every request makes one
class Speech:
    """What an engine is told.

    Attributes:
        endpoint: below `/v1`.
        dialect: how the reply is read.
        translation: tells the reply in the client's API; None where the engine speaks it.
        adds_progress: the gateway asks for progress events that the client did not ask for.
        reading: makes a chat reply of what the engine says; None where it is one.
        adds_usage: the gateway asks for a stream's usage, and the client did not.
    """

    endpoint: str
    body: Mapping[str, Any]
    dialect: Dialect
    translation: Translation | None
    adds_progress: bool
    reading: Reading | None = None
    adds_usage: bool = False

    def part(self, body: Mapping[str, Any]) -> "Speech":
        """The same with another body."""
        return replace(self, body=body)

    def encoded(self) -> bytes:
        """The body as bytes.

        Raises:
            CallerError: it cannot be written.
        """
        try:
            return orjson.dumps(self.body)
        except orjson.JSONEncodeError as error:
            raise CallerError(f"the body cannot be passed on: {error}", code="too_deep") from error


def speech(call: Call, lane: Lane, model: str | None, redaction: Redaction | None = None) -> Speech:
    """Put a call into an engine's words.

    Args:
        model: the one that the decision names; None: the lane's own choice.
        redaction: hides what must not leave; None: nothing is hidden.

    Raises:
        CallerError: the engine's API has no words for it.
    """
    target = lane.target(model)
    retelling = call.retelling
    if redaction is None and (own := own_words(call, lane)) is not None:
        return _in_its_own_words(own, call.endpoint, lane, target)
    if lane.outside:
        return _outside(call, lane, target, redaction)
    body = dict(call.body)
    body.pop("lumbre", None)
    body["model"] = target
    adds_progress = False
    if call.asked == "/chat/completions" or call.asked == "/completions":
        traits = lane.traits
        if not traits.takes_named_choice:
            _name_the_choice(body)
        if traits.needs_stream and not call.stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        if traits.reports_progress and body.get("stream") and "return_progress" not in body:
            body["return_progress"] = adds_progress = True
    translation = None if retelling is None else retelling.translate(target)
    return Speech(call.asked, body, OPENAI, translation, adds_progress)


def _outside(call: Call, lane: Lane, target: str, redaction: Redaction | None) -> Speech:
    """A call that leaves the house."""
    asked = call.body if redaction is None else hide_request(call.body, redaction.hide_all)
    options = call.body.get("stream_options")
    wants_usage = isinstance(options, dict) and options.get("include_usage") is True
    adds_usage = call.stream and not wants_usage
    translation = None if call.retelling is None else call.retelling.translate(target)
    is_messages = lane.api == "anthropic"
    reading: Reading | None = None
    if is_messages or redaction is not None:
        reading = Reading(
            target,
            int(time.time()),
            from_messages=is_messages,
            include_usage=True,
            redaction=redaction,
            is_json=_is_json(call.body),
        )
    if is_messages:
        endpoint, body = (
            "/messages",
            to_messages(asked, model=target, default_max_tokens=lane.max_tokens or USUAL_MAX_TOKENS),
        )
    else:
        endpoint, body = call.asked, {key: value for key, value in asked.items() if key != "lumbre"}
        body["model"] = target
        if lane.max_tokens and _limit_of(body) is None:
            body["max_completion_tokens"] = lane.max_tokens  # an answer without an end has a price without one
        if adds_usage:  # what it cost is to be known
            body["stream_options"] = {**(options or {}), "include_usage": True}
    return Speech(endpoint, body, OPENAI, translation, adds_progress=False, reading=reading, adds_usage=adds_usage)


def longest_answer(call: Call, lane: Lane) -> int:
    """The tokens that the answers to a call have at most, as it is put to a lane."""
    return (_limit_of(call.body) or lane.max_tokens or USUAL_MAX_TOKENS) * call.answers


def _limit_of(body: Mapping[str, Any]) -> int | None:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return limit if isinstance(limit, int) and limit > 0 else None


def _is_json(body: Mapping[str, Any]) -> bool:
    form = body.get("response_format")
    return isinstance(form, Mapping) and form.get("type") in ("json_object", "json_schema")


def own_words(call: Call, lane: Lane) -> Mapping[str, Any] | None:
    """The request in the words of the door's own API, where the engine is asked in them; None where it is not."""
    own = None if call.retelling is None else call.retelling.own
    # What is hidden is put back into a chat reply, so a call that is redacted goes by way of one.
    if own is None or not lane.speaks_messages or lane.redacts:
        return None
    if lane.api == "anthropic":
        return own
    if not _says_all(call, own):
        return None
    # Whoever says in the settings that an upstream is to be asked in this API gets it for every conversation.
    return own if lane.said.endpoints is not None or _llama_cpp_does_as_well(call, own) else None


def _says_all(call: Call, own: Mapping[str, Any]) -> bool:
    """Whether engines that speak the door's API are known to keep all that the request asks in it.

    llama.cpp's own Messages API takes no schema, and drops it in silence. A system's turn in the middle of the
    conversation it shows to the model's template as it is, which may refuse the whole request.
    """
    return "response_format" not in call.body and not has_system_turn(own["messages"])


def _llama_cpp_does_as_well(call: Call, own: Mapping[str, Any]) -> bool:
    """Whether llama.cpp does a conversation as well in its Messages API as in its chat API.

    Only there does it say which stop sequence ended an answer. But there it cannot be asked for progress, and notices
    once a second at most that its caller has gone while it works through a prompt. And it puts the texts of
    neighbouring blocks together without a space, so that the model reads something else.
    """
    if own.get("stop_sequences"):
        return True
    prompt = [call.body.get("messages"), call.body.get("tools")]
    return not _has_neighbours(own) and len(orjson.dumps(prompt)) <= _UNCANCELLABLE_BYTES


def _has_neighbours(own: Mapping[str, Any]) -> bool:
    turns = own["messages"]
    contents = (own.get("system"), *(turn["content"] for turn in turns))
    texts = (sum(each["type"] == "text" for each in content) for content in contents if isinstance(content, list))
    return max(texts, default=0) > 1 or any(one["role"] == other["role"] for one, other in pairwise(turns))


def _in_its_own_words(own: Mapping[str, Any], endpoint: str, lane: Lane, target: str) -> Speech:
    body = {key: value for key, value in own.items() if key != "lumbre"}
    body["model"] = target
    choice = body.get("tool_choice")
    if not lane.traits.takes_named_choice and isinstance(choice, Mapping) and choice.get("type") == "tool":
        body["tools"] = [tool for tool in body["tools"] if tool.get("name") == choice.get("name")]
        body["tool_choice"] = {**{key: value for key, value in choice.items() if key != "name"}, "type": "any"}
    if lane.traits.needs_stream:
        body["stream"] = True
    return Speech(endpoint, body, MESSAGES, None, adds_progress=False)


def _name_the_choice(body: dict[str, Any]) -> None:
    """Say "this tool" in the words of an engine that knows only "some tool": offer that one alone."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        body["tools"] = [tool for tool in body["tools"] if (tool.get("function") or {}).get("name") == name]
        body["tool_choice"] = "required"
