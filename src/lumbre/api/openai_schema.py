"""Which requests of the OpenAI API are well formed, as far as a gateway must insist on it. Pure; the door asks.

What is not named here passes through. The first wrong entry of a list or an object ends the search in it, so that a
body made of faults costs no more than the body itself.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from lumbre.core.errors import CallerError

T = TypeVar("T")
Many = Annotated[list[T], Field(fail_fast=True)]
Count = Annotated[int, Field(ge=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(given: dict[str, Any]) -> dict[str, Any]:
    return _each(given, all(map(_is_number, given.values())), "number")


def _texts(given: dict[str, Any]) -> dict[str, Any]:
    return _each(given, all(isinstance(value, str) for value in given.values()), "string")


def _each(given: dict[str, Any], is_right: bool, kind: str) -> dict[str, Any]:
    # pydantic's own check of a dict tells of every entry that is wrong, however many there are.
    if not is_right:
        raise PydanticCustomError("entry_type", "Each value should be a valid {kind}", {"kind": kind})
    return given


def _object_of(kind: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "object", "additionalProperties": {"type": kind}})


Numbers = Annotated[dict[str, Any], AfterValidator(_numbers), _object_of("number")]
Texts = Annotated[dict[str, Any], AfterValidator(_texts), _object_of("string")]


def _prompt_form(prompt: object) -> str | None:
    """Which of its four forms a prompt means to have: its first entry tells, so that no more than one is tried."""
    if isinstance(prompt, str):
        return "text"
    if not isinstance(prompt, list):
        return None
    first = prompt[0] if prompt else ""
    return "tokens" if isinstance(first, int) else "token lists" if isinstance(first, list) else "texts"


Prompt = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[Many[str], Tag("texts")]
    | Annotated[Many[int], Tag("tokens")]
    | Annotated[Many[Many[int]], Tag("token lists")],
    Discriminator(
        _prompt_form,
        custom_error_type="prompt_form",
        custom_error_message="Input should be a string, or a list of strings, of tokens or of lists of tokens",
    ),
]


class Lenient(TypedDict):
    """Checks what it knows, strictly, and lets the rest through."""

    # No model: an object of each part would be made, only to be thrown away.
    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]


class Shape:
    """One endpoint's request as a whole."""

    def __init__(self, kind: type) -> None:
        adapter: TypeAdapter[object] = TypeAdapter(kind)
        self.kind = kind
        self.json_schema = adapter.json_schema
        self.validate = adapter.validator.validate_python  # not the adapter's own, which first looks at its options


Model = Annotated[str, Field(json_schema_extra={"default": "auto"})]


class ContentPart(Lenient):
    """A piece of a message."""

    type: str
    text: NotRequired[str | None]


class FunctionCall(Lenient):
    """A call that the assistant made."""

    name: str
    arguments: str


class ToolCall(Lenient):
    """A tool call in the history."""

    id: NotRequired[str | None]
    type: NotRequired[str | None]
    function: NotRequired[FunctionCall | None]


class Message(Lenient):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: NotRequired[str | Many[ContentPart] | None]
    name: NotRequired[str | None]
    tool_calls: NotRequired[Many[ToolCall] | None]
    tool_call_id: NotRequired[str | None]


class Function(Lenient):
    """What a tool is called and takes."""

    name: Annotated[str, Field(min_length=1)]
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    strict: NotRequired[bool | None]


class Tool(Lenient):
    """A tool that the model may call."""

    type: str
    function: NotRequired[Function | None]


class NamedFunction(Lenient):
    """The tool that must be called."""

    name: str


class ToolChoice(Lenient):
    """A demand for one tool."""

    type: str
    function: NotRequired[NamedFunction | None]


class JsonSchema(Lenient):
    """A schema that the answer must keep."""

    name: str
    strict: NotRequired[bool | None]
    schema: NotRequired[dict[str, Any] | None]


class ResponseFormat(Lenient):
    """What form the answer takes."""

    type: str
    json_schema: NotRequired[JsonSchema | None]


class StreamOptions(Lenient):
    """Extras of a stream."""

    include_usage: NotRequired[bool | None]
    include_obfuscation: NotRequired[bool | None]


class Request(Lenient):
    """What both endpoints share."""

    model: NotRequired[Model]
    stream: NotRequired[bool | None]
    stream_options: NotRequired[StreamOptions | None]
    max_tokens: NotRequired[Count | None]
    temperature: NotRequired[Annotated[float, Field(ge=0, le=2)] | None]
    top_p: NotRequired[Probability | None]
    n: NotRequired[Annotated[int, Field(ge=1, le=128)] | None]
    stop: NotRequired[str | Many[str] | None]
    seed: NotRequired[int | None]
    frequency_penalty: NotRequired[Penalty | None]
    presence_penalty: NotRequired[Penalty | None]
    logit_bias: NotRequired[Numbers | None]
    user: NotRequired[str | None]
    lumbre: NotRequired[dict[str, Any] | None]


class ChatRequest(Request):
    """`POST /v1/chat/completions`."""

    messages: Annotated[Many[Message], Field(min_length=1)]
    max_completion_tokens: NotRequired[Count | None]
    logprobs: NotRequired[bool | None]
    top_logprobs: NotRequired[Annotated[int, Field(ge=0, le=20)] | None]
    response_format: NotRequired[ResponseFormat | None]
    tools: NotRequired[Many[Tool] | None]
    tool_choice: NotRequired[Literal["none", "auto", "required"] | ToolChoice | None]
    parallel_tool_calls: NotRequired[bool | None]
    metadata: NotRequired[Texts | None]
    modalities: NotRequired[Many[str] | None]
    reasoning_effort: NotRequired[str | None]
    store: NotRequired[bool | None]


class CompletionRequest(Request):
    """`POST /v1/completions`."""

    prompt: Prompt
    suffix: NotRequired[str | None]
    echo: NotRequired[bool | None]
    best_of: NotRequired[Count | None]
    logprobs: NotRequired[Annotated[int, Field(ge=0, le=5)] | None]


Text = Annotated[str, Field(min_length=1)]
Token = Annotated[int, Field(ge=0)]
Tokens = Annotated[list[Token], Field(fail_fast=True, min_length=1)]
MOST_INPUTS = 2048

EmbeddingInput = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=MOST_INPUTS), Tag("texts")]
    | Annotated[Tokens, Tag("tokens")]
    | Annotated[list[Tokens], Field(fail_fast=True, min_length=1, max_length=MOST_INPUTS), Tag("token lists")],
    Discriminator(
        _prompt_form,
        custom_error_type="prompt_form",
        custom_error_message="Input should be a string, or a list of strings, of tokens or of lists of tokens",
    ),
]


class EmbeddingRequest(Lenient):
    """`POST /v1/embeddings`."""

    input: EmbeddingInput
    model: NotRequired[Model]
    encoding_format: NotRequired[Literal["float", "base64"] | None]
    dimensions: NotRequired[Count | None]
    user: NotRequired[str | None]
    lumbre: NotRequired[dict[str, Any] | None]


CHAT_REQUEST = Shape(ChatRequest)
COMPLETION_REQUEST = Shape(CompletionRequest)
EMBEDDING_REQUEST = Shape(EmbeddingRequest)


def check(body: Mapping[str, Any], shape: Shape) -> None:
    """Check a request's types.

    Raises:
        CallerError: 400 `invalid_type` (`missing_field`) that names the field.
    """
    try:
        shape.validate(body)
    except ValidationError as error:
        raise _complaint(body, error) from None


def _complaint(body: Mapping[str, Any], error: ValidationError) -> CallerError:
    faults = [
        (_field(body, fault["loc"], fault["type"]), fault)
        for fault in error.errors(include_url=False, include_input=False)
    ]
    deepest = max(len(path) for path, _ in faults)
    path, _ = next(each for each in faults if len(each[0]) == deepest)
    same = [fault for other, fault in faults if other == path]
    missing = same[0]["type"] == "missing"
    reasons = " or ".join(dict.fromkeys(fault["msg"][:1].lower() + fault["msg"][1:] for fault in same))
    name = _written(path)
    return CallerError(f"{name}: {reasons}", param=name, code="missing_field" if missing else "invalid_type")


def _field(body: object, loc: Sequence[int | str], kind: str) -> tuple[int | str, ...]:
    """The part of pydantic's location that is a path into the body; the rest names branches of a union."""
    path: list[int | str] = []
    value: Any = body
    for step in loc:
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if in_list or (isinstance(value, dict) and step in value):
            value = value[step]
        elif not (kind == "missing" and step == loc[-1]):
            continue
        path.append(step)
    return tuple(path)


def _written(path: Sequence[int | str]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "(the body)"
