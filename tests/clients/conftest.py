"""The rooms of the client tests: an engine that does what a prompt says, a gateway before it under the names that
clients insist on, and the pages of `docs/clients/`, whose lines are run as they stand."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded_gateway import EmbeddedGateway
from gateway_process import GatewayProcess, Sections
from rogue_process import RogueProcess

PAGES = Path(__file__).parents[2] / "docs" / "clients"
ADDRESS = "http://127.0.0.1:8484"
ALIASES = {'"gpt-*"': "rogue-obey", '"claude-*"': "rogue-obey", '"text-embedding-*"': "rogue"}
_FENCED = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_TELLTALES = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")

Pasted = Callable[[str, str, str], list[str]]
"""Reads the fenced lines of a page: its name, the language, and the gateway that stands for the one it names."""


@pytest.fixture(scope="session")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path_factory.mktemp("rogue")) as process:
        yield process


@pytest.fixture(scope="session")
def gateway(rogue: RogueProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose engine takes tools and keeps schemas."""
    sections: Sections = {"tier_a": {"strict_json": True}, "models.alias": ALIASES}
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), {"rogue": rogue.url}, sections=sections) as process:
        yield process.ready()


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reports anywhere, and whoever tries to reach beyond this machine fails."""
    for name in _TELLTALES:
        monkeypatch.setenv(name, "false")
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture(scope="session")
def pasted() -> Pasted:
    def read(page: str, language: str, url: str) -> list[str]:
        text = (PAGES / page).read_text()
        found = [fenced["text"] for fenced in _FENCED.finditer(text) if fenced["language"] == language]
        assert found, f"{page} has no {language} to paste"
        return [each.replace(ADDRESS, url) for each in found]

    return read


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedGateway]:
    """In place of the session's: clients ask for embeddings, which start a second engine, and others count engines."""
    with EmbeddedGateway(tmp_path_factory.mktemp("clients"), "smollm2-135m-instruct") as gateway:
        yield gateway
