"""Which requests of OpenAI's Responses API are well formed, as far as a gateway must insist on it. Pure; the door asks.

What is not named here passes through: whether it can be honoured is `wire.responses`' to say. An item is measured by
its own kind only, so that a fault is told by that kind's fields, and an item of a kind that nobody runs here is refused
as such and not for its fields.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from lumbre.api.openai_schema import Count, Lenient, Many, Numbers, Penalty, Probability, Texts


class Part(Lenient):
    """A piece of a message, or of a tool's output."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    """A URL, or the image itself as a `data:` URL."""
    file_id: str | None = None
    detail: str | None = None


class MessageItem(Lenient):
    """A message; its `type` may be left out."""

    type: str | None = None
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Many[Part]


class FunctionCallItem(Lenient):
    """A call that the model made."""

    type: str
    id: str | None = None
    call_id: str
    name: Annotated[str, Field(min_length=1)]
    arguments: str


class FunctionCallOutputItem(Lenient):
    """What a call came to."""

    type: str
    id: str | None = None
    call_id: str
    output: str | Many[Part]


class ReasoningItem(Lenient):
    """What the model thought in an earlier turn."""

    type: str
    id: str | None = None


class ReferenceItem(Lenient):
    """An item that the gateway has kept, by its id; its `type` may be left out."""

    type: str | None = None
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
    name: Annotated[str, Field(min_length=1)] | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class AllowedTool(Lenient):
    """One of the tools that a choice is made among."""

    type: str
    name: str | None = None


class ResponseToolChoice(Lenient):
    """A demand for one tool, or for a choice among some."""

    type: str
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: Many[AllowedTool] | None = None


class TextFormat(Lenient):
    """What form the answer takes."""

    type: str
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class TextConfig(Lenient):
    """How the answer is written."""

    format: TextFormat | None = None
    verbosity: str | None = None


class Reasoning(Lenient):
    """How much the model thinks."""

    effort: str | None = None
    summary: str | None = None


class ResponseStreamOptions(Lenient):
    """Extras of a stream."""

    include_obfuscation: bool | None = None


class ResponsesRequest(Lenient):
    """`POST /v1/responses`."""

    model: str = "auto"
    input: str | Many[Item] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    max_output_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    tools: Many[ResponseTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ResponseToolChoice | None = None
    parallel_tool_calls: bool | None = None
    include: Many[str] | None = None
    metadata: Texts | None = None
    truncation: str | None = None
    background: bool | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    lumbre: dict[str, Any] | None = None
    # The chat API's own, which local engines know and their clients send here too.
    seed: int | None = None
    stop: str | Many[str] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: Numbers | None = None
