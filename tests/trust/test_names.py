"""Names that clients insist on, at every door, with the SDKs that insist on them."""

import json
from collections.abc import Callable
from pathlib import Path

import openai
import pytest
from anthropic import Anthropic, NotFoundError
from lumbre_process import Lumbre
from openai import OpenAI

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import Call

ALIASES = """
[models.alias]
"gpt-*" = "auto"
"gpt-4o-mini*" = "rogue-answer"
"claude-*" = "tier-a"
"text-embedding-*" = "rogue"
"rogue-*" = "rogue-html"
"big" = { A = "rogue", C = "gpt-4o" }
"cloud" = { C = "gpt-4o" }
"mistral-?b[12]" = "rogue"
"gone-*" = "no-such-model"
"lost" = "no-such-model"
"again" = "big"
"""

pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated")

Ask = Callable[[GatewayProcess, str], str]


def oai(gateway: GatewayProcess) -> OpenAI:
    return OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=30)


def _chat(gateway: GatewayProcess, model: str) -> str:
    with oai(gateway) as client:
        reply = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
        return reply.choices[0].message.content or ""


def _chat_stream(gateway: GatewayProcess, model: str) -> str:
    with oai(gateway) as client:
        stream = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}], stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def _completion(gateway: GatewayProcess, model: str) -> str:
    with oai(gateway) as client:
        return client.completions.create(model=model, prompt="hi").choices[0].text


def _response(gateway: GatewayProcess, model: str) -> str:
    with oai(gateway) as client:
        return client.responses.create(model=model, input="hi").output_text


def _message(gateway: GatewayProcess, model: str) -> str:
    with Anthropic(base_url=gateway.url, api_key="none", max_retries=0, timeout=30) as client:
        reply = client.messages.create(model=model, max_tokens=9, messages=[{"role": "user", "content": "hi"}])
        return "".join(part.text for part in reply.content if part.type == "text")


def _embedding(gateway: GatewayProcess, model: str) -> str:
    with oai(gateway) as client:
        return str(client.embeddings.create(model=model, input="hi").data[0].embedding)


DOORS: dict[str, tuple[Ask, str]] = {
    "chat": (_chat, "word0 word1 word2 "),
    "chat stream": (_chat_stream, "word0 word1 word2 "),
    "completions": (_completion, "word0 word1 word2 "),
    "responses": (_response, "word0 word1 word2 "),
    "messages": (_message, "word0 word1 word2 "),
    "embeddings": (_embedding, "[2.0, 104.0, 0.25]"),
}

NAMES = {
    "gpt-4o": "rogue",
    "claude-sonnet-4-5": "rogue",
    "text-embedding-3-small": "rogue",
    "big": "rogue",
    "mistral-7b2": "rogue",
    "rogue": "rogue",
}


@pytest.fixture(scope="module")
def named(open_for_module: Opener) -> GatewayProcess:
    return open_for_module(toml=ALIASES).ready()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("door", DOORS)
def test_a_name_that_a_client_insists_on_works_at_every_door(
    named: GatewayProcess, rogue: RogueProcess, door: str, name: str
) -> None:
    ask, answer = DOORS[door]
    assert ask(named, name) == answer
    (request,) = rogue.log()["requests"]
    assert json.loads(request["body"])["model"] == NAMES[name]


def test_the_pattern_with_the_most_letters_wins_and_a_served_model_wins_over_all(
    named: GatewayProcess, rogue: RogueProcess
) -> None:
    _chat(named, "gpt-4o-mini-2024")
    _chat(named, "rogue-answer")  # `rogue-*` leads elsewhere, and this one is served
    asked = [json.loads(request["body"])["model"] for request in rogue.log()["requests"]]
    assert asked == ["rogue-answer", "rogue-answer"]
    with oai(named) as client, pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="rogue-new", messages=[{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["llama-9", "GPT-4o", "mistral-7b3", "gone-1"])
def test_a_name_that_leads_nowhere_is_a_404_that_tells_the_way_out(
    named: GatewayProcess, rogue: RogueProcess, door: str, name: str
) -> None:
    ask, _ = DOORS[door]
    with pytest.raises((openai.NotFoundError, NotFoundError), match=r"\[models\.alias\]") as caught:
        ask(named, name)
    assert isinstance(caught.value, openai.NotFoundError | NotFoundError)
    assert name in str(caught.value)
    error = caught.value.response.json()["error"]
    assert {"auto", "tier-a", "rogue"} <= set(error["lumbre"]["valid"])
    assert error.get("code", error["lumbre"].get("code")) == "model_not_found"
    assert rogue.log()["seen"] == 0


def test_a_name_for_a_tier_that_is_not_there_says_so(named: GatewayProcess) -> None:
    with oai(named) as client, pytest.raises(openai.PermissionDeniedError, match="tier C is not configured") as caught:
        client.responses.create(model="cloud", input="hi")
    assert caught.value.code == "tier_c_not_designated"


def test_the_list_has_the_names_that_are_no_patterns(named: GatewayProcess) -> None:
    with oai(named) as client:
        listed = [model.id for model in client.models.list()]
        assert listed[:2] == ["auto", "rogue"]
        assert "big" in listed
        assert not {"cloud", "lost", "again"} & set(listed), "a name is listed that cannot be asked for"
        assert not any(mark in name for name in listed for mark in "*?[")
        for name in ("big", "gpt-5", "claude-opus-4-1", "rogue", "auto"):
            assert client.models.retrieve(name).id == name
        for name in ("llama-9", "cloud", "lost", "again", "gone-1"):
            with pytest.raises(openai.NotFoundError, match=r"\[models\.alias\]"):
                client.models.retrieve(name)
    with Anthropic(base_url=named.url, api_key="none", max_retries=0) as anthropic:
        assert [model.id for model in anthropic.models.list()] == listed
        assert anthropic.models.retrieve("claude-opus-4-1").type == "model"


def test_the_log_says_by_which_alias_a_request_came(named: GatewayProcess) -> None:
    with named.chat({"model": "claude-haiku"}) as call:
        decision = call.header("x-lumbre-decision")
        call.read()
    (found,) = (record for record in named.ledger(decision) if record["kind"] == "request")
    assert any("claude-*" in reason for reason in found["reasons"])
    assert found["model_asked"] == "claude-*"


def test_a_variable_sets_the_names_too(open_gateway: Opener, rogue: RogueProcess) -> None:
    told = {"LUMBRE_MODELS_ALIAS": '{ "gpt-*" = "auto", "o3" = "rogue-answer" }'}
    gateway = open_gateway(environ=told).ready()
    assert _chat(gateway, "gpt-4o") == _chat(gateway, "o3")
    assert json.loads(rogue.log()["requests"][1]["body"])["model"] == "rogue-answer"


@pytest.fixture
def lumbre(tmp_path: Path) -> Lumbre:
    return Lumbre(tmp_path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('"gpt-*" = 7', "a model"),
        ('"gpt-*" = ""', "a model"),
        ('"gpt-*" = "tier-z"', "there is no such tier"),
        ('"gpt-*" = { D = "x" }', "there is no such tier"),
        ('"gpt-*" = { A = 7 }', "the name of a model"),
        ('"" = "auto"', "must not be empty"),
    ],
)
def test_config_check_names_the_line_of_a_wrong_alias(lumbre: Lumbre, line: str, why: str) -> None:
    (lumbre.home / "lumbre.toml").write_text(f'[models.alias]\n"claude-*" = "auto"\n{line}\n', encoding="utf-8")
    done = lumbre.run("config", "check")
    assert (done.returncode, done.stdout) == (3, "")
    assert "lumbre.toml:3: models.alias" in done.stderr
    assert why in done.stderr


def test_tokens_are_counted_under_these_names_too(named: GatewayProcess, rogue: RogueProcess) -> None:
    for name, status in (("claude-opus-4-1", 200), ("llama-9", 404)):
        asked = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
        with Call(f"{named.url}/v1/messages/count_tokens", asked) as call:
            assert call.status == status, call.read()
            call.read()
    assert rogue.log()["seen"] == 0
