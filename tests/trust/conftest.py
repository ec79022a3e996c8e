"""The rooms of the trust tests: one rogue, gateways in front of it, and no request left behind."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess

# Short enough to be met by a test, long enough not to be met by chance on a busy machine.
PATIENT = {"header_s": 20, "first_token_s": 20, "idle_s": 20, "total_s": 40}

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path_factory.mktemp("rogue")) as process:
        yield process


@pytest.fixture(scope="session")
def open_for_session(rogue: RogueProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """Opens gateways that live until the last test."""
    yield from _opener(rogue, tmp_path_factory)


@pytest.fixture(scope="module")
def open_for_module(rogue: RogueProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """Opens gateways that live as long as the module."""
    yield from _opener(rogue, tmp_path_factory)


@pytest.fixture
def open_gateway(rogue: RogueProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """Opens gateways that live as long as the test."""
    yield from _opener(rogue, tmp_path_factory)


def _opener(rogue: RogueProcess, folders: pytest.TempPathFactory) -> Iterator[Opener]:
    with ExitStack() as opened:

        def open_one(
            *,
            upstreams: dict[str, str] | None = None,
            deadlines: dict[str, float] | None = None,
            breaker: dict[str, float] | None = None,
            sections: dict[str, Any] | None = None,
            **more: Any,
        ) -> GatewayProcess:
            told = {
                **(sections or {}),
                "deadlines": {**PATIENT, **(deadlines or {})},
                "breaker": {"probe_s": 0.5, "failures": 100, **(breaker or {})},
            }
            given = {"rogue": rogue.url} if upstreams is None else upstreams
            return opened.enter_context(GatewayProcess(folders.mktemp("gateway"), given, sections=told, **more))

        yield open_one


@pytest.fixture(scope="session")
def gateway(open_for_session: Opener) -> GatewayProcess:
    """A gateway with plenty of slots and patience, for every test that asks for nothing special."""
    return open_for_session().ready()


@pytest.fixture
def name() -> str:
    """Names one exchange with the rogue."""
    return f"x{next(_numbers)}"


@pytest.fixture(autouse=True)
def _nothing_stays_behind(rogue: RogueProcess) -> Iterator[None]:
    """Blame a request that still runs upstream on the test that left it there."""
    yield
    rogue.wait_running(0)
    rogue.forget()
