"""Which tiers the settings make, who answers for embeddings, and when an engine for them is started."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from lumbre.core.errors import OperatorError, SettingsError
from lumbre.gateway.capability import Capability
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.schema import Settings
from processes import descendants

UPSTREAM = {"id": "ollama", "base_url": "http://127.0.0.1:9/v1", "model": "llama3.2"}
OPENAI = {"backend": "openai", "upstreams": [UPSTREAM]}


def no_secret(name: str) -> str:
    raise SettingsError(f"the variable {name} holds no key")


@asynccontextmanager
async def opened(
    folder: Path, sections: dict[str, Any], model_path: Path | None = None, embeddings_path: Path | None = None
) -> AsyncIterator[Gateway]:
    given = {"gateway": {"state_dir": str(folder / "state")}, **sections}
    gateway = Gateway(
        Settings.model_validate_json(orjson.dumps(given)),
        model_path=model_path,
        model_alias="smol",
        secret=no_secret,
        environ=os.environ,
        embeddings_path=embeddings_path,
    )
    try:
        yield gateway
    finally:
        await gateway.close()


def wake(gateway: Gateway) -> None:
    if gateway.makes_embeddings is not None:
        gateway.makes_embeddings.wake()


def test_the_engine_for_embeddings_starts_when_it_is_wanted_and_ends_with_the_gateway(
    tmp_path: Path, smollm2_path: Path
) -> None:
    async def scene() -> None:
        before = set(descendants(os.getpid()))
        sections = {"tier_a": {"context_tokens": 256}, "embeddings": {"context_tokens": 512}}
        async with opened(tmp_path, sections, smollm2_path) as gateway:
            async with asyncio.timeout(60):
                await gateway.tier.wait_ready()
            chat = set(descendants(os.getpid())) - before
            assert gateway.embeddings is not None
            assert gateway.embeddings is not gateway.tier
            assert not gateway.embeddings.ready
            assert len(chat) == 1
            for _ in range(2):
                wake(gateway)
            async with asyncio.timeout(60):
                await gateway.embeddings.wait_ready()
            assert len(set(descendants(os.getpid())) - before) == 2
            (lane,) = gateway.embeddings.lanes.values()
            assert (lane.id, gateway.embeddings.models()) == ("embedded", ("smol",))
            able = lane.capability(None)
            assert (able.context_tokens, able.endpoints) == (512, frozenset({"embeddings"}))
            assert (tmp_path / "state" / "logs" / "embeddings.log").exists()
            # the default model's template knows no tools
            assert gateway.tier.lanes["embedded"].capability(None) == Capability(256, False, False, True)
        assert set(descendants(os.getpid())) == before

    asyncio.run(scene())


def test_a_gateway_that_was_never_asked_for_embeddings_ends_as_well(tmp_path: Path, smollm2_path: Path) -> None:
    async def scene() -> None:
        before = set(descendants(os.getpid()))
        async with opened(tmp_path, {}, smollm2_path):
            pass
        assert set(descendants(os.getpid())) == before

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("sections", "lanes", "model"),
    [
        ({"tier_a": OPENAI}, ["ollama"], None),
        ({"tier_a": OPENAI, "embeddings": {"model": "nomic"}}, ["ollama"], "nomic"),
        ({"tier_a": OPENAI, "embeddings": {"backend": "off"}}, None, None),
        (
            {"tier_a": OPENAI, "embeddings": {"backend": "openai", "upstreams": [{**UPSTREAM, "id": "vectors"}]}},
            ["vectors"],
            None,
        ),
        ({"tier_a": {"backend": "command", "command": ["true", "{port}"]}}, ["command"], None),
    ],
)
def test_the_settings_say_who_makes_embeddings(
    tmp_path: Path, sections: dict[str, Any], lanes: list[str] | None, model: str | None
) -> None:
    async def scene() -> None:
        async with opened(tmp_path, sections) as gateway:
            found = None if gateway.embeddings is None else list(gateway.embeddings.lanes)
            assert (found, gateway.makes_embeddings and gateway.makes_embeddings.model) == (lanes, model)
            assert (gateway.embeddings is gateway.tier) == (lanes in (["ollama"], ["command"]))
            wake(gateway)

    asyncio.run(scene())


def test_upstreams_for_embeddings_are_asked_for_the_model_of_their_section(tmp_path: Path) -> None:
    async def scene() -> None:
        upstreams = [{"id": "a", "base_url": "http://127.0.0.1:9/v1"}, {**UPSTREAM, "id": "b"}]
        section = {"backend": "openai", "model": "nomic", "upstreams": upstreams}
        async with opened(tmp_path, {"tier_a": OPENAI, "embeddings": section}) as gateway:
            assert gateway.embeddings is not None
            assert [lane.target(None) for lane in gateway.embeddings.lanes.values()] == ["nomic", "llama3.2"]

    asyncio.run(scene())


def test_another_model_for_embeddings_has_to_be_there(tmp_path: Path, smollm2_path: Path) -> None:
    async def scene() -> None:
        section = {"embeddings": {"model": "/models/nomic.gguf"}}
        with pytest.raises(OperatorError, match=r"\[embeddings\] model = '/models/nomic.gguf'"):
            async with opened(tmp_path, section, smollm2_path):
                pass
        async with opened(tmp_path, section, smollm2_path, embeddings_path=smollm2_path) as gateway:
            assert gateway.embeddings is not None
            assert gateway.embeddings.models() == ("nomic",)

    asyncio.run(scene())


def test_a_missing_key_is_told_before_anything_runs(tmp_path: Path) -> None:
    async def scene() -> None:
        keyed = {**UPSTREAM, "api_key_env": "A_KEY"}
        before = asyncio.all_tasks()
        with pytest.raises(SettingsError, match="A_KEY"):
            async with opened(tmp_path, {"tier_a": {"backend": "openai", "upstreams": [keyed]}}):
                pass
        assert asyncio.all_tasks() == before

    asyncio.run(scene())


def test_an_upstreams_own_word_about_itself_wins_over_the_tiers(tmp_path: Path) -> None:
    async def scene() -> None:
        own = {**UPSTREAM, "images": True, "context_tokens": 99, "endpoints": ["messages"]}
        tier_a = {**OPENAI, "upstreams": [own], "tools": True, "images": False}
        async with opened(tmp_path, {"tier_a": tier_a, "models": {"alias": {"gpt-*": "auto"}}}) as gateway:
            lane = gateway.tier.lanes["ollama"]
            assert lane.said == Capability(99, tools=True, images=True, endpoints=frozenset({"messages"}))
            assert gateway.aliases.resolve("gpt-4o", gateway.tier.models()).model == "auto"

    asyncio.run(scene())
