"""The health probe, against servers that answer in their own ways."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from lumbre.runtime.engine_probe import HealthProbe

KEY = "a-key-for-the-tests"


async def verdict(pages: dict[str, int]) -> tuple[bool, list[tuple[str, str | None]]]:
    asked: list[tuple[str, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, request.headers.get("Authorization")))
        status = pages.get(request.path, 404)
        return web.Response(status=status, headers={"Location": "/v1/models"} if status == 302 else None)

    runner = web.ServerRunner(web.Server(answer))  # type: ignore[arg-type, unused-ignore]
    await runner.setup()
    port = unused_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    probe = HealthProbe()
    try:
        return await probe(f"http://127.0.0.1:{port}", KEY), asked
    finally:
        await probe.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("pages", "well"),
    [
        ({"/health": 200}, True),
        ({"/health": 503, "/v1/models": 200}, False),
        ({"/health": 302, "/v1/models": 200}, False),
        ({"/v1/models": 200}, True),
        ({"/health": 405, "/v1/models": 200}, True),
        ({"/v1/models": 401}, False),
        ({}, False),
    ],
)
def test_health_is_believed_and_models_are_asked_where_there_is_no_such_page(pages: dict[str, int], well: bool) -> None:
    assert asyncio.run(verdict(pages))[0] is well


def test_the_key_is_shown() -> None:
    _, asked = asyncio.run(verdict({"/v1/models": 200}))
    assert asked == [("/health", f"Bearer {KEY}"), ("/v1/models", f"Bearer {KEY}")]


def test_where_nobody_listens_nobody_is_well() -> None:
    async def scene() -> bool:
        probe = HealthProbe()
        try:
            return await probe(f"http://127.0.0.1:{unused_port()}", KEY)
        finally:
            await probe.close()

    assert asyncio.run(scene()) is False
