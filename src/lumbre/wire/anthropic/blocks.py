"""Where the content blocks of a Messages request stand, by their paths. Pure; the request's rules walk over them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Body = Mapping[str, Any]

RESULT = "tool_result"
"""Stands in a `Placed` for the role of what lies inside a tool result."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One block.

    Attributes:
        path: such as `messages[0].content[1]`.
        role: of the turn it stands in, or `RESULT`.
    """

    path: str
    role: str
    block: Mapping[str, Any]

    @property
    def type(self) -> str:
        """What kind of block it is."""
        kind: str = self.block["type"]
        return kind


def blocks_of(body: Body) -> Iterator[Placed]:
    """Each block of the conversation, those inside tool results after the result; `body`'s types have been checked."""
    for m, turn in enumerate(body["messages"]):
        yield from _within(turn["content"], f"messages[{m}].content", turn["role"])


def _within(content: object, path: str, role: str) -> Iterator[Placed]:
    for b, block in enumerate(content if isinstance(content, list) else ()):
        yield Placed(f"{path}[{b}]", role, block)
        if block["type"] == RESULT and role != RESULT:
            yield from _within(block.get("content"), f"{path}[{b}].content", RESULT)
