"""Which content block of a stream is open, and what waits behind it. Pure; `translation` drives it.

A chat stream may mix the pieces of several calls, and says of none that it is over; here one block is open at a time
and is closed before the next. The block at the head of the line goes out as it comes. It is over when something else
comes and it cannot grow: a text, or a call whose arguments are a whole JSON object. What comes behind a head that may
still grow waits, at the longest until the engine has finished.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

from lumbre.wire.anthropic.message import event, input_of
from lumbre.wire.openai.calls import CallFragments
from lumbre.wire.openai.story import MalformedReply

Kind = Literal["text", "thinking", "tool_use"]

_STARTS: Mapping[Kind, Mapping[str, str]] = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
_DELTAS: Mapping[Kind, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


class CallIds:
    """The ids of one reply's calls: the engine's, or made of the prefix where it gives none, or one twice."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._given: set[str] = set()

    def of(self, said: object, number: int) -> str:
        """The id of the next call.

        Args:
            said: the engine's.
            number: of the call in the reply.
        """
        taken = said if isinstance(said, str) and said and said not in self._given else f"{self._prefix}_{number}"
        self._given.add(taken)
        return taken


class _Block:
    def __init__(self, kind: Kind, number: int = 0) -> None:
        self.kind = kind
        self.number = number
        self.id: object = None
        self.names: list[str] = []
        self.pieces: list[str] = []
        """All of a call's arguments."""
        self.waiting: list[str] = []
        """What has not been sent."""
        self.begun = False
        self.over = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def can_grow(self) -> bool:
        if self.kind != "tool_use":
            return False
        text = self.arguments
        if not text.rstrip().endswith("}"):
            return True
        try:
            input_of(text, cut=False)
        except MalformedReply:
            return True
        return False

    def take_fragment(self, fragment: Mapping[str, Any], added: str) -> str:
        """Note a fragment of a call, and what it adds to the name; return its arguments."""
        self.id = self.id or fragment.get("id")
        function = fragment.get("function")
        told: Mapping[str, Any] = function if isinstance(function, dict) else {}
        name, arguments = told.get("name"), told.get("arguments")
        if not isinstance(name, str | None) or not isinstance(arguments, str | None):
            raise MalformedReply("a call's name or arguments are no text")
        if added and self.begun:
            raise MalformedReply("a call's name goes on after its arguments have begun")
        self.names.append(added)
        if self.over and arguments and arguments.strip():
            raise MalformedReply("a call's arguments go on after their end")
        return arguments or ""


class ContentStream:
    """The content blocks of one stream.

    Args:
        id_prefix: of the ids of calls to which the engine gives none of their own.
    """

    def __init__(self, id_prefix: str) -> None:
        self._ids = CallIds(id_prefix)
        self._fragments = CallFragments()
        self._line: deque[_Block] = deque()
        self._calls: dict[int, _Block] = {}
        self._index = 0

    @property
    def has_calls(self) -> bool:
        """Whether a tool has been called."""
        return bool(self._calls)

    def say(self, kind: Literal["text", "thinking"], piece: str) -> bytes:
        """The events that a piece of text becomes; b"" while it waits."""
        out = b""
        if not self._line or self._line[-1].kind != kind:
            out = self._queue(_Block(kind))
        return out + self._grow(self._line[-1], piece)

    def call(self, fragment: Mapping[str, Any], position: int) -> bytes:
        """The events that a fragment of a call becomes.

        Args:
            position: of the fragment in its list.

        Raises:
            MalformedReply: it is none, or does not go on from what came before it.
        """
        taken = self._fragments.take(fragment, position)
        if taken is None:
            raise MalformedReply(f"a call of the index {str(fragment.get('index'))[:20]}")
        out = b""
        block = self._calls.get(taken.number)
        if block is None:
            block = self._calls[taken.number] = _Block("tool_use", taken.number)
            out = self._queue(block)
        arguments = block.take_fragment(fragment, taken.name)
        if block.over or not arguments:
            return out
        block.pieces.append(arguments)
        return out + self._grow(block, arguments)

    def finish(self, *, cut: bool) -> bytes:
        """The events that close all blocks.

        Args:
            cut: the reply reached its length, so a call may have been cut off.

        Raises:
            MalformedReply: a call's arguments are no JSON object.
        """
        out = b""
        while self._line:
            if self._line[0].kind == "tool_use":
                input_of(self._line[0].arguments, cut=cut)
            out += self._close()
        return out

    def _queue(self, block: _Block) -> bytes:
        """Put a new block into the line; let those before it go that are over."""
        out = b""
        while self._line and not self._line[0].can_grow:
            out += self._close()
            if self._line:
                out += self._flush(self._line[0])
        self._line.append(block)
        return out

    def _grow(self, block: _Block, piece: str) -> bytes:
        block.waiting.append(piece)
        return self._flush(block) if block is self._line[0] else b""

    def _flush(self, block: _Block) -> bytes:
        """Send what waits. A call begins with its arguments, for its name may come in pieces too."""
        piece = "".join(block.waiting)
        if not block.begun and not (piece.strip() if block.kind == "tool_use" else piece):
            return b""
        block.waiting.clear()
        kind, name = _DELTAS[block.kind]
        delta = {"index": self._index, "delta": {"type": kind, name: piece}}
        return self._begin(block) + (event("content_block_delta", delta) if piece else b"")

    def _begin(self, block: _Block) -> bytes:
        if block.begun:
            return b""
        block.begun = True
        start = {"type": block.kind, **(_STARTS.get(block.kind) or self._call_start(block))}
        return event("content_block_start", {"index": self._index, "content_block": start})

    def _call_start(self, block: _Block) -> dict[str, Any]:
        name = "".join(block.names)
        if not name:
            raise MalformedReply("a call without a name")
        return {"id": self._ids.of(block.id, block.number), "name": name, "input": {}}

    def _close(self) -> bytes:
        block = self._line[0]
        out = self._flush(block) + self._begin(block) + event("content_block_stop", {"index": self._index})
        block.over = True
        self._line.popleft()
        self._index += 1
        return out
