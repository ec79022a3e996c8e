"""Asks an engine how many tokens a prompt is, in the way of its kind; one that cannot say gets an estimate. Driver.

llama.cpp renders the chat template and counts (`/v1/chat/completions/input_tokens`), and tokenizes plain text
(`/tokenize`); vLLM does both at `/tokenize`. Neither touches the model.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from lumbre.backends.traits import Counting
from lumbre.backends.upstream import Address, Outbound
from lumbre.core.errors import UpstreamError
from lumbre.runtime.lanes import Lane

_TIMEOUT_S = 5.0
_BYTES_A_TOKEN = 4
"""Of English text with the tokenizers of today; for code and other languages it is less."""


class TokenCounter:
    """Counts with the engines' own tokenizers."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound

    async def count(self, lane: Lane, asked: str, body: Mapping[str, Any], model: str | None) -> int | None:
        """The tokens of a request's prompt; None if this engine cannot say, or does not answer."""
        if lane.address is None:
            return None
        question = _question(lane.traits.counting, asked, body, lane.target(model))
        if question is None:
            return None
        path, sent = question
        root = path.startswith("/tokenize")
        address = _root(lane.address) if root else lane.address
        try:
            status, document = await self._outbound.ask(address, path, orjson.dumps(sent), _TIMEOUT_S)
        except UpstreamError:
            return None
        return _answer(document) if status == 200 else None

    async def count_or_estimate(
        self, lane: Lane, asked: str, body: Mapping[str, Any], model: str | None
    ) -> tuple[int, bool]:
        """The tokens of a request's prompt, and whether they are an estimate from its length."""
        counted = await self.count(lane, asked, body, model)
        return (counted, False) if counted is not None else (estimate(body), True)


def _question(counting: Counting, asked: str, body: Mapping[str, Any], model: str) -> tuple[str, dict[str, Any]] | None:
    chat = {key: body[key] for key in ("messages", "tools", "tool_choice") if key in body}
    prompt = body.get("prompt", body.get("input"))
    if counting is Counting.LLAMA_CPP:
        if asked == "/chat/completions":
            return "/chat/completions/input_tokens", {"model": model, **chat}
        return ("/tokenize", {"content": prompt}) if isinstance(prompt, str) else None
    if counting is Counting.VLLM:
        if asked == "/chat/completions":
            return "/tokenize", {"model": model, **chat}
        return ("/tokenize", {"model": model, "prompt": prompt}) if isinstance(prompt, str) else None
    return None


def _answer(document: object) -> int | None:
    said = document if isinstance(document, dict) else {}
    for key in ("input_tokens", "count"):
        if isinstance(said.get(key), int):
            return int(said[key])
    tokens = said.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


def estimate(body: Mapping[str, Any]) -> int:
    """About how many tokens a prompt is, from the bytes of its texts, tools included."""
    told = {key: body[key] for key in ("messages", "tools", "prompt", "input") if body.get(key) is not None}
    return max(1, len(orjson.dumps(told)) // _BYTES_A_TOKEN)


def _root(address: Address) -> Address:
    return Address(address.base_url.removesuffix("/v1"), address.api_key)
