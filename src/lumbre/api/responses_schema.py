"""Which requests of OpenAI's Responses API are well formed, as far as a gateway must insist on it. Pure; the door asks.

What is not named here passes through: whether it can be honoured is `wire.responses`' to say. An item is measured by
its own kind only, so that a fault is told by that kind's fields, and an item of a kind that nobody runs here is refused
as such and not for its fields.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Discriminator, Field, Tag

from lumbre.api.openai_schema import Count, Lenient, Many, Model, Numbers, Penalty, Probability, Shape, Texts


class Part(Lenient):
    """A piece of a message, or of a tool's output."""

    type: str
    text: NotRequired[str | None]
    refusal: NotRequired[str | None]
    image_url: NotRequired[str | None]
    """A URL, or the image itself as a `data:` URL."""
    file_id: NotRequired[str | None]
    detail: NotRequired[str | None]


class MessageItem(Lenient):
    """A message; its `type` may be left out."""

    type: NotRequired[str | None]
    id: NotRequired[str | None]
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Many[Part]


class FunctionCallItem(Lenient):
    """A call that the model made."""

    type: str
    id: NotRequired[str | None]
    call_id: str
    name: Annotated[str, Field(min_length=1)]
    arguments: str


class FunctionCallOutputItem(Lenient):
    """What a call came to."""

    type: str
    id: NotRequired[str | None]
    call_id: str
    output: str | Many[Part]


class ReasoningItem(Lenient):
    """What the model thought in an earlier turn."""

    type: str
    id: NotRequired[str | None]


class ReferenceItem(Lenient):
    """An item that the gateway has kept, by its id; its `type` may be left out."""

    type: NotRequired[str | None]
    id: Annotated[str, Field(min_length=1)]


class OtherItem(Lenient):
    """An item of a kind that this gateway does not know."""

    type: Annotated[str, Field(min_length=1)]


def _kind_of_item(item: object) -> str:
    """Which kind an item means to be, in a word that is no field of an item: a fault is placed by those."""
    if not isinstance(item, dict) or item.get("type") is None:
        is_reference = isinstance(item, dict) and "id" in item and "role" not in item
        return "a reference" if is_reference else "a message"
    return _KINDS.get(item["type"], "another") if isinstance(item["type"], str) else "another"


_KINDS = {
    "message": "a message",
    "function_call": "a call",
    "function_call_output": "an output",
    "reasoning": "a thought",
    "item_reference": "a reference",
}

Item = Annotated[
    Annotated[MessageItem, Tag("a message")]
    | Annotated[FunctionCallItem, Tag("a call")]
    | Annotated[FunctionCallOutputItem, Tag("an output")]
    | Annotated[ReasoningItem, Tag("a thought")]
    | Annotated[ReferenceItem, Tag("a reference")]
    | Annotated[OtherItem, Tag("another")],
    Discriminator(_kind_of_item),
]


class ResponseTool(Lenient):
    """A tool that the model may call. Its fields stand beside its `type`, not inside a `function`."""

    type: str
    name: NotRequired[Annotated[str, Field(min_length=1)] | None]
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    strict: NotRequired[bool | None]


class AllowedTool(Lenient):
    """One of the tools that a choice is made among."""

    type: str
    name: NotRequired[str | None]


class ResponseToolChoice(Lenient):
    """A demand for one tool, or for a choice among some."""

    type: str
    name: NotRequired[str | None]
    mode: NotRequired[Literal["auto", "required"] | None]
    tools: NotRequired[Many[AllowedTool] | None]


class TextFormat(Lenient):
    """What form the answer takes."""

    type: str
    name: NotRequired[str | None]
    description: NotRequired[str | None]
    strict: NotRequired[bool | None]
    schema: NotRequired[dict[str, Any] | None]


class TextConfig(Lenient):
    """How the answer is written."""

    format: NotRequired[TextFormat | None]
    verbosity: NotRequired[str | None]


class Reasoning(Lenient):
    """How much the model thinks."""

    effort: NotRequired[str | None]
    summary: NotRequired[str | None]


class ResponseStreamOptions(Lenient):
    """Extras of a stream."""

    include_obfuscation: NotRequired[bool | None]


class ResponsesRequest(Lenient):
    """`POST /v1/responses`."""

    model: NotRequired[Model]
    input: NotRequired[str | Many[Item] | None]
    instructions: NotRequired[str | None]
    previous_response_id: NotRequired[str | None]
    store: NotRequired[bool | None]
    stream: NotRequired[bool | None]
    stream_options: NotRequired[ResponseStreamOptions | None]
    max_output_tokens: NotRequired[Count | None]
    temperature: NotRequired[Annotated[float, Field(ge=0, le=2)] | None]
    top_p: NotRequired[Probability | None]
    top_logprobs: NotRequired[Annotated[int, Field(ge=0, le=20)] | None]
    text: NotRequired[TextConfig | None]
    reasoning: NotRequired[Reasoning | None]
    tools: NotRequired[Many[ResponseTool] | None]
    tool_choice: NotRequired[Literal["none", "auto", "required"] | ResponseToolChoice | None]
    parallel_tool_calls: NotRequired[bool | None]
    include: NotRequired[Many[str] | None]
    metadata: NotRequired[Texts | None]
    truncation: NotRequired[str | None]
    background: NotRequired[bool | None]
    service_tier: NotRequired[str | None]
    user: NotRequired[str | None]
    safety_identifier: NotRequired[str | None]
    prompt_cache_key: NotRequired[str | None]
    lumbre: NotRequired[dict[str, Any] | None]
    # The chat API's own, which local engines know and their clients send here too.
    seed: NotRequired[int | None]
    stop: NotRequired[str | Many[str] | None]
    frequency_penalty: NotRequired[Penalty | None]
    presence_penalty: NotRequired[Penalty | None]
    logit_bias: NotRequired[Numbers | None]


RESPONSES_REQUEST = Shape(ResponsesRequest)
