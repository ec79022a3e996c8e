"""Embeddings with the real SDK: in order, in either encoding, from upstreams of tier A or of their own."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from gateway_process import GatewayProcess, Opener
from lumbre.backends.fakes.rogue.vectors import vector_of
from rogue_process import RogueProcess
from wire_client import Call, poll

WITHIN_S = 1.0
MODEL = "rogue"
TEXTS = ["first", "a second text", "third: ñandú", "4"]


def sdk(gateway: GatewayProcess) -> OpenAI:
    return OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=30)


def vectors(client: OpenAI, given: Any, **more: Any) -> list[list[float]]:
    reply = client.embeddings.create(model=more.pop("model", MODEL), input=given, **more)
    assert [entry.index for entry in reply.data] == list(range(len(reply.data)))
    return [entry.embedding for entry in reply.data]


def own(rogue: RogueProcess, **more: str) -> str:
    """The settings of an upstream for embeddings alone."""
    lines = {"id": "vectors", "base_url": f"{rogue.url}/v1", **more}
    values = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
    return f'[embeddings]\nbackend = "openai"\n[[embeddings.upstreams]]\n{values}\n'


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[OpenAI]:
    with sdk(gateway) as made:
        yield made


@pytest.fixture
def second(tmp_path: Path) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path) as process:
        yield process


@pytest.fixture
def llama(tmp_path: Path) -> Iterator[RogueProcess]:
    """A rogue that is taken for llama.cpp, which cannot be cancelled inside a call for embeddings."""
    with RogueProcess(tmp_path) as process:
        process.lay("/v1/models", {"data": [{"id": MODEL, "owned_by": "llamacpp"}]})
        process.lay("/props", {})
        yield process


def test_texts_come_back_in_their_order_whatever_the_encoding(client: OpenAI, rogue: RogueProcess, name: str) -> None:
    expected = [vector_of(text) for text in TEXTS]
    assert vectors(client, TEXTS, extra_body={"rogue": {"id": name}}) == expected
    assert json.loads(rogue.find(name)["body"])["encoding_format"] == "base64"
    assert vectors(client, TEXTS, encoding_format="float") == expected
    assert vectors(client, TEXTS[0]) == expected[:1]


def test_tokens_are_inputs_too(client: OpenAI) -> None:
    assert vectors(client, [7, 8, 9]) == [vector_of([7, 8, 9])]
    assert vectors(client, [[7, 8], [9]]) == [vector_of([7, 8]), vector_of([9])]


@pytest.mark.parametrize("encoding", ["base64", "float"])
def test_an_engine_that_knows_only_floats_is_made_good(gateway: GatewayProcess, encoding: str) -> None:
    asked = {"model": MODEL, "input": TEXTS, "encoding_format": encoding, "rogue": {"vendor": True}}
    with Call(f"{gateway.url}/v1/embeddings", asked) as call:
        assert call.status == 200
        assert call.header("x-lumbre-node") == "rogue"
        data = call.json()["data"]
    assert {type(entry["embedding"]) for entry in data} == {str if encoding == "base64" else list}
    with sdk(gateway) as client:
        assert vectors(client, TEXTS, extra_body={"rogue": {"vendor": True}}) == [vector_of(text) for text in TEXTS]


def test_usage_is_told_and_counted(gateway: GatewayProcess) -> None:
    def counted() -> float:
        return gateway.metric("lumbre_tokens_total", kind="prompt", estimated="false", node="rogue")

    before = counted()
    with sdk(gateway) as client:
        usage = client.embeddings.create(model=MODEL, input=TEXTS).usage
    assert (usage.prompt_tokens, usage.total_tokens) == (28, 28)
    poll(lambda: counted() == before + 28, what="the tokens were not counted")


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", 7]}, "input[1]"),
        ({"input": [[7], [-1]]}, "input[1][0]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({}, "input"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    gateway: GatewayProcess, rogue: RogueProcess, asked: dict[str, Any], param: str
) -> None:
    whole = {"model": MODEL, **({"input": "hi"} if asked and "input" not in asked else {}), **asked}
    with Call(f"{gateway.url}/v1/embeddings", whole) as call:
        assert call.status == 400
        assert call.error()["param"] == param
    assert rogue.log()["seen"] == 0


def test_dimensions_that_the_engine_ignored_are_an_error_and_not_a_longer_vector(client: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="3 numbers where 2") as caught:
        vectors(client, TEXTS, dimensions=2)
    assert caught.value.status_code == 502
    assert vectors(client, TEXTS, dimensions=3) == [vector_of(text) for text in TEXTS]


def test_dimensions_are_refused_with_a_reason_where_the_engine_is_known_to_ignore_them(
    open_gateway: Opener, llama: RogueProcess
) -> None:
    gateway = open_gateway(upstreams={"llama": llama.url}).ready()
    with (
        sdk(gateway) as client,
        pytest.raises(openai.BadRequestError, match="the length that the model gives") as caught,
    ):
        vectors(client, TEXTS, dimensions=3)
    assert (caught.value.code, caught.value.param) == ("unsupported_field", "dimensions")
    assert llama.log()["seen"] == 0


def test_a_client_that_leaves_a_batch_costs_the_call_in_hand_and_no_other(
    open_gateway: Opener, llama: RogueProcess, name: str
) -> None:
    gateway = open_gateway(upstreams={"llama": llama.url}).ready()
    texts = ["x" * 600] * 20
    with sdk(gateway) as client:
        assert vectors(client, texts) == [vector_of(text) for text in texts]
    assert llama.log()["seen"] == 20
    llama.forget()
    asked = {"model": MODEL, "input": texts, "rogue": {"id": name, "do": "no_header"}}
    with Call(f"{gateway.url}/v1/embeddings", asked):
        llama.wait(name, "started")
        left_s = time.monotonic()
    assert llama.wait(name, "gone")["gone_s"] - left_s < WITHIN_S
    poll(lambda: gateway.busy() == (0, 0), 1)
    assert llama.log()["seen"] == 1


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ({"do": "cut"}, 502, "upstream_cut"),
        ({"do": "cut_before_head"}, 502, "upstream_cut"),
        ({"do": "not_json"}, 502, "upstream_cut"),
        ({"do": "wrong_json"}, 502, "engine_failed"),
        ({"do": "html", "status": 502}, 502, "engine_failed"),
        ({"do": "refuse", "status": 429}, 429, "rogue_429"),
        ({"do": "refuse", "status": 401}, 502, "engine_failed"),
        ({"do": "redirect"}, 502, "engine_failed"),
    ],
)
def test_an_engine_that_fails_is_told_on(gateway: GatewayProcess, how: dict[str, Any], status: int, code: str) -> None:
    with Call(f"{gateway.url}/v1/embeddings", {"model": MODEL, "input": TEXTS, "rogue": how}) as call:
        assert (call.status, call.error()["code"]) == (status, code)


def test_what_is_null_is_not_sent(gateway: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    nothing = dict.fromkeys(("encoding_format", "dimensions", "user"))
    asked = {"model": MODEL, "input": TEXTS, **nothing, "rogue": {"id": name}}
    with Call(f"{gateway.url}/v1/embeddings", asked) as call:
        assert call.status == 200
        assert [entry["embedding"] for entry in call.json()["data"]] == [vector_of(text) for text in TEXTS]
    assert not set(nothing) & set(json.loads(rogue.find(name)["body"]))


@pytest.mark.parametrize(("status", "code"), [(400, "upstream_refused"), (500, "engine_failed")])
def test_a_refusal_in_a_shape_of_the_engines_own_is_told_again_in_openais(
    open_gateway: Opener, llama: RogueProcess, status: int, code: str
) -> None:
    refusal = {"code": status, "message": "[json.exception.type_error.302] type must be string", "type": "server_error"}
    llama.lay("/v1/embeddings", {"error": refusal}, status=status)
    gateway = open_gateway(upstreams={"llama": llama.url}).ready()
    with Call(f"{gateway.url}/v1/embeddings", {"model": MODEL, "input": [[99999999]]}) as call:
        assert call.status == status
        error = call.error()
    assert (error["code"], error["param"], error["message"]) == (code, None, refusal["message"])
    assert gateway.metric("lumbre_requests_total", outcome="upstream_refused") == 1


def test_an_upstream_of_their_own_makes_them_and_is_shown(
    open_gateway: Opener, rogue: RogueProcess, second: RogueProcess
) -> None:
    gateway = open_gateway(toml=own(second, model="rogue-answer")).ready()
    with sdk(gateway) as client:
        assert vectors(client, TEXTS, model="auto") == [vector_of(text) for text in TEXTS]
        (request,) = second.log()["requests"]
        assert (request["path"], json.loads(request["body"])["model"]) == ("/v1/embeddings", "rogue-answer")
        assert rogue.log()["seen"] == 0
        client.chat.completions.create(model="auto", messages=[{"role": "user", "content": "hi"}])
    assert rogue.log()["seen"] == 1
    with gateway.get("/readyz") as call:
        document = call.json()
    assert (document["embeddings"]["state"], document["embeddings"]["upstreams"][0]["id"]) == ("ready", "vectors")
    assert gateway.metric("lumbre_requests_total", endpoint="/embeddings", node="vectors", outcome="ok") == 1
    assert gateway.metric("lumbre_in_flight", node="vectors") == 0


def test_their_upstream_may_be_down_while_chat_goes_on(open_gateway: Opener, second: RogueProcess, name: str) -> None:
    gateway = open_gateway(toml=own(second), breaker={"probe_s": 0.2, "failures": 2}).ready()
    with sdk(gateway) as client:
        assert vectors(client, "x") == [vector_of("x")]
        second.kill()

        def is_down() -> bool:
            with gateway.get("/readyz") as call:
                assert call.status == 200  # an unlabelled request is served all the same
                return bool(call.json()["embeddings"]["state"] == "down")

        poll(is_down, what="the loss of the upstream is not shown")
        with pytest.raises(openai.InternalServerError) as caught:
            vectors(client, "x")
        assert (caught.value.status_code, caught.value.code) == (503, "no_tier")
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], extra_body={"rogue": {"id": name}}
        )


def test_they_can_be_switched_off_with_a_reason(open_gateway: Opener, rogue: RogueProcess) -> None:
    gateway = open_gateway(sections={"embeddings": {"backend": "off"}}).ready()
    with sdk(gateway) as client, pytest.raises(openai.NotFoundError, match=r'\[embeddings\] backend = "off"') as caught:
        vectors(client, TEXTS)
    assert caught.value.code == "unsupported_endpoint"
    assert rogue.log()["seen"] == 0
    with gateway.get("/readyz") as call:
        assert call.json()["embeddings"] == {"state": "off", "reasons": [], "waiting": 0, "upstreams": []}


def test_embeddings_take_slots_as_chat_does(open_gateway: Opener, rogue: RogueProcess, name: str) -> None:
    gateway = open_gateway(slots=1, sections={"limits": {"waiting": 0}}).ready()
    with Call(
        f"{gateway.url}/v1/embeddings", {"model": MODEL, "input": "x", "rogue": {"id": name, "hold": True}}
    ) as call:
        rogue.wait(name, "held")
        with gateway.chat() as refused:
            assert (refused.status, refused.error()["code"]) == (429, "saturated")
        rogue.release(name)
        assert call.status == 200
        call.read()
