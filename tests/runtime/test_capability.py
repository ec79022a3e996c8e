"""Each kind of engine is asked what it can do in its own way, before its first request, and not at every probe."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from lumbre.backends.permit import Address, looking
from lumbre.backends.traits import LLAMA_CPP
from lumbre.backends.upstream import Outbound
from lumbre.gateway.breaker import Seen
from lumbre.gateway.capability import UNKNOWN, Capability
from lumbre.gateway.health import HealthState
from lumbre.runtime import capability
from lumbre.runtime.capability import CapabilityReader
from lumbre.runtime.engine_lane import EngineLane
from lumbre.runtime.lanes import Lane, read_catalogue
from lumbre.runtime.prober import Prober
from lumbre.runtime.supervisor import EngineStatus
from lumbre.runtime.tasks import TaskRoom

Page = Callable[[web.Request], Awaitable[object]]


def models(*ids: str, owner: str, **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner, **more} for name in ids]}


class Engine:
    """A server that answers a few pages, and remembers who asked for what."""

    def __init__(self, pages: dict[str, Any]) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.url = ""

    def times(self, path: str) -> int:
        return self.asked.count(path)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        page = self.pages.get(request.path)
        if callable(page):
            page = await page(request)
        return web.Response(status=404) if page is None else web.json_response(page)


@asynccontextmanager
async def engine(pages: dict[str, Any]) -> AsyncIterator[Engine]:
    served = Engine(pages)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", served.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        await runner.cleanup()


async def learn(lane: Lane, served: Engine, *, reader: CapabilityReader | None = None) -> None:
    outbound = Outbound(user_agent="test")
    permit = looking(Address(f"{served.url}/v1", "a-key"))
    try:
        catalogue = await read_catalogue(outbound, permit)
        await (reader or CapabilityReader(lane, outbound)).read(permit, catalogue)
    finally:
        await outbound.close()


def read(pages: dict[str, Any], lane: Lane) -> Engine:
    async def scene() -> Engine:
        async with engine(pages) as served:
            await learn(lane, served)
            return served

    return asyncio.run(scene())


PROPS = {
    "default_generation_settings": {"n_ctx": 1024},
    "modalities": {"vision": True},
    "chat_template_caps": {"supports_tools": False, "supports_tool_calls": False},
}


def test_llama_cpp_is_asked_for_its_properties() -> None:
    lane = Lane("a", 1, "")
    read({"/v1/models": models("smol", owner="llamacpp", meta={"n_ctx": 512}), "/props": PROPS}, lane)
    assert lane.capabilities == {"smol": Capability(1024, tools=False, images=True, json_schema=True)}


def test_a_server_of_one_model_can_do_the_same_under_the_name_in_the_settings() -> None:
    lane = Lane("a", 1, "my-name")
    read({"/v1/models": models("/m/x.gguf", owner="llamacpp"), "/props": PROPS}, lane)
    assert lane.capability(None) == lane.capability("/m/x.gguf") != UNKNOWN


def test_a_llama_cpp_that_serves_several_models_is_not_asked_for_those_of_one() -> None:
    lane = Lane("a", 1, "")
    served = read({"/v1/models": models("x", "y", owner="llamacpp"), "/props": PROPS}, lane)
    assert (lane.capabilities, served.times("/props")) == ({}, 0)


def test_vllm_has_said_all_in_its_model_list() -> None:
    lane = Lane("a", 1, "")
    served = read({"/v1/models": models("qwen", owner="vllm", max_model_len=4096)}, lane)
    assert lane.capability("qwen") == Capability(4096)
    assert served.asked == ["/v1/models"]


def test_lm_studio_is_asked_for_its_own_list() -> None:
    entry = {"id": "nomic", "type": "embeddings", "max_context_length": 2048}
    lane = Lane("a", 1, "")
    read({"/v1/models": models("nomic", owner="organization_owner"), "/api/v0/models": {"data": [entry]}}, lane)
    assert lane.capability("nomic") == Capability(2048, endpoints=frozenset({"embeddings"}))


def test_ollama_is_asked_for_each_model_and_for_the_name_in_the_settings() -> None:
    async def show(request: web.Request) -> object:
        name = (await request.json())["model"]
        tools = ["tools"] if name.startswith("llama3.2") else []
        return {"capabilities": ["completion", *tools], "model_info": {"llama.context_length": 8192}}

    lane = Lane("a", 1, "llama3.2")
    listed = models("gemma:latest", "llama3.2:latest", owner="library")
    served = read({"/v1/models": listed, "/api/show": show}, lane)
    assert {name: each.tools for name, each in lane.capabilities.items()} == {
        "llama3.2": True,
        "gemma:latest": False,
        "llama3.2:latest": True,
    }
    assert served.times("/api/show") == 3


def test_what_the_settings_say_wins_over_what_the_engine_says() -> None:
    lane = Lane("a", 1, "", said=Capability(tools=True, endpoints=frozenset({"messages"})))
    read({"/v1/models": models("smol", owner="llamacpp"), "/props": PROPS}, lane)
    assert (lane.capability("smol").tools, lane.capability("smol").images) == (True, True)
    assert lane.capability("unheard-of").tools is True
    assert lane.speaks_messages


@pytest.mark.parametrize(
    ("endpoints", "speaks"), [(None, True), (frozenset({"messages"}), True), (frozenset({"completions"}), False)]
)
def test_llama_cpp_speaks_anthropics_api_unless_the_settings_say_otherwise(
    endpoints: frozenset[str] | None, speaks: bool
) -> None:
    lane = Lane("a", 1, "", traits=LLAMA_CPP, said=Capability(endpoints=endpoints))
    assert lane.speaks_messages is speaks


@pytest.mark.parametrize("page", [None, [], {"error": "no"}])
def test_an_engine_that_does_not_say_can_do_what_its_list_says(page: object) -> None:
    lane = Lane("a", 1, "")
    read({"/v1/models": models("smol", owner="llamacpp", meta={"n_ctx": 512}), "/props": page}, lane)
    assert lane.capability("smol").context_tokens == 512
    assert lane.capability("smol").tools is None


def test_an_engine_that_does_not_answer_in_time_keeps_what_was_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "_PATIENCE_S", 0.05)

    async def silence(_request: web.Request) -> object:
        await asyncio.Event().wait()
        return None

    async def scene() -> None:
        lane = Lane("a", 1, "")
        async with engine({"/v1/models": models("smol", owner="llamacpp"), "/props": PROPS}) as served:
            await learn(lane, served)
            known = lane.capability("smol")
            served.pages["/props"] = silence
            await learn(lane, served)
            assert lane.capability("smol") == known != UNKNOWN

    asyncio.run(scene())


def test_it_is_asked_again_when_its_models_change_when_it_was_gone_and_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        lane = Lane("a", 1, "")
        outbound = Outbound(user_agent="test")
        reader = CapabilityReader(lane, outbound)
        async with engine({"/v1/models": models("smol", owner="llamacpp"), "/props": PROPS}) as served:
            for _ in range(3):
                await learn(lane, served, reader=reader)
            assert served.times("/props") == 1
            served.pages["/v1/models"] = models("other", owner="llamacpp")
            await learn(lane, served, reader=reader)
            assert served.times("/props") == 2
            reader.forget()
            await learn(lane, served, reader=reader)
            assert served.times("/props") == 3
            monkeypatch.setattr(capability, "READ_AGAIN_S", 0.0)
            await learn(lane, served, reader=reader)
            assert served.times("/props") == 4
            await outbound.close()

    asyncio.run(scene())


def test_an_upstream_gets_no_work_before_it_has_been_asked() -> None:
    async def scene() -> None:
        lane = Lane("a", 1, "")
        seen: list[tuple[HealthState, int | None]] = []
        came = asyncio.Event()
        told: list[Seen] = []

        def note(changed: Lane) -> None:
            seen.append((changed.health.state, changed.capability("smol").context_tokens))
            came.set()

        async with engine({"/v1/models": models("smol", owner="llamacpp"), "/props": PROPS}) as served:
            outbound = Outbound(user_agent="test")
            address = Address(f"{served.url}/v1")
            prober = Prober(
                *(lane, address, outbound, note, lambda _lane, what, _why: told.append(what)), probe_s=0.05, failures=1
            )
            probing = asyncio.create_task(prober.run())
            async with asyncio.timeout(10):
                while len(seen) < 3:
                    came.clear()
                    await came.wait()
            assert set(seen) == {(HealthState.READY, 1024)}
            assert set(told) == {Seen.PROBED_WELL}
            assert served.times("/v1/models") >= 3
            assert served.times("/props") == 1
            probing.cancel()
            with suppress(asyncio.CancelledError):
                await probing
            await outbound.close()

    asyncio.run(scene())


def test_a_supervised_engine_gets_no_work_before_it_has_been_asked() -> None:
    async def scene() -> None:
        lane = Lane("embedded", 1, "smol", traits=LLAMA_CPP, asked=True, settled=True)
        ready = asyncio.Event()
        seen: list[HealthState] = []
        told: list[Seen] = []

        def note(changed: Lane) -> None:
            seen.append(changed.health.state)
            if changed.health.state is HealthState.READY:
                assert changed.capability(None).context_tokens == 1024
                ready.set()

        async with engine({"/v1/models": models("smol", owner="llamacpp"), "/props": PROPS}) as served:
            outbound, tasks = Outbound(user_agent="test"), TaskRoom()
            written = EngineLane(lane, outbound, note, lambda _lane, what, _why: told.append(what), tasks)
            status = EngineStatus("ready", served.url, "a-key", 1, 0, None)
            written.report(status)
            async with asyncio.timeout(10):
                await ready.wait()
            assert seen == [HealthState.STARTING, HealthState.READY]
            assert told == [Seen.RESTARTED]
            assert lane.models == ()  # its names were known before
            await tasks.close()
            await outbound.close()

    asyncio.run(scene())
