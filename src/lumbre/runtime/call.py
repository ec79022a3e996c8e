"""A request as the doors hand it to the dispatcher: well formed, and in the words of OpenAI's API. Only data."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lumbre.core.errors import CallerError, LumbreError
from lumbre.gateway.hints import Hints
from lumbre.wire.translation import Translation

EMBEDDINGS = "/embeddings"


@dataclass(frozen=True, slots=True)
class Retelling:
    """What a door of another API than OpenAI's older one adds to a call.

    Attributes:
        translate: makes what tells a reply of OpenAI's in the door's API, given the model's name.
        openai_errors: an error in this API looks as in OpenAI's older one, so an engine's own can be passed on.
        own: the request in the words of the door's own API, for an engine that speaks it; None where none does.
        keep: called when the translation is finished, before the client is told so.
        blame: tells an error about the call's body in the words of the door's own API; None where they are the same.
        error_event: an error inside a stream, where it has to know the stream; None: the door's own.
    """

    translate: Callable[[str], Translation]
    openai_errors: bool
    own: Mapping[str, Any] | None = None
    keep: Callable[[], Awaitable[None]] | None = None
    blame: Callable[[CallerError], CallerError] | None = None
    error_event: Callable[[LumbreError, str | None], bytes] | None = None


@dataclass(slots=True)  # not frozen: of every request one is made, and freezing it costs as much again
class Call:
    """A request that the door has found well formed.

    Attributes:
        decision: its id.
        endpoint: the door's, below `/v1`, such as `/chat/completions`.
        asked: the endpoint of OpenAI's API that `body` is a request to.
        body: the request as an engine of OpenAI's API takes it.
        headers: those that may go upstream.
        retelling: for a door of another API; None: the client speaks the engine's.
        is_large: the checks that grow with it are done beside the loop; the door says so.
        key: `sha256:…` of the key that it came with, where somebody wants to know; else empty.
    """

    decision: str
    endpoint: str
    asked: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    hints: Hints
    retelling: Retelling | None = None
    is_large: bool = False
    key: str = ""

    @property
    def stream(self) -> bool:
        """Whether the client wants events."""
        return self.body.get("stream") is True

    @property
    def answers(self) -> int:
        """How many answers are asked for, each of which fills a slot: the alternatives, times the prompts."""
        prompt = self.body.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else 1
        return prompts * (self.body.get("n") or 1)
