"""Which requests of Anthropic's API are well formed, as far as a gateway must insist on it. Pure; the door asks.

What is not named here passes through. A content block, an image's source or a tool of a kind that is not named has its
`type` checked and nothing more: whether it can be honoured is `wire.anthropic.fields`' to say.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Discriminator, Field, Tag

from lumbre.api.openai_schema import Lenient, Many, Model, Probability, Shape

Kind = Callable[[object], str]


def _kind(noun: str, *known: str) -> Kind:
    """Tell by its `type` which of several shapes an object means to have, so that no more than one is tried."""

    def kind(given: object) -> str:
        said = given.get("type") if isinstance(given, dict) else None
        return f"{said} {noun}" if isinstance(said, str) and said in known else f"other {noun}"

    return kind


def _tool_kind(given: object) -> str:
    said = given.get("type") if isinstance(given, dict) else None
    return "custom tool" if said is None or said == "custom" else "other tool"


class Other(Lenient):
    """Something of a kind that is not named here."""

    type: str


class Text(Lenient):
    """Text, said by anybody."""

    type: Literal["text"]
    text: str


class Base64Source(Lenient):
    """An image in the request itself."""

    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class UrlSource(Lenient):
    """An image that lies elsewhere."""

    type: Literal["url"]
    url: str


Source = Annotated[
    Annotated[Base64Source, Tag("base64 source")]
    | Annotated[UrlSource, Tag("url source")]
    | Annotated[Other, Tag("other source")],
    Discriminator(_kind("source", "base64", "url")),
]


class Image(Lenient):
    """A picture that is shown to the model."""

    type: Literal["image"]
    source: Source


class ToolUse(Lenient):
    """A call that the assistant made."""

    type: Literal["tool_use"]
    id: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    input: dict[str, Any]


Piece = Annotated[
    Annotated[Text, Tag("text block")] | Annotated[Image, Tag("image block")] | Annotated[Other, Tag("other block")],
    Discriminator(_kind("block", "text", "image")),
]


class ToolResult(Lenient):
    """What a call came to."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: NotRequired[str | Many[Piece] | None]
    is_error: NotRequired[bool | None]


class Thinking(Lenient):
    """What the assistant thought before it spoke."""

    type: Literal["thinking"]
    thinking: str


Block = Annotated[
    Annotated[Text, Tag("text block")]
    | Annotated[Image, Tag("image block")]
    | Annotated[ToolUse, Tag("tool_use block")]
    | Annotated[ToolResult, Tag("tool_result block")]
    | Annotated[Thinking, Tag("thinking block")]
    | Annotated[Other, Tag("other block")],
    Discriminator(_kind("block", "text", "image", "tool_use", "tool_result", "thinking")),
]


class Turn(Lenient):
    """One turn of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | Many[Block]


class CustomTool(Lenient):
    """A tool that the caller runs."""

    type: NotRequired[Literal["custom"] | None]
    name: Annotated[str, Field(min_length=1)]
    description: NotRequired[str | None]
    input_schema: dict[str, Any]
    strict: NotRequired[bool | None]
    allowed_callers: NotRequired[Many[str] | None]


Tool = Annotated[
    Annotated[CustomTool, Tag("custom tool")] | Annotated[Other, Tag("other tool")], Discriminator(_tool_kind)
]


class ToolChoice(Lenient):
    """Whether tools may or must be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: NotRequired[str | None]
    disable_parallel_tool_use: NotRequired[bool | None]


class OutputFormat(Lenient):
    """A schema that the answer must keep."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(Lenient):
    """What form the answer takes."""

    effort: NotRequired[str | None]
    format: NotRequired[OutputFormat | None]


class ContextEdits(Lenient):
    """What the service should cut out of the conversation."""

    edits: NotRequired[Many[Other] | None]


class Metadata(Lenient):
    """About the request."""

    user_id: NotRequired[str | None]


class Conversation(Lenient):
    """What both endpoints take. Clients that count the tokens of a request send all of it."""

    model: NotRequired[Model]
    messages: Annotated[Many[Turn], Field(min_length=1)]
    system: NotRequired[str | Many[Text] | None]
    stream: NotRequired[bool | None]
    stop_sequences: NotRequired[Many[str] | None]
    temperature: NotRequired[Probability | None]
    top_p: NotRequired[Probability | None]
    top_k: NotRequired[Annotated[int, Field(ge=0)] | None]
    tools: NotRequired[Many[Tool] | None]
    tool_choice: NotRequired[ToolChoice | None]
    thinking: NotRequired[Other | None]
    output_config: NotRequired[OutputConfig | None]
    output_format: NotRequired[OutputFormat | None]
    context_management: NotRequired[ContextEdits | None]
    metadata: NotRequired[Metadata | None]
    lumbre: NotRequired[dict[str, Any] | None]


class MessagesRequest(Conversation):
    """`POST /v1/messages`."""

    max_tokens: Annotated[int, Field(ge=0)]


class CountTokensRequest(Conversation):
    """`POST /v1/messages/count_tokens`."""

    max_tokens: NotRequired[Annotated[int, Field(ge=0)] | None]


MESSAGES_REQUEST = Shape(MessagesRequest)
COUNT_TOKENS_REQUEST = Shape(CountTokensRequest)
