"""What a whole Message says, read as the checks of a chat reply read it. Pure; the relay asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from lumbre.wire.anthropic.message import written
from lumbre.wire.anthropic.story import MessageStory
from lumbre.wire.openai.story import Choice, MalformedReply, Usage
from lumbre.wire.sse import Event


def count_of_message(reply: Mapping[str, Any]) -> Usage | None:
    """The tokens that a Message says it took; None if it says nothing of them.

    Raises:
        MalformedReply: it is no Message.
    """
    if not isinstance(reply.get("content"), list):
        raise MalformedReply("it is JSON, but no Message")
    return _story(reply, ()).usage if isinstance(reply.get("usage"), dict) else None


def choices_of_message(reply: Mapping[str, Any]) -> list[Choice]:
    """The one alternative of a Message that `count_of_message` has taken."""
    return list(_story(reply, reply["content"]).choices.values())


def _story(reply: Mapping[str, Any], content: Sequence[Any]) -> MessageStory:
    story = MessageStory(keep_text=True)
    for index, piece in enumerate(content):
        for chunk in _events(index, piece if isinstance(piece, dict) else {}):
            story.see(Event(b"", written(chunk)))
    delta = {"stop_reason": reply.get("stop_reason")}
    story.see(Event(b"", written({"type": "message_delta", "delta": delta, "usage": reply.get("usage")})))
    return story


def _events(index: int, piece: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a stream would have said of one piece."""
    return [
        {"type": "content_block_start", "index": index, "content_block": piece},
        {"type": "content_block_stop", "index": index},
    ]
