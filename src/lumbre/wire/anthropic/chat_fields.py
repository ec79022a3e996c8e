"""Which parts of a chat request Anthropic's API cannot honour, and which are mere hints. Pure tables; `from_chat` asks.

The other fields that OpenAI publishes are translated (`from_chat.TRANSLATED`). Fields that it does not publish are left
out: an engine of another kind may know them, this API turns a request down for them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lumbre.wire.anthropic.chat_turns import input_object, matching_of, says_nothing, source_of
from lumbre.wire.openai.fields import Body, Refusal, given, refuse_unsupported, when, when_part, when_tool

HINTS: Mapping[str, str] = {
    "lumbre": "for the gateway itself",
    "metadata": "labels for what OpenAI stores",
    "prediction": "makes an answer come sooner, not another one",
    "prompt_cache_key": "about OpenAI's own prompt cache",
    "prompt_cache_options": "about OpenAI's own prompt cache",
    "prompt_cache_retention": "about OpenAI's own prompt cache",
    "reasoning_effort": "the model decides how long it thinks; not every model can be told",
    "messages.name": "there are no names of speakers",
    "messages.content.image_url.detail": "every picture is looked at in full",
    "messages.reasoning_content": "the API takes no thoughts back but its own, signed",
    "response_format.json_schema.name": "a schema has no name; nor a description beside it",
    "response_format.json_schema.strict": "every schema is kept",
}
"""What a request may say and the API need not be told, with the reason."""

Offends = Callable[[Mapping[str, Any]], bool]


def sampling_of(body: Body) -> dict[str, float]:
    """What a request changes about how tokens are drawn: neither field where it says what would hold anyway, for many
    models turn even that down. A temperature above 1, this API's highest, is 1.
    """
    temperature, top_p = body.get("temperature"), body.get("top_p")
    told = {"temperature": min(temperature, 1.0) if temperature is not None else 1.0}
    told["top_p"] = top_p if top_p is not None else 1.0
    return {name: value for name, value in told.items() if value != 1}


def stops_of(body: Body) -> list[str]:
    """The stop sequences of a request; an empty one is none."""
    stop = body.get("stop") or []
    return [each for each in ([stop] if isinstance(stop, str) else stop) if each]


def _when_message(offends: Offends, suffix: str, why: str) -> Refusal:
    def find(body: Body) -> Iterator[str]:
        return (f"messages[{m}]{suffix}" for m, message in enumerate(body["messages"]) if offends(message))

    return Refusal("messages", find, why)


def _when_call(offends: Offends, suffix: str, why: str) -> Refusal:
    def find(body: Body) -> Iterator[str]:
        for m, message in enumerate(body["messages"]):
            for c, call in enumerate(message.get("tool_calls") or ()):
                if offends(call):
                    yield f"messages[{m}].tool_calls[{c}]{suffix}"

    return Refusal("messages", find, why)


def _when_picture(offends: Callable[[str, Mapping[str, Any]], bool], suffix: str, why: str) -> Refusal:
    """A rule about a picture, and the role of the message it is in."""

    def find(body: Body) -> Iterator[str]:
        for m, message in enumerate(body["messages"]):
            content = message.get("content")
            for p, part in enumerate(content if isinstance(content, list) else ()):
                if part["type"] == "image_url" and offends(message["role"], part):
                    yield f"messages[{m}].content[{p}]{suffix}"

    return Refusal("messages", find, why)


def _blank_stops(body: Body) -> Iterator[str]:
    return ("stop" for each in stops_of(body) if not each.strip())


def _twice_sampled(body: Body) -> Iterator[str]:
    return iter(("top_p",) if len(sampling_of(body)) > 1 else ())


def _silence(body: Body) -> Iterator[str]:
    return iter(("messages",) if says_nothing(body["messages"]) else ())


def _arguments_are_none(call: Mapping[str, Any]) -> bool:
    return input_object(call["function"]["arguments"]) is None


_TEXT_ONLY = "it makes text only"

REFUSALS: Sequence[Refusal] = (
    when("n", lambda v: v not in (None, 1), "it gives one answer to a request"),
    when("logprobs", given, "it tells no probabilities of tokens"),
    when("top_logprobs", bool, "it tells no probabilities of tokens"),
    when("logit_bias", given, "its tokens cannot be weighted"),
    when("seed", lambda v: v is not None, "it draws its tokens anew each time"),
    when("presence_penalty", bool, "it has no such control"),
    when("frequency_penalty", bool, "it has no such control"),
    when("audio", given, _TEXT_ONLY),
    when("modalities", lambda v: given(v) and list(v) != ["text"], _TEXT_ONLY),
    when(
        "response_format.type",
        lambda v: v not in (None, "text", "json_schema"),
        "it makes JSON to a schema only; use `json_schema`",
    ),
    when("web_search_options", lambda v: v is not None, "its search is another tool; search in your program"),
    when("moderation", given, "no moderation model runs there"),
    when("functions", given, "superseded by `tools`"),
    when("function_call", given, "superseded by `tool_choice`"),
    when("store", given, "it stores nothing"),
    when("service_tier", lambda v: v not in (None, "auto", "default"), "it has other tiers of service"),
    when("verbosity", lambda v: v in ("low", "high"), "it has no such control; ask for it in the prompt"),
    when("stream_options.include_obfuscation", given, "it does not pad its stream"),
    Refusal("stop", _blank_stops, "a stop sequence must have more than white space"),
    Refusal("top_p", _twice_sampled, "it takes a temperature or a top_p, not both"),
    when_part(lambda kind: kind not in ("text", "refusal", "image_url"), "it is given text and images only"),
    when_tool(lambda kind: kind != "function", "it takes tools of the type `function`"),
    _when_message(lambda message: message["role"] == "function", ".role", "superseded by the role `tool`"),
    _when_message(lambda message: given(message.get("function_call")), ".function_call", "superseded by `tool_calls`"),
    _when_message(lambda message: given(message.get("audio")), ".audio", "it hears nothing; send the words"),
    _when_picture(lambda role, _: role not in ("user", "tool"), ".type", "only a user and a tool show images"),
    _when_picture(
        lambda _, part: source_of(part) is None,
        ".image_url.url",
        "it takes JPEG, PNG, GIF and WebP, as an http(s) address or as a data: URL in base64",
    ),
    _when_call(lambda call: call.get("type") not in (None, "function"), ".type", "it takes calls of functions"),
    _when_call(lambda call: call.get("function") is None, ".function", "it must be told what was called"),
    _when_call(_arguments_are_none, ".function.arguments", "it takes arguments that are a JSON object"),
    Refusal(
        "messages",
        lambda body: iter(matching_of(body["messages"]).loose),
        "it takes a call and its result together, the result in the turn after the call",
    ),
    Refusal("messages", _silence, "it must be told something"),
)
"""What is turned down, with the reason. The later rules about calls count on the earlier ones."""


def check_supported(body: Body) -> None:
    """Turn down what cannot be honoured in a chat request whose types have been checked.

    Raises:
        CallerError: 400 `unsupported_field`; names the field and says why.
    """
    refuse_unsupported(body, REFUSALS, "Anthropic's API")
