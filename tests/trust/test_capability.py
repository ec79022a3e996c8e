"""What an upstream cannot do is told before any work is done: which limit, by the caller's field, and the way out."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import poll

MODEL = "rogue"
LONG = "word " * 1200
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": LONG}]}
TOOLS = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


def as_llama(rogue: RogueProcess, *, context: int = 5000, tools: bool = True, vision: bool = False) -> RogueProcess:
    """Let it look like llama.cpp, which counts every prompt as 6000 tokens."""
    rogue.lay("/v1/models", {"data": [{"id": MODEL, "owned_by": "llamacpp"}]})
    rogue.lay(
        "/props",
        {
            "default_generation_settings": {"n_ctx": context},
            "modalities": {"vision": vision},
            "chat_template_caps": {"supports_tools": tools, "supports_tool_calls": tools},
        },
    )
    rogue.lay("/v1/chat/completions/input_tokens", {"input_tokens": 6000})
    rogue.lay("/tokenize", {"tokens": list(range(6000))})
    return rogue


def as_vllm(rogue: RogueProcess, *, context: int = 5000) -> RogueProcess:
    """Let it look like vLLM, which counts every prompt as 6000 tokens."""
    rogue.lay("/v1/models", {"data": [{"id": MODEL, "owned_by": "vllm", "max_model_len": context}]})
    rogue.lay("/tokenize", {"count": 6000, "max_model_len": context})
    return rogue


def counted(rogue: RogueProcess) -> list[dict[str, Any]]:
    """The prompts that the engine was asked to count."""
    return [page for page in rogue.log()["pages"] if page["method"] == "POST"]


def upstream(rogue: RogueProcess, upstream_id: str, **values: Any) -> str:
    """One more upstream of tier A, with what the settings say of it."""
    told = {"id": upstream_id, "base_url": f"{rogue.url}/v1", **values}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in told.items())
    return f"[[tier_a.upstreams]]\n{lines}\n"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RogueProcess]:
    """A rogue of the test's own, which may look like another engine."""
    with RogueProcess(tmp_path) as process:
        yield process


KINDS: dict[str, tuple[Callable[[RogueProcess], RogueProcess], dict[str, Any]]] = {
    "llama.cpp": (as_llama, {}),
    "vLLM": (as_vllm, {}),
    "settings": (lambda rogue: as_llama(rogue, context=8000), {"context_tokens": 5000}),
}


@pytest.fixture(params=KINDS)
def narrow(request: pytest.FixtureRequest, open_gateway: Opener, engine: RogueProcess) -> GatewayProcess:
    """A gateway whose engine has a context of 5000 tokens, known in one way or another."""
    disguise, values = KINDS[request.param]
    disguise(engine)
    return open_gateway(upstreams={}, toml=upstream(engine, "narrow", **values)).ready()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(
    narrow: GatewayProcess, engine: RogueProcess, stream: bool
) -> None:
    with narrow.chat({**CHAT, "stream": stream}) as call:
        assert call.status == 400
        error = call.error()
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert "6000 tokens" in error["message"]
    assert "5000" in error["message"]
    assert engine.log()["seen"] == 0


def test_every_door_tells_it_in_its_own_words(narrow: GatewayProcess, engine: RogueProcess) -> None:
    with OpenAI(base_url=f"{narrow.url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError, match=r"6000 tokens.*5000") as response:
            client.responses.create(model=MODEL, input=LONG)
        with pytest.raises(openai.BadRequestError, match=r"6000 tokens.*5000") as completion:
            client.completions.create(model=MODEL, prompt=LONG)
    assert (response.value.code, response.value.param) == ("context_length_exceeded", "input")
    assert (completion.value.code, completion.value.param) == ("context_length_exceeded", "prompt")
    with (
        Anthropic(base_url=narrow.url, api_key="none", max_retries=0) as client_a,
        pytest.raises(anthropic.BadRequestError, match=r"6000 tokens.*5000") as message,
    ):
        client_a.messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": LONG}])
    error = message.value.response.json()["error"]
    assert (error["type"], error["lumbre"]["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert engine.log()["seen"] == 0


def test_a_short_prompt_is_not_even_counted(narrow: GatewayProcess, engine: RogueProcess) -> None:
    with narrow.chat({"stream": True}) as call:
        assert call.status == 200
        call.read()
    assert counted(engine) == []
    assert engine.log()["seen"] == 1


def test_the_engines_own_tokenizer_has_the_last_word(open_gateway: Opener, engine: RogueProcess) -> None:
    as_llama(engine, context=6001)
    gateway = open_gateway(upstreams={"llama": engine.url}).ready()
    with gateway.chat({**CHAT, "tools": TOOLS, "stream": True}) as call:
        assert call.status == 200
        call.read()
    (asked,) = counted(engine)
    body = json.loads(asked["body"])
    assert (asked["path"], body["messages"], body["tools"]) == (
        "/v1/chat/completions/input_tokens",
        CHAT["messages"],
        TOOLS,
    )
    assert engine.log()["seen"] == 1


def test_an_engine_that_will_not_count_gets_the_request(open_gateway: Opener, engine: RogueProcess) -> None:
    as_llama(engine)
    engine.lay("/v1/chat/completions/input_tokens", {"error": {"message": "not today"}}, status=500)
    gateway = open_gateway(upstreams={"llama": engine.url}).ready()
    with gateway.chat({**CHAT, "stream": True}) as call:
        assert call.status == 200
        call.read()
    assert engine.log()["seen"] == 1


@pytest.mark.parametrize(("prompts", "place"), [(["hi", LONG], "prompt[1]"), ([LONG], "prompt[0]")], ids=["2", "1"])
def test_the_longest_of_several_prompts_is_counted_and_named(
    narrow: GatewayProcess, engine: RogueProcess, prompts: list[str], place: str
) -> None:
    with (
        OpenAI(base_url=f"{narrow.url}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match=r"6000 tokens.*5000") as caught,
    ):
        client.completions.create(model=MODEL, prompt=prompts)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", place)
    (asked,) = counted(engine)
    body = json.loads(asked["body"])
    assert body.get("content", body.get("prompt")) == LONG
    assert engine.log()["seen"] == 0


def test_an_engine_counts_nothing_for_a_request_that_is_turned_away(
    open_gateway: Opener, engine: RogueProcess, name: str
) -> None:
    as_llama(engine, context=7000)
    gateway = open_gateway(upstreams={"llama": engine.url}, slots=1, sections={"limits": {"waiting": 0}}).ready()
    with gateway.chat({"stream": True, "rogue": {"id": name, "hold": True}}) as first:
        engine.wait(name, "held")
        with gateway.chat(CHAT) as call:
            assert (call.status, call.error()["code"]) == (429, "saturated")
        assert counted(engine) == []
        engine.release(name, 20)
        first.read()
    with gateway.chat({**CHAT, "stream": True}) as call:
        assert call.status == 200
        call.read()
    assert len(counted(engine)) == 1


def test_it_is_refused_at_once_while_every_slot_is_taken(open_gateway: Opener, engine: RogueProcess, name: str) -> None:
    as_llama(engine, tools=False)
    gateway = open_gateway(upstreams={"llama": engine.url}, slots=1, sections={"limits": {"wait_s": 30}}).ready()
    with gateway.chat({"stream": True, "rogue": {"id": name, "hold": True}}) as first:
        engine.wait(name, "held")
        for asked in (CHAT, {"tools": TOOLS}):
            with gateway.chat(asked, deadline_s=5) as call:
                assert call.status == 400
                call.read()
        assert gateway.busy() == (1, 0)
        engine.release(name, 20)
        assert first.status == 200
        first.read()
    assert engine.log()["seen"] == 1


LACKS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "tools": ({"tools": False}, {"tools": TOOLS}, "tools", "tool_choice"),
    "images": (
        {"images": False},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, IMAGE]}]},
        "messages[0].content[1].type",
        "images = true",
    ),
    "schema": ({"json_schema": False}, {"response_format": SCHEMA}, "response_format", "json_object"),
    "endpoint": ({"endpoints": ["completions"]}, {}, "model", "/v1/completions"),
}


@pytest.mark.parametrize("case", LACKS)
def test_what_the_settings_deny_is_refused_with_the_way_out(
    open_gateway: Opener, rogue: RogueProcess, case: str
) -> None:
    lacks, asked, param, way_out = LACKS[case]
    gateway = open_gateway(sections={"tier_a": lacks}).ready()
    with gateway.chat(asked) as call:
        assert call.status == 400
        error = call.error()
    assert (error["code"], error["param"]) == (
        "unsupported_endpoint" if case == "endpoint" else "unsupported_field",
        param,
    )
    assert way_out in error["message"]
    assert rogue.log()["seen"] == 0


@pytest.mark.parametrize("case", LACKS)
def test_another_upstream_that_can_gets_it(
    open_gateway: Opener, rogue: RogueProcess, engine: RogueProcess, case: str
) -> None:
    lacks, asked, _, _ = LACKS[case]
    both = upstream(engine, "cannot", **lacks) + upstream(rogue, "can")
    gateway = open_gateway(upstreams={}, toml=both).ready()
    poll(lambda: [one["state"] for one in gateway.tier_a()["upstreams"]] == ["ready", "ready"])
    for _ in range(4):
        with gateway.chat({**asked, "rogue": {"text": "{}"}}) as call:
            assert (call.status, call.header("x-lumbre-node")) == (200, "can")
            call.read()
    assert engine.log()["seen"] == 0


def test_a_long_prompt_goes_where_it_fits(open_gateway: Opener, rogue: RogueProcess, engine: RogueProcess) -> None:
    as_llama(engine)
    gateway = open_gateway(upstreams={"short": engine.url, "long": rogue.url}).ready()
    poll(lambda: [one["state"] for one in gateway.tier_a()["upstreams"]] == ["ready", "ready"])
    for _ in range(4):
        with gateway.chat(CHAT) as call:
            assert (call.status, call.header("x-lumbre-node")) == (200, "long")
            call.read()
    assert engine.log()["seen"] == 0


def test_what_nobody_knows_refuses_nothing(gateway: GatewayProcess, rogue: RogueProcess) -> None:
    parts = [{"type": "text", "text": LONG}, IMAGE]
    asked = {"messages": [{"role": "user", "content": parts}], "tools": TOOLS, "response_format": SCHEMA}
    with gateway.chat({**asked, "rogue": {"text": "{}"}}) as call:
        assert call.status == 200
        call.read()
    log = rogue.log()
    assert (log["seen"], log["pages"]) == (1, [])
    assert json.loads(log["requests"][0]["body"])["messages"] == asked["messages"]


def test_the_settings_win_over_what_the_engine_says(open_gateway: Opener, engine: RogueProcess) -> None:
    as_llama(engine, tools=False)
    gateway = open_gateway(upstreams={"llama": engine.url}, sections={"tier_a": {"tools": True}}).ready()
    with gateway.chat({"tools": TOOLS, "stream": True}) as call:
        assert call.status == 200
        call.read()
    assert engine.log()["seen"] == 1


def test_tools_are_told_by_the_field_of_each_door(open_gateway: Opener, engine: RogueProcess) -> None:
    as_llama(engine, tools=False)
    gateway = open_gateway(upstreams={"llama": engine.url}).ready()
    tool: Any = {"type": "function", "name": "lookup", "parameters": {"type": "object"}, "strict": False}
    image: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as tools:
            client.responses.create(model=MODEL, input="hi", tools=[tool])
        with pytest.raises(openai.BadRequestError) as images:
            client.responses.create(model=MODEL, input=image)
    assert (tools.value.code, tools.value.param) == ("unsupported_field", "tools")
    assert (images.value.code, images.value.param) == ("unsupported_field", "input[0].content[0].type")
    assert engine.log()["seen"] == 0


SLOW_SERVER = """
import http.server, json, os, sys
port, go, log = int(sys.argv[1]), sys.argv[2], sys.argv[3]
PROPS = {"default_generation_settings": {"n_ctx": 4096}, "chat_template_caps": {"supports_tools": False}}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, status, body):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
    def do_GET(self):
        if not os.path.exists(go):
            self.reply(503, {"status": "loading"})
        elif self.path == "/props":
            self.reply(200, PROPS)
        else:
            self.reply(200, {"status": "ok", "data": [{"id": "own", "owned_by": "llamacpp"}]})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with open(log, "a") as file:
            file.write(self.path + "\\n")
        self.reply(500, {"error": {"message": "it was to be refused"}})
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def test_tokens_are_counted_once_an_engine_is_up_that_starts_still(open_gateway: Opener, tmp_path: Path) -> None:
    server, go, log = tmp_path / "server.py", tmp_path / "go", tmp_path / "posts"
    server.write_text(SLOW_SERVER)
    config = {"backend": "command", "command": [sys.executable, str(server), "{port}", str(go), str(log)]}
    gateway = open_gateway(upstreams={}, sections={"tier_a": config}).listening()
    asked = {"model": "auto", "messages": [{"role": "user", "content": "hi"}]}
    with gateway.get("/v1/messages/count_tokens", body=asked) as call:
        poll(lambda: gateway.busy() == (0, 1), what="the request does not wait")
        go.touch()
        assert call.status == 200
        assert call.json()["input_tokens"] > 0
    assert log.read_text().splitlines() == ["/v1/chat/completions/input_tokens"]


def test_who_waited_for_an_engine_that_turns_out_to_lack_something_is_refused_alike(
    open_gateway: Opener, tmp_path: Path
) -> None:
    server, go, log = tmp_path / "server.py", tmp_path / "go", tmp_path / "posts"
    server.write_text(SLOW_SERVER)
    config = {"backend": "command", "command": [sys.executable, str(server), "{port}", str(go), str(log)]}
    gateway = open_gateway(upstreams={}, sections={"tier_a": config}).listening()
    with gateway.chat({"model": "auto", "tools": TOOLS}) as call:
        poll(lambda: gateway.busy() == (0, 1), what="the request does not wait")
        go.touch()
        assert call.status == 400
        error = call.error()
    assert (error["code"], error["param"]) == ("unsupported_field", "tools")
    assert not log.exists()
