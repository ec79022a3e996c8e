"""How a reply is followed, folded and told again in another API's words: what the relay asks of each API. Pure.

The relay knows no API. It asks a `Following` what every event of the engine's stream was and whether the engine has
finished, a `Folding` for the one object that a stream comes to, and a `Translation`, where the client speaks another
API than the engine, for the bytes that the client gets instead of the engine's.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from lumbre.wire.openai.story import Choice, Seen, Usage
from lumbre.wire.sse import Event


class Following(Protocol):
    """Takes note of one stream in its engine's own words."""

    choices: dict[int, Choice]
    done: bool
    """The engine said the last word of its stream."""
    failed: bool
    """The engine itself reported an error inside the stream."""

    @property
    def finished(self) -> bool:
        """Whether the engine said that it finished."""

    @property
    def usage(self) -> Usage:
        """The engine's own count, else an estimate from the pieces seen."""

    def see(self, event: Event) -> Seen:
        """Take note of one event."""


class Folding(Protocol):
    """Collects the chunks of one stream."""

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the next chunk; `MalformedReply` if it is none."""

    def body(self) -> bytes:
        """The one object that the same call without `stream` would have had; `MalformedReply`."""


class Translation(Protocol):
    """Tells one chat completion in another API's words; a new one for each reply.

    `chunk`s and then one `ending` make a stream, `reply` the same answer as one object: a client that folds the stream
    has what `reply` says.
    """

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        """The events that one chunk of the engine's stream becomes, ready for the wire; b"" for none.

        Raises:
            MalformedReply: the chunk is not of the chat API's shape.
        """

    def ending(self) -> bytes:
        """The events that end the stream; asked once, when the engine has said that it finished.

        Raises:
            MalformedReply: it finished in the middle of something.
        """

    def reply(self, completion: Mapping[str, Any]) -> bytes:
        """The whole reply that a whole chat completion becomes.

        Raises:
            MalformedReply: the completion is not of the chat API's shape.
        """
