"""What kinds of engine there are and how each differs from the API it speaks. Pure tables; the tier's driver picks
one by what
an upstream says of itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lumbre.backends import llama_fields
from lumbre.wire.openai.fields import Refusal


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
        refusals: for each endpoint, the published fields it cannot honour.
    """

    name: str
    needs_stream: bool = False
    keeps_connections: bool = True
    reports_progress: bool = False
    takes_named_choice: bool = True
    sends_nulls: bool = False
    refusals: Mapping[str, Sequence[Refusal]] = field(default_factory=dict)


UNKNOWN = Traits("the engine")
LLAMA_CPP = Traits(
    "llama.cpp",
    needs_stream=True,
    keeps_connections=False,
    reports_progress=True,
    takes_named_choice=False,
    sends_nulls=True,
    refusals={"/chat/completions": llama_fields.CHAT, "/completions": llama_fields.COMPLETION},
)

_BY_OWNER = {"llamacpp": LLAMA_CPP}


def traits_of(owner: str | None, server: str | None) -> Traits:
    """Tell an engine's kind from `owned_by` in its model list, or its Server header."""
    if server is not None and server.startswith("llama.cpp"):
        return LLAMA_CPP
    return _BY_OWNER.get(owner or "", UNKNOWN)
