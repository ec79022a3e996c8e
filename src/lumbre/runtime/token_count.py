"""Asks an engine how many tokens a prompt is, in the way of its kind; one that cannot say gets an estimate. Driver.

llama.cpp renders the chat template and counts (`/v1/chat/completions/input_tokens`), and tokenizes plain text
(`/tokenize`); vLLM does both at `/tokenize`. Neither touches the model, but each takes an engine's time, and nobody has
a slot for it: so each engine is asked a few questions at a time.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from lumbre.backends.traits import Counting
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import CallerError, SwitchClosed, UpstreamError
from lumbre.runtime.lanes import Lane

LONGEST_S = 5.0
"""How long one request may wait for its prompt to be counted, by all engines together."""

_AT_ONCE = 2
"""Questions to one engine at a time."""

_BYTES_A_TOKEN = 4
"""Of English text with the tokenizers of today; for code and other languages it is less."""

_MESSAGE_BYTES = 16
"""What a chat template adds to each message, about."""

IMAGE_TOKENS = 2000
"""Of one image, about: what it costs depends on its size and on the model, never on the length of its file."""


class TokenCounter:
    """Counts with the engines' own tokenizers."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._places: dict[str, asyncio.Semaphore] = {}

    async def count(
        self,
        lane: Lane,
        asked: str,
        body: Mapping[str, Any],
        model: str | None,
        *,
        until: float,
        check: Callable[[], None] | None = None,
        stops: Callable[[], None] | None = None,
    ) -> int | None:
        """The tokens of a request's prompt; None if this engine cannot say, or does not answer in time.

        Args:
            asked: the endpoint of OpenAI's API that `body` is a request to. Of several prompts none is counted.
            until: a moment on the loop's clock; the wait for a place is part of it.
            check: asked at the start, and again when the place is there; what it raises ends the counting.
            stops: asked before the prompt is sent; what it raises ends the counting too. None: the lane's own.
        """
        if lane.address is None or (put := _question(lane, asked, body, model)) is None:
            return None
        path, sent = put
        if check is not None:
            check()
        place = self._places.setdefault(lane.id, asyncio.Semaphore(_AT_ONCE))
        try:
            async with asyncio.timeout_at(until), place:
                if check is not None:
                    check()
                return await self._ask(lane, path, sent, until, stops)
        except (TimeoutError, UpstreamError, SwitchClosed):
            return None

    async def count_or_estimate(
        self, lane: Lane, asked: str, body: Mapping[str, Any], model: str | None, *, until: float
    ) -> tuple[int, bool]:
        """The tokens of a request's prompt, and whether they are an estimate from its length."""
        counted = await self.count(lane, asked, body, model, until=until)
        return (counted, False) if counted is not None else (estimate(body), True)

    async def _ask(
        self, lane: Lane, path: str, sent: bytes, until: float, stops: Callable[[], None] | None
    ) -> int | None:
        left_s = until - asyncio.get_running_loop().time()
        if lane.address is None or left_s <= 0:
            return None
        permit = lane.permit(lane.address, stops)
        if path == "/tokenize":
            permit = permit.at(lane.address.base_url.removesuffix("/v1"))
        status, document = await self._outbound.ask(permit, path, sent, left_s)
        return _answer(document) if status == 200 else None


def _question(lane: Lane, asked: str, body: Mapping[str, Any], model: str | None) -> tuple[str, bytes] | None:
    """Path and body of the question to an engine; None where it cannot be asked."""
    found = _words(lane.traits.counting, asked, body, lane.target(model))
    if found is None:
        return None
    path, sent = found
    try:
        return path, orjson.dumps(sent)
    except orjson.JSONEncodeError:  # too deep; whoever sends the request itself says so
        return None


def _words(counting: Counting, asked: str, body: Mapping[str, Any], model: str) -> tuple[str, dict[str, Any]] | None:
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
    """About how many tokens the prompt of a chat request is, at least 1: by the bytes of its texts, calls and tools.

    Raises:
        CallerError: 400 `too_deep`; the request could not be passed on either.
    """
    size = _json_bytes(body["tools"]) if body.get("tools") else 0
    images = images_in(body)
    for message in body.get("messages") or ():
        size += _MESSAGE_BYTES + (_json_bytes(message["tool_calls"]) if message.get("tool_calls") else 0)
        content = message.get("content")
        parts = content if isinstance(content, list) else ({"type": "text", "text": content},)
        size += sum(_text_bytes(part.get("text")) for part in parts)
    return max(1, size // _BYTES_A_TOKEN + images * IMAGE_TOKENS)


def images_in(body: Mapping[str, Any]) -> int:
    """How many images the messages of a chat request hold."""
    contents = (message.get("content") for message in body.get("messages") or ())
    return sum(part.get("type") == "image_url" for parts in contents if isinstance(parts, list) for part in parts)


def _text_bytes(text: object) -> int:
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0


def _json_bytes(value: object) -> int:
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError as error:
        raise CallerError(f"the body cannot be passed on: {error}", code="too_deep") from error
