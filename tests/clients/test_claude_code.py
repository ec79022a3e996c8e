"""What Claude Code sees of the gateway: a request of the shape it makes; where npm can install it, the real one."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

from embedded_gateway import EmbeddedGateway
from gateway_process import GatewayProcess
from rogue_process import RogueProcess
from wire_client import Call, poll

PACKAGE = "@anthropic-ai/claude-code"
INSTALL_S = 300
ASKED_MOST = 4
BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,mid-conversation-system-2026-04-07,effort-2025-11-24"
HEADERS = {"Authorization": "Bearer none", "anthropic-version": "2023-06-01", "anthropic-beta": BETAS, "x-app": "cli"}
CACHED = {"cache_control": {"type": "ephemeral"}}
BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

Claude = Callable[..., subprocess.CompletedProcess[str]]


def request_of_its_shape(prompt: str) -> dict[str, Any]:
    """Every field that version 2.1 sends; the texts are ours."""
    return {
        "model": "claude-local",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "Be an agent."}, {"type": "text", "text": "Use tools.", **CACHED}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Today."}, {"type": "text", "text": prompt, **CACHED}],
            },
            {"role": "system", "content": "There are these agents."},
        ],
        "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema": BASH}],
        "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
    }


def test_a_request_of_its_shape_calls_a_tool(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    rogue.forget()
    asked = request_of_its_shape('call Bash {"command": "ls"}')
    with Call(f"{gateway.url}/v1/messages?beta=true", asked, HEADERS) as call:
        events = [json.loads(event.rpartition("data: ")[2]) for event in call.events() if not event.startswith(":")]
    started = next(event["content_block"] for event in events if event["type"] == "content_block_start")
    pieces = [event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"]
    assert (started["type"], started["name"]) == ("tool_use", "Bash")
    assert json.loads("".join(pieces)) == {"command": "ls"}
    assert events[-1]["type"] == "message_stop"


def test_the_system_speaks_at_the_beginning_alone(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    """Chat templates of many models refuse it later."""
    rogue.forget()
    with Call(f"{gateway.url}/v1/messages", request_of_its_shape("say yes"), HEADERS) as call:
        call.read()
    told = json.loads(rogue.log()["requests"][-1]["body"])["messages"]
    assert [message["role"] for message in told] == ["system", "user"]
    assert told[1]["content"] == "Today.\n\nsay yes\n\n<system>\nThere are these agents.\n</system>"


def test_an_engine_of_the_same_api_is_spoken_to_in_chat_words_then(rogue: RogueProcess, tmp_path: Path) -> None:
    rogue.forget()
    sections = {"tier_a": {"endpoints": ["messages", "chat/completions"]}}
    plain = {**request_of_its_shape("say yes"), "model": "rogue", "tools": []}
    with GatewayProcess(tmp_path, {"rogue": rogue.url}, sections=sections) as gateway:
        gateway.ready()
        for asked in (plain, {**plain, "messages": plain["messages"][:1]}):
            with Call(f"{gateway.url}/v1/messages", asked, HEADERS) as call:
                assert call.status == 200
                call.read()
    assert [one["path"] for one in rogue.log()["requests"]] == ["/v1/chat/completions", "/v1/messages"]


def test_a_prompt_that_is_too_long_is_told_so_that_it_is_cut_short(embedded: EmbeddedGateway) -> None:
    with (
        anthropic.Anthropic(base_url=embedded.url, api_key="none", max_retries=0) as client,
        pytest.raises(anthropic.BadRequestError, match="prompt is too long: messages has"),
    ):
        client.messages.create(model="auto", max_tokens=9, messages=[{"role": "user", "content": "word " * 1500}])


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wrapper script of the package, as npm installs it today."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not here, and no target of ours installs them")
    folder = tmp_path_factory.mktemp("npm")
    words = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    quiet = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
    # Whoever has npm gets these tests: an index that gives nothing is a failure, and no reason to look away.
    done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False, env=quiet)
    script = folder / "node_modules" / PACKAGE / "cli-wrapper.cjs"
    assert done.returncode == 0, done.stderr[-500:]
    assert script.exists()
    return script


@pytest.fixture
def claude(installed: Path, tmp_path: Path) -> Claude:
    """Runs it with a home of its own, where nothing but loopback can be reached."""

    def run(url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            **variables,
        }
        return subprocess.run(
            ["node", str(installed), "-p", *words],
            capture_output=True,
            text=True,
            timeout=100,
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return run


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_S + 120)
def test_it_answers_under_its_own_models_name(claude: Claude, gateway: GatewayProcess) -> None:
    done = claude(gateway.url, "say hello there")
    assert (done.stdout.strip(), done.returncode) == ("hello there", 0), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_S + 120)
def test_its_tools_run_and_their_results_come_back(claude: Claude, gateway: GatewayProcess, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    write = json.dumps({"file_path": str(note), "content": "written by a tool"})
    prompt = f'call Write {write}\ncall Bash {{"command": "echo $((40 + 2))"}}'
    done = claude(gateway.url, prompt, "--allowedTools", "Write", "Bash")
    assert note.read_text() == "written by a tool"
    assert done.stdout.startswith("The tools said: ")
    assert done.stdout.rstrip().endswith("; 42")


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_S + 240)
def test_the_default_model_answers_without_tools_and_says_that_it_takes_none(
    claude: Claude, embedded: EmbeddedGateway
) -> None:
    words = ("Why is the sky blue?", "--system-prompt", "Answer in one sentence.")
    model = {"ANTHROPIC_MODEL": "auto", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "400"}
    # How long so small a model talks is chance, and past the limit Claude Code exits with 1.
    asked = (claude(embedded.url, *words, "--tools", "", **model) for _ in range(ASKED_MOST))
    answer = next(each for each in asked if each.returncode == 0 or "output token maximum" not in each.stdout)
    assert (answer.returncode, bool(answer.stdout.strip())) == (0, True), answer.stderr
    poll(lambda: _answered_whole(embedded), what="no whole answer of the Messages door is in the log")
    refused = claude(embedded.url, *words, **model)
    assert refused.returncode == 1
    assert "takes no tools" in refused.stdout + refused.stderr


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_S + 120)
def test_a_wrong_key_is_told_at_once(claude: Claude, rogue: RogueProcess, tmp_path: Path) -> None:
    """Left to itself, it asks ten times in three minutes."""
    with GatewayProcess(tmp_path / "gateway", {"rogue": rogue.url}, arguments=("--new-key",)) as gateway:
        done = claude(gateway.ready().url, "say yes")
    assert done.returncode == 1
    assert "401 this gateway wants its key" in done.stdout + done.stderr


def _answered_whole(gateway: EmbeddedGateway) -> bool:
    with Call(f"{gateway.url}/v1/ledger?kind=request&limit=1000") as call:
        records = call.json()["records"]
    return any((one["endpoint"], one["status"], one["outcome"]) == ("/messages", 200, "ok") for one in records)
