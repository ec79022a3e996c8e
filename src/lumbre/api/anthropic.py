"""What a request to Anthropic's API asks for: a chat completion told as a Message, or its own words for an engine that
knows them; and how many tokens a prompt is. Driver; `wire.anthropic` says what is what.
"""

from typing import Any

import orjson

from lumbre.api.doors import Inference, beside
from lumbre.api.reply import Reply
from lumbre.gateway.hints import Hints
from lumbre.runtime.call import Call, Retelling
from lumbre.runtime.dispatch import decision_headers
from lumbre.wire.anthropic.blame import in_callers_words
from lumbre.wire.anthropic.request import to_chat
from lumbre.wire.anthropic.translation import MessageTranslation

MESSAGES = "/messages"
_CHAT = "/chat/completions"


async def message_call(decision: str, body: dict[str, Any], headers: dict[str, str], hints: Hints) -> Call:
    """The call of `POST /v1/messages`."""
    stops = tuple(body.get("stop_sequences") or ())
    message_id = f"msg_{decision.removeprefix('d-')}"
    return Call(
        decision,
        MESSAGES,
        _CHAT,
        await beside(_parts(body), lambda: to_chat(body)),
        headers,
        hints,
        Retelling(
            lambda model: MessageTranslation(message_id, model, stops),
            openai_errors=False,
            own=body,
            blame=lambda error: in_callers_words(error, body),
        ),
    )


def _parts(body: dict[str, Any]) -> int:
    turns = body["messages"]
    return sum(len(turn["content"]) if isinstance(turn["content"], list) else 1 for turn in turns)


class CountTokens(Inference):
    """`POST /v1/messages/count_tokens`: the engine's tokenizer counts; nothing is generated.

    Where the engine has no way to count, the number is an estimate from the prompt's length, and the reply's header
    `x-lumbre-estimated: true` says so.
    """

    async def _answer(self, call: Call, reply: Reply) -> None:
        tokens, estimated = await self._gateway.dispatcher.count_tokens(call)
        headers = [("content-type", "application/json"), *decision_headers(call.decision)]
        if estimated:
            headers.append(("x-lumbre-estimated", "true"))
        reply.whole(200, headers, orjson.dumps({"input_tokens": tokens}))
