"""Decides which engines already run on this machine, by what they answer on loopback. The cli drives it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lumbre.backends.permit import Address, looking
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import UpstreamError

PORTS: Mapping[str, int] = MappingProxyType({"ollama": 11434, "llama-server": 8080, "lm-studio": 1234, "vllm": 8000})
NAMES: Mapping[str, str] = MappingProxyType(
    {"ollama": "Ollama", "llama-server": "llama-server", "lm-studio": "LM Studio", "vllm": "vLLM"}
)
DEADLINE_S = 0.3


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
    outbound = Outbound(user_agent="lumbre-discovery")
    try:
        replies = await asyncio.gather(*(_within(outbound, port, deadline_s) for port in ports))
    finally:
        await outbound.close()
    return [found for found in replies if found is not None]


async def _within(outbound: Outbound, port: int, deadline_s: float) -> Found | None:
    try:
        async with asyncio.timeout(deadline_s):
            return await _identify(outbound, f"http://127.0.0.1:{port}", deadline_s)
    except TimeoutError:
        return None


async def _identify(outbound: Outbound, origin: str, deadline_s: float) -> Found | None:
    listed, ready, version, greeting = await asyncio.gather(
        *(
            _get(outbound, Address(origin), path, deadline_s)
            for path in ("/v1/models", "/readyz", "/api/version", "/lmstudio-greeting")
        )
    )
    if listed is None or "data" not in listed.body:
        return None
    if ready is not None and "tiers" in ready.body:
        return None  # a Lumbre: it lists models of engines too, and must not become its own upstream
    data = listed.body["data"]
    if data is not None and not isinstance(data, list):
        return None
    # An Ollama without models says null.
    entries = [entry for entry in data or () if isinstance(entry, dict)]
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


async def _get(outbound: Outbound, address: Address, path: str, deadline_s: float) -> _Answer | None:
    """A JSON object, whatever the status; None if there is no such thing."""
    try:
        _, server, body = await outbound.get(looking(address), path, deadline_s)
    except UpstreamError:
        return None
    return _Answer(body, (server or "").lower()) if isinstance(body, dict) else None
