"""Embeddings of the embedded model: made in a process of its own that starts when it is first needed."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import psutil
import pytest
from openai import OpenAI

from embedded_gateway import EmbeddedGateway
from engine_use import last_use_at, used_s
from wire_client import Call, poll

MODEL = "smollm2-135m-instruct"
TOML = "[embeddings]\ncontext_tokens = 256\n"
LONG = "the sea and its tides, " * 20


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedGateway]:
    """A gateway whose second engine is this module's, for others count the engines of theirs."""
    with EmbeddedGateway(tmp_path_factory.mktemp("embeddings"), MODEL, toml=TOML) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def vectors_of(own: EmbeddedGateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{own.url}/v1", api_key="none", max_retries=0, timeout=60) as made:
        yield made


def engines(gateway: EmbeddedGateway) -> list[psutil.Process]:
    """The chat engine, and then the other where it runs."""
    return sorted(psutil.Process(gateway.process.pid).children(), key=lambda process: process.create_time())


def state(gateway: EmbeddedGateway) -> str:
    with Call(f"{gateway.url}/readyz") as call:
        assert call.status == 200
        return str(call.json()["embeddings"]["state"])


def likeness(one: list[float], other: list[float]) -> float:
    """The cosine of the angle between two vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


def ask(gateway: EmbeddedGateway, given: Any, **more: Any) -> Call:
    return Call(f"{gateway.url}/v1/embeddings", {"input": given, **more}, deadline_s=60)


def test_the_first_request_starts_it_and_many_at_once_start_it_once(own: EmbeddedGateway) -> None:
    assert len(engines(own)) == 1
    assert state(own) == "stopped"

    def one(number: int) -> int:
        with ask(own, f"text {number}") as call:
            return call.status if call.json()["data"][0]["embedding"] else 0

    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(one, range(20))) == [200] * 20
    assert len(engines(own)) == 2
    assert state(own) == "ready"
    log = (own.state_dir / "logs" / "embeddings.log").read_text()
    assert log.count("default pooling_type") == 1, "llama.cpp says this at every start"


def test_the_sdks_own_encoding_and_floats_are_the_same_vectors(vectors_of: OpenAI) -> None:
    packed = vectors_of.embeddings.create(model=MODEL, input="hello")
    plain = vectors_of.embeddings.create(model="auto", input="hello", encoding_format="float")
    assert len(packed.data[0].embedding) == 576
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-5)
    assert packed.model == MODEL
    assert packed.usage.prompt_tokens == plain.usage.prompt_tokens > 0


def test_a_batch_has_its_vectors_in_order(vectors_of: OpenAI) -> None:
    texts = [f"{word} " * 30 for word in ("ship", "stone", "cloud", "drum", "fox", "lamp", "moss", "rope")] + ["x"]
    batch = [entry.embedding for entry in vectors_of.embeddings.create(model=MODEL, input=texts).data]
    alone = [vectors_of.embeddings.create(model=MODEL, input=text).data[0].embedding for text in texts]
    for number, vector in enumerate(batch):
        assert likeness(vector, alone[number]) > 0.999
        others = [likeness(vector, other) for place, other in enumerate(alone) if place != number]
        assert max(others) < likeness(vector, alone[number])


def test_like_texts_are_nearer_than_unlike_ones(vectors_of: OpenAI) -> None:
    reply = vectors_of.embeddings.create(
        model=MODEL,
        input=[
            "The cat is sleeping on the sofa.",
            "A kitten naps on the couch.",
            "Interest rates were raised by the central bank.",
        ],
    )
    cat, kitten, bank = (entry.embedding for entry in reply.data)
    assert likeness(cat, kitten) > likeness(cat, bank)
    assert likeness(cat, kitten) > likeness(kitten, bank)


def test_tokens_are_inputs_too(vectors_of: OpenAI) -> None:
    one = vectors_of.embeddings.create(model=MODEL, input=[19556, 905])
    two = vectors_of.embeddings.create(model=MODEL, input=[[19556, 905], [905]])
    assert likeness(one.data[0].embedding, two.data[0].embedding) > 0.999
    assert len(two.data) == 2


@pytest.mark.parametrize(
    ("given", "param"),
    [("word " * 400, "input"), (["short", "word " * 400, "short"], "input[1]"), ([[905] * 300], "input[0]")],
    ids=["one text", "the second of three", "tokens"],
)
def test_a_text_that_is_too_long_is_refused_with_its_place(own: EmbeddedGateway, given: Any, param: str) -> None:
    with ask(own, given) as call:
        assert call.status == 400
        error = call.error()
    assert (error["code"], error["param"]) == ("context_length_exceeded", param)
    assert "256" in error["message"]


def test_a_text_as_long_as_the_context_is_taken(own: EmbeddedGateway) -> None:
    with ask(own, [[905] * 250]) as call:
        assert call.status == 200, call.read()
        call.read()


def test_dimensions_are_refused_with_a_reason(vectors_of: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="the length that the model gives") as caught:
        vectors_of.embeddings.create(model=MODEL, input="hello", dimensions=128)
    assert (caught.value.code, caught.value.param) == ("unsupported_field", "dimensions")


def test_another_models_name_is_a_404_that_lists_the_known(vectors_of: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=MODEL) as caught:
        vectors_of.embeddings.create(model="text-embedding-3-small", input="hello")
    assert caught.value.code == "model_not_found"


def test_chat_goes_on_meanwhile(own: EmbeddedGateway, vectors_of: OpenAI) -> None:
    stream = vectors_of.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "tell me a story"}],
        stream=True,
        max_tokens=60,
        extra_body={"ignore_eos": True},
    )
    pieces = iter(stream)
    next(pieces)
    with ask(own, [LONG] * 4) as call:
        assert call.status == 200
        assert len(call.json()["data"]) == 4
    assert [chunk.choices[0].finish_reason for chunk in pieces if chunk.choices][-1] == "length"


def test_a_client_that_leaves_a_batch_costs_the_call_in_hand_and_no_more(own: EmbeddedGateway) -> None:
    """Measured by the engine's own time, which a busy machine does not stretch as it does the clock's."""
    with ask(own, [LONG] * 2) as call:
        call.read()
    _, engine = engines(own)
    before = settled_s(engine)
    with ask(own, [LONG] * 2) as call:
        call.read()
    one_call_s = settled_s(engine) - before
    before = used_s(engine)
    with ask(own, [LONG] * 200):
        poll(lambda: used_s(engine) > before + 0.1, what="the engine did not begin")
    at_leaving = used_s(engine)
    assert settled_s(engine) - at_leaving < 3 * one_call_s


def test_an_engine_that_is_killed_comes_back(own: EmbeddedGateway) -> None:
    with ask(own, "hello") as call:
        before = call.json()["data"][0]["embedding"]
    chat, engine = engines(own)
    engine.kill()
    engine.wait(10)
    with ask(own, "hello") as call:
        assert call.status == 200, call.read()
        assert call.json()["data"][0]["embedding"] == pytest.approx(before, abs=1e-5)
    assert engines(own)[0] == chat
    assert engines(own)[1].pid != engine.pid


def settled_s(engine: psutil.Process) -> float:
    """Wait until it is idle; the seconds of the processor that it has used by then."""
    last_use_at(engine)
    return used_s(engine)
