"""What an upstream can do, what a request needs, and the refusal where the two do not meet. Pure; the dispatcher asks
before any work is done, the lanes carry what their upstreams said.

Nothing is guessed: what an upstream does not say of itself is unknown, and what is unknown refuses nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from lumbre.core.errors import CallerError

Body = Mapping[str, Any]

_TEMPLATE_BYTES = 2048
_MESSAGE_BYTES = 32
"""What a chat template may add to the caller's words, in all and for each message: marks, names, a system prompt of
its own. Generous, since it only decides whether counting is worth asking."""


@dataclass(frozen=True)
class Capability:
    """What an upstream can do with one model; None where nobody knows.

    Attributes:
        context_tokens: prompt and answer together, or for embeddings one text; at least 1.
        tools: it takes `tools`.
        images: it takes images among the messages.
        json_schema: it holds an answer to a schema.
        endpoints: the paths below `/v1` that it answers for this model, such as `chat/completions`.
    """

    context_tokens: int | None = None
    tools: bool | None = None
    images: bool | None = None
    json_schema: bool | None = None
    endpoints: frozenset[str] | None = None

    def over(self, other: "Capability") -> "Capability":
        """This one, and the other's word where this one has none."""
        if self == UNKNOWN:
            return other
        own = ((each.name, getattr(self, each.name)) for each in fields(self))
        return Capability(**{name: getattr(other, name) if value is None else value for name, value in own})


UNKNOWN = Capability()
"""Refuses nothing. Whoever makes one that is equal hands this one on, so that `is` finds it at no cost."""


@dataclass(frozen=True)
class Need:
    """What a request asks of an upstream.

    Attributes:
        endpoint: the path below `/v1` that the upstream is asked at, such as `chat/completions`.
        tools: tools that the model may call.
        image: where the first image stands, such as `messages[0].content[1].type`; None if there is none.
        json_schema: the answer has to keep a schema.
        prompt_bytes: no prompt, and no text to embed, has more bytes than this, a template's additions included.
            Images are not counted.
        prompt_tokens: the tokens of the longest prompt or text, when they have been counted or were sent as such.
        longest: the field of the longest prompt or text, such as `messages` or `input[2]`.
    """

    endpoint: str
    tools: bool = False
    image: str | None = None
    json_schema: bool = False
    prompt_bytes: int = 0
    prompt_tokens: int | None = None
    longest: str = "messages"


def need_of(body: Body, endpoint: str) -> Need:
    """Read what a request needs.

    Args:
        body: a request for chat completions, completions or embeddings whose types have been checked. A request in
            another API is read in the form in which it would go to a chat endpoint.
        endpoint: where it goes, with or without a leading slash.
    """
    path = endpoint.lstrip("/")
    if (messages := body.get("messages")) is None:
        field = "input" if path == "embeddings" else "prompt"
        prompt_bytes, tokens, longest = _longest(body.get(field), field)
        return Need(path, prompt_bytes=_MESSAGE_BYTES + prompt_bytes, prompt_tokens=tokens, longest=longest)
    tools = body.get("tools") if body.get("tool_choice") != "none" else None
    response_format = body.get("response_format") or {}
    return Need(
        path,
        tools=bool(tools),
        image=_first_image(messages),
        json_schema=response_format.get("type") == "json_schema",
        prompt_bytes=_TEMPLATE_BYTES + sum(map(_message_bytes, messages)) + (_json_bytes(tools) if tools else 0),
    )


def lack(need: Need, capability: Capability, who: str) -> CallerError | None:
    """Why an upstream cannot take a request; None if it can, or if nobody knows.

    `max_tokens` is no part of this: a limit beyond what fits is common, and every engine ends such an answer with the
    finish `length` when the context is full, which is the truth about it.

    Args:
        who: what to call the upstream in the message.

    Returns:
        A 400: `unsupported_endpoint`; `unsupported_field` for tools, images or a schema; `context_length_exceeded`.
    """
    if capability == UNKNOWN:
        return None
    if capability.endpoints is not None and need.endpoint not in capability.endpoints:
        there = ", ".join(f"/v1/{path}" for path in sorted(capability.endpoints)) or "nothing"
        message = f"{who} does not answer /v1/{need.endpoint} with this model; it answers {there}"
        return CallerError(f"{message}. Ask for another model", code="unsupported_endpoint", param="model")
    if need.tools and capability.tools is False:
        way_out = 'leave `tools` out, or say tool_choice "none", or ask for another model'
        return _unsupported("tools", f"{who}'s model takes no tools; {way_out}", "tools")
    if need.image is not None and capability.images is False:
        return _unsupported(need.image, f"{who}'s model takes no images; ask for another model", "images")
    if need.json_schema and capability.json_schema is False:
        way_out = 'say "json_object" and put the schema into the prompt, or ask for another model'
        return _unsupported("response_format", f"{who} does not hold answers to a schema; {way_out}", "json_schema")
    return _too_long(need, capability.context_tokens, who)


def may_exceed(need: Need, capability: Capability) -> bool:
    """Whether a prompt could be too long at all, so that counting its tokens is worth asking.

    A token is at least one byte, so what has fewer bytes than the context has tokens fits.
    """
    limit = capability.context_tokens
    return limit is not None and need.prompt_tokens is None and need.prompt_bytes >= limit


def _too_long(need: Need, limit: int | None, who: str) -> CallerError | None:
    if limit is None or need.prompt_tokens is None:
        return None
    # An answer needs room for a token at least; a text to embed has none.
    most = limit if need.endpoint == "embeddings" else limit - 1
    if need.prompt_tokens <= most:
        return None
    message = f"{need.longest} has {need.prompt_tokens} tokens, and the context of {who}'s model is {limit}; shorten it"
    return CallerError(message, code="context_length_exceeded", param=need.longest)


def _unsupported(param: str, why: str, setting: str) -> CallerError:
    message = f"{param}: {why}. To send it all the same: {setting} = true under [tier_a] or its upstream"
    return CallerError(message, code="unsupported_field", param=param)


def _first_image(messages: Sequence[Body]) -> str | None:
    for m, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, list):
            for p, part in enumerate(content):
                if part.get("type") == "image_url":
                    return f"messages[{m}].content[{p}].type"
    return None


def _message_bytes(message: Body) -> int:
    content = message.get("content")
    size = _MESSAGE_BYTES + _size(message.get("name"))
    if isinstance(content, list):
        size += sum(_size(part.get("text")) for part in content)
    else:
        size += _size(content)
    return size + _json_bytes(message.get("tool_calls") or ())


def _longest(prompt: object, field: str) -> tuple[int, int | None, str]:
    """Bytes, tokens (of one that came as tokens) and place of the longest of some prompts or texts."""
    if not isinstance(prompt, list) or not prompt:
        return _size(prompt), None, field
    if not isinstance(prompt[0], str | list):
        return _size(prompt), len(prompt), field
    sizes = [_size(each) for each in prompt]
    size = max(sizes)
    place = sizes.index(size)
    tokens = size if isinstance(prompt[place], list) else None
    return size, tokens, f"{field}[{place}]"


def _size(text: object) -> int:
    """Bytes of a text; of a list of tokens, its length. What is neither has none."""
    if isinstance(text, str):
        return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return len(text) if isinstance(text, list) else 0


def _json_bytes(value: object) -> int:
    """What a value takes at most when a template writes it as JSON, roughly: its words, and their marks."""
    size = 0
    left = [value]
    while left:  # no recursion: a caller may nest as deep as the parser lets it
        each = left.pop()
        size += 8 + 2 * _size(each) if isinstance(each, str) else 24
        if isinstance(each, Mapping):
            left += each.keys()
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each
    return size
