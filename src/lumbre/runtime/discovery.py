"""Decides which engines already run on this machine, by what they answer on loopback. The cli drives it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import aiohttp

PORTS: Mapping[str, int] = MappingProxyType({"ollama": 11434, "llama-server": 8080, "lm-studio": 1234, "vllm": 8000})
NAMES: Mapping[str, str] = MappingProxyType(
    {"ollama": "Ollama", "llama-server": "llama-server", "lm-studio": "LM Studio", "vllm": "vLLM"}
)
DEADLINE_S = 0.3
REPLY_BYTES = 1_048_576


@dataclass(frozen=True)
class Found:
    """An engine that answered.

    Attributes:
        kind: `ollama`, `llama-server`, `lm-studio` or `vllm`.
        name: the engine's name as its makers write it.
        base_url: what `[[tier_a.upstreams]] base_url` takes, such as `http://127.0.0.1:11434/v1`.
        models: the ids it lists; an engine may run and hold none.
    """

    kind: str
    name: str
    base_url: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class _Answer:
    body: Mapping[str, Any]
    server: str


async def find_engines(*, ports: Sequence[int] = tuple(PORTS.values()), deadline_s: float = DEADLINE_S) -> list[Found]:
    """Ask every port at once, each for at most `deadline_s`; whatever is no engine is left out."""
    # No proxies, no redirects: the question is what listens here, and nothing else.
    async with aiohttp.ClientSession(trust_env=False) as session:
        replies = await asyncio.gather(*(_within(session, port, deadline_s) for port in ports))
    return [found for found in replies if found is not None]


async def _within(session: aiohttp.ClientSession, port: int, deadline_s: float) -> Found | None:
    try:
        async with asyncio.timeout(deadline_s):
            return await _identify(session, f"http://127.0.0.1:{port}")
    except TimeoutError:
        return None


async def _identify(session: aiohttp.ClientSession, origin: str) -> Found | None:
    listed, ready, version, greeting = await asyncio.gather(
        *(_get(session, origin + path) for path in ("/v1/models", "/readyz", "/api/version", "/lmstudio-greeting"))
    )
    if listed is None or "data" not in listed.body:
        return None
    if ready is not None and "tiers" in ready.body:
        return None  # a Lumbre: it lists models of engines too, and must not become its own upstream
    entries = [entry for entry in listed.body["data"] or () if isinstance(entry, dict)]
    kind = _kind(listed, entries, version, greeting)
    if kind is None:
        return None
    models = tuple(str(entry["id"]) for entry in entries if entry.get("id"))
    return Found(kind, NAMES[kind], f"{origin}/v1", models)


def _kind(
    listed: _Answer, entries: Sequence[Mapping[str, Any]], version: _Answer | None, greeting: _Answer | None
) -> str | None:
    """Which engine this is; None for a server that only looks alike."""
    owners = {str(entry.get("owned_by", "")).lower() for entry in entries}
    if listed.server.startswith("llama.cpp") or "llamacpp" in owners:
        return "llama-server"
    if owners == {"vllm"}:
        return "vllm"
    if greeting is not None and greeting.body.get("lmstudio") is True:
        return "lm-studio"
    # Ollama's owners are `library` or the name of who published the model, so its own endpoint has to speak.
    if version is not None and set(version.body) == {"version"} and isinstance(version.body["version"], str):
        return "ollama"
    return None


async def _get(session: aiohttp.ClientSession, url: str) -> _Answer | None:
    """A JSON object, whatever the status; None if there is no such thing."""
    try:
        async with session.get(url, allow_redirects=False) as reply:
            raw = bytearray()
            async for chunk in reply.content.iter_chunked(65_536):
                raw += chunk
                if len(raw) > REPLY_BYTES:
                    return None
            body = json.loads(raw)
            server = reply.headers.get("Server", "").lower()
    except (aiohttp.ClientError, OSError, ValueError):
        return None
    return _Answer(body, server) if isinstance(body, dict) else None
