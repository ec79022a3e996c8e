"""What a request to the Responses API asks for: a chat completion told as a Response, which goes on from earlier ones
and is kept. Driver; `wire.responses` says what is what, `runtime.response_store` keeps.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from lumbre.api.doors import are_many, beside
from lumbre.api.responses import Recalled, recall
from lumbre.core.errors import CallerError, LumbreError
from lumbre.gateway.hints import Hints
from lumbre.runtime.archive import Archive
from lumbre.runtime.call import Call, Retelling
from lumbre.runtime.response_store import StoreBroken
from lumbre.wire.responses.errors import error_event, in_callers_words
from lumbre.wire.responses.items import kept_items
from lumbre.wire.responses.request import to_chat
from lumbre.wire.responses.translation import ResponseTranslation
from lumbre.wire.translation import Translation

RESPONSES = "/responses"
_CHAT = "/chat/completions"

log = logging.getLogger(__name__)


class ResponseCalls:
    """Makes the calls of `POST /v1/responses`.

    Args:
        store: where responses are kept; None: nowhere.
        now_s: Unix seconds.
    """

    def __init__(self, store: Archive | None, now_s: Callable[[], float]) -> None:
        self._store = store
        self._now_s = now_s

    async def __call__(self, decision: str, body: dict[str, Any], headers: dict[str, str], hints: Hints) -> Call:
        """The call of one request."""
        recalled = await recall(self._store, body)
        asked_items = body["input"] if isinstance(body.get("input"), list) else ()
        parts = len(asked_items) + len(recalled.history)
        chat = await beside(parts, lambda: to_chat(body, recalled.history, recalled.known))
        asked = body if self._store is not None else {**body, "store": False}
        telling = _Telling(asked, recalled, f"resp_{decision.removeprefix('d-')}", int(self._now_s()), self._store)
        return Call(
            decision,
            RESPONSES,
            _CHAT,
            chat,
            headers,
            hints,
            Retelling(
                telling.begin,
                openai_errors=True,
                keep=None if asked.get("store") is False else telling.keep,
                blame=telling.blame,
                error_event=telling.error_event,
            ),
            is_large=are_many(parts),
        )


class _Telling:
    """One request and the Response that is told of it."""

    def __init__(
        self,
        body: Mapping[str, Any],
        recalled: Recalled,
        response_id: str,
        created_at: int,
        store: Archive | None,
    ) -> None:
        self._body = body
        self._recalled = recalled
        self._id = response_id
        self._created_at = created_at
        self._store = store
        self._translation: ResponseTranslation | None = None

    def begin(self, model: str) -> Translation:
        """Make what tells the reply."""
        self._translation = ResponseTranslation(self._id, self._created_at, model, self._body)
        return self._translation

    async def keep(self) -> None:
        """Keep the finished Response; one that cannot be kept says so."""
        translation, store = self._translation, self._store
        if translation is None or store is None:
            return
        items = kept_items(self._body, self._id, self._recalled.known)
        try:
            kept = await store.ask(store.store.put, self._id, translation.result, items)
        except StoreBroken as error:
            log.warning("%s", error)
            kept = False
        if not kept:
            translation.unstore()

    def blame(self, error: CallerError) -> CallerError:
        """Tell an error about the chat completion by the field of the request."""
        return in_callers_words(error, self._body, self._recalled.history, self._recalled.known)

    def error_event(self, error: LumbreError, decision: str | None) -> bytes:
        """An error inside the stream, under its next number."""
        return error_event(error, decision, self._translation.sequence_number if self._translation else None)
