"""What the `llm` command sees of the gateway, run as a person runs it, with a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_gateway import EmbeddedGateway
from gateway_process import GatewayProcess

Llm = Callable[..., str]
Pasted = Callable[[str, str, str], list[str]]


@pytest.fixture
def llm(tmp_path: Path) -> Llm:
    """Runs `llm`; what it says."""

    def run(*words: str, **variables: str) -> str:
        environ = {**os.environ, "LLM_USER_PATH": str(tmp_path), "LLM_LOAD_PLUGINS": "", **variables}
        done = subprocess.run(
            [sys.executable, "-m", "llm", *words],
            capture_output=True,
            text=True,
            timeout=60,
            env=environ,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip("\n")

    return run


@pytest.fixture
def set_up(tmp_path: Path, pasted: Pasted) -> Callable[[str], None]:
    """Writes the page's `extra-openai-models.yaml`."""

    def write(url: str) -> None:
        (tmp_path / "extra-openai-models.yaml").write_text(pasted("llm.md", "yaml", url)[0])

    return write


def test_the_default_model_answers_a_prompt(llm: Llm, set_up: Callable[[str], None], embedded: EmbeddedGateway) -> None:
    set_up(embedded.url)
    assert len(llm("-m", "lumbre", "-o", "max_tokens", "16", "Why is the sky blue?").split()) > 5


def test_a_conversation_goes_on(llm: Llm, set_up: Callable[[str], None], gateway: GatewayProcess) -> None:
    set_up(gateway.url)
    assert llm("-m", "lumbre-tools", "say first") == "first"
    assert llm("-c", "--no-stream", "say second") == "second"
    kept = json.loads(llm("logs", "--json", "-c"))
    assert [(each["prompt"], each["response"]) for each in kept] == [("say first", "first"), ("say second", "second")]


def test_a_schema_is_kept(llm: Llm, set_up: Callable[[str], None], gateway: GatewayProcess) -> None:
    set_up(gateway.url)
    answer = llm("-m", "lumbre-tools", "--schema", "name, people int", 'say {"name": "Oslo", "people": 7}')
    assert json.loads(answer) == {"name": "Oslo", "people": 7}


def test_a_tool_runs(llm: Llm, set_up: Callable[[str], None], gateway: GatewayProcess) -> None:
    set_up(gateway.url)
    code = 'def get_weather(city: str) -> str:\n    "The weather."\n    return "rain in " + city'
    answer = llm("-m", "lumbre-tools", "--functions", code, 'call get_weather {"city": "Oslo"}')
    assert answer == "The tools said: rain in Oslo"


def test_its_built_in_names_come_to_the_gateway_by_a_variable(llm: Llm, gateway: GatewayProcess) -> None:
    variables = {"OPENAI_BASE_URL": f"{gateway.url}/v1", "OPENAI_API_KEY": "none"}
    assert llm("-m", "gpt-4o-mini", "say hello", **variables) == "hello"
    assert len(json.loads(llm("embed", "-m", "3-small", "-c", "some text", **variables))) > 1
