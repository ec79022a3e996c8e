"""How an upstream's reply is turned into the chat reply that the rest of the relay reads: told from another API, with
hidden values put back. Pure but for its place; the relay drives it, one for each reply.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lumbre.gateway.redaction import Redaction
from lumbre.wire.anthropic.as_chat import ChatEvents, chat_error, to_completion
from lumbre.wire.openai.redacted import RestoredStream, restore_completion
from lumbre.wire.sse import Event


class Reading:
    """One reply's.

    Args:
        model: the name that the upstream was asked for.
        created: Unix seconds.
        from_messages: the upstream speaks Anthropic's API.
        include_usage: the client wants a stream to end with its usage.
        redaction: what was hidden from the upstream; None for nothing.
        is_json: the text was asked to be JSON.
    """

    def __init__(
        self,
        model: str,
        created: int,
        *,
        from_messages: bool,
        include_usage: bool,
        redaction: Redaction | None,
        is_json: bool = False,
    ) -> None:
        self._model = model
        self._created = created
        self._from_messages = from_messages
        self._is_json = is_json
        self._restore: Callable[[str], str] | None = None if redaction is None else redaction.restore
        self._steps: list[Callable[[Event], list[Event]]] = []
        if from_messages:
            self._steps.append(ChatEvents(model, created, include_usage=include_usage))
        if redaction is not None:
            self._steps.append(RestoredStream(redaction.restoring, is_json=is_json))

    def events(self, event: Event) -> list[Event]:
        """The events of a chat stream that one event of the upstream's becomes.

        Raises:
            MalformedReply: it is none of the upstream's API.
        """
        events = [event]
        for step in self._steps:
            events = [told for each in events for told in step(each)]
        return events

    def whole(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        """The chat completion that a whole reply becomes.

        Raises:
            MalformedReply: it is none of the upstream's API.
        """
        told = to_completion(reply, self._model, self._created) if self._from_messages else dict(reply)
        return told if self._restore is None else restore_completion(told, self._restore, is_json=self._is_json)

    def refusal(self, document: Mapping[str, Any], status: int) -> Mapping[str, Any]:
        """The same for a refusal's body; a placeholder in its words becomes what it stands for."""
        told = chat_error(document, status) if self._from_messages else document
        error = told.get("error")
        if self._restore is None or not isinstance(error, dict) or not isinstance(error.get("message"), str):
            return told
        return {**told, "error": {**error, "message": self._restore(error["message"])}}
