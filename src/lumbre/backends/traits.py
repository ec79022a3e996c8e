"""What kinds of engine there are and how each differs from the API it speaks. Pure tables; the tier's driver picks
one by what
an upstream says of itself."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lumbre.backends import llama_fields
from lumbre.wire.openai.fields import Refusal


class Counting(enum.Enum):
    """How an engine is asked for the tokens of a prompt."""

    NONE = "none"
    LLAMA_CPP = "llama_cpp"
    VLLM = "vllm"


@dataclass(frozen=True)
class Traits:
    """One kind of engine.

    Attributes:
        name: what to call it in a message.
        needs_stream: a plain JSON call cannot be cancelled, so it is made as a stream and folded.
        keeps_connections: a connection can carry another request after a reply. llama.cpp's server says that it can,
            and then closes it after a stream.
        reports_progress: it can report on the prompt while it works through it, and notices then that nobody listens.
        takes_named_choice: `tool_choice` may name a tool.
        sends_nulls: between the answers to several prompts its stream has events of the data `null`, which say nothing
            and which clients do not expect.
        messages: it speaks Anthropic's API itself, at `/messages`.
        tells: where it says what its models can do: in its model list alone, at llama.cpp's `/props`, LM Studio's
            `/api/v0/models` or Ollama's `/api/show`.
        counting: how it counts the tokens of a prompt without answering it.
        refusals: for each endpoint, the published fields it cannot honour.
    """

    name: str
    needs_stream: bool = False
    keeps_connections: bool = True
    reports_progress: bool = False
    takes_named_choice: bool = True
    sends_nulls: bool = False
    messages: bool = False
    tells: Literal["models", "props", "api_v0", "show"] = "models"
    counting: Counting = Counting.NONE
    refusals: Mapping[str, Sequence[Refusal]] = field(default_factory=dict)


UNKNOWN = Traits("the engine")
LLAMA_CPP = Traits(
    "llama.cpp",
    needs_stream=True,
    keeps_connections=False,
    reports_progress=True,
    takes_named_choice=False,
    sends_nulls=True,
    messages=True,
    tells="props",
    counting=Counting.LLAMA_CPP,
    refusals={
        "/chat/completions": llama_fields.CHAT,
        "/completions": llama_fields.COMPLETION,
        "/embeddings": llama_fields.EMBEDDINGS,
    },
)
VLLM = Traits("vLLM", counting=Counting.VLLM)
LM_STUDIO = Traits("LM Studio", tells="api_v0")
OLLAMA = Traits("Ollama", tells="show")

_BY_OWNER = {"llamacpp": LLAMA_CPP, "vllm": VLLM, "organization_owner": LM_STUDIO, "library": OLLAMA}


def traits_of(owners: Iterable[str], server: str | None) -> Traits:
    """Tell an engine's kind from the `owned_by` of the models in its list, or its Server header.

    An Ollama that holds only models of other publishers is not known by their names; it is then like any other.
    """
    if server is not None and server.startswith("llama.cpp"):
        return LLAMA_CPP
    return next((_BY_OWNER[owner] for owner in owners if owner in _BY_OWNER), UNKNOWN)
