"""Which requests the rogue takes when a test has it be as strict as a vendor: of one API, with its key, and no field
that the API does not publish. Pure; `rogue.server` asks.
"""

import json
from dataclasses import dataclass

from lumbre.backends.fakes.rogue.message_script import write_message_error
from lumbre.backends.fakes.rogue.script import write_error
from lumbre.backends.fakes.rogue.wire import Request

_VERSION = "2023-06-01"
_MESSAGES = (
    "container max_tokens messages metadata model output_config service_tier stop_sequences stream system temperature "
    "thinking tool_choice tools top_k top_p"
).split()
_CHAT = (
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages "
    "metadata modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key reasoning_effort "
    "response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice "
    "tools top_logprobs top_p user verbosity web_search_options"
).split()

Refusal = tuple[int, bytes]


@dataclass(frozen=True)
class Demand:
    """What is demanded of a request.

    Attributes:
        api: `openai` or `anthropic`; empty: nothing is demanded.
    """

    api: str = ""
    key: str = ""

    def refusal(self, request: Request) -> Refusal | None:
        """The answer to a request that is not as demanded; None if it is."""
        if self.api == "anthropic":
            return self._as_anthropic(request)
        return self._as_openai(request) if self.api == "openai" else None

    def _as_anthropic(self, request: Request) -> Refusal | None:
        if request.path != "/v1/messages":
            return 404, write_message_error(404, "Not found")
        if request.header("x-api-key") != self.key:
            return 401, write_message_error(401, "invalid x-api-key")
        if request.header("anthropic-version") != _VERSION:
            return 400, write_message_error(400, f"anthropic-version: {_VERSION} is wanted")
        fields = _fields(request)
        for name in ("model", "max_tokens", "messages"):
            if name not in fields:
                return 400, write_message_error(400, f"{name}: it is missing")
        for name in fields.difference(_MESSAGES):
            return 400, write_message_error(400, f"{name}: no such field")
        return None

    def _as_openai(self, request: Request) -> Refusal | None:
        if request.path != "/v1/chat/completions":
            return 404, write_error(404, f"no {request.path}")
        if request.header("authorization") != f"Bearer {self.key}":
            return 401, write_error(401, "the key is wrong")
        for name in _fields(request).difference(_CHAT):
            return 400, write_error(400, f"no argument {name!r}")
        return None


def _fields(request: Request) -> set[str]:
    try:
        body = json.loads(request.body)
    except ValueError:
        return set()
    return set(body) if isinstance(body, dict) else set()
