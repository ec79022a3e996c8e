"""Which requests of the OpenAI API are well formed, as far as a gateway must insist on it. Pure; the door asks.

What is not named here passes through. The first wrong entry of a list or an object ends the search in it, so that a
body made of faults costs no more than the body itself.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

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


class Lenient(BaseModel):
    """Checks what it knows, strictly, and lets the rest through."""

    model_config = ConfigDict(extra="allow", strict=True)


class ContentPart(Lenient):
    """A piece of a message."""

    type: str
    text: str | None = None


class FunctionCall(Lenient):
    """A call that the assistant made."""

    name: str
    arguments: str


class ToolCall(Lenient):
    """A tool call in the history."""

    id: str | None = None
    type: str | None = None
    function: FunctionCall | None = None


class Message(Lenient):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Many[ContentPart] | None = None
    name: str | None = None
    tool_calls: Many[ToolCall] | None = None
    tool_call_id: str | None = None


class Function(Lenient):
    """What a tool is called and takes."""

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Lenient):
    """A tool that the model may call."""

    type: str
    function: Function | None = None


class NamedFunction(Lenient):
    """The tool that must be called."""

    name: str


class ToolChoice(Lenient):
    """A demand for one tool."""

    type: str
    function: NamedFunction | None = None


class JsonSchema(Lenient):
    """A schema that the answer must keep."""

    name: str
    strict: bool | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class ResponseFormat(Lenient):
    """What form the answer takes."""

    type: str
    json_schema: JsonSchema | None = None


class StreamOptions(Lenient):
    """Extras of a stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Request(Lenient):
    """What both endpoints share."""

    model: str = "auto"
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: str | Many[str] | None = None
    seed: int | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: Numbers | None = None
    user: str | None = None
    lumbre: dict[str, Any] | None = None


class ChatRequest(Request):
    """`POST /v1/chat/completions`."""

    messages: Annotated[Many[Message], Field(min_length=1)]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: Many[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    metadata: Texts | None = None
    modalities: Many[str] | None = None
    reasoning_effort: str | None = None
    store: bool | None = None


class CompletionRequest(Request):
    """`POST /v1/completions`."""

    prompt: Prompt
    suffix: str | None = None
    echo: bool | None = None
    best_of: Count | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None


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
    model: str = "auto"
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None
    user: str | None = None
    lumbre: dict[str, Any] | None = None


def check(body: Mapping[str, Any], shape: type[Lenient]) -> None:
    """Check a request's types.

    Raises:
        CallerError: 400 `invalid_type` (`missing_field`) that names the field.
    """
    try:
        shape.__pydantic_validator__.validate_python(body)  # what `model_validate` does, without its options
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
