"""A request for embeddings that is cut into calls says the same, and its replies become the one that was asked for."""

import base64
import struct
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.openai.embeddings import Merge, batches
from lumbre.wire.openai.story import MalformedReply, Usage

float32 = st.floats(width=32, allow_nan=False, allow_infinity=False, max_value=2.0**100, min_value=-(2.0**100))
inputs = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=8) | st.lists(
    st.lists(st.integers(0, 50_000), min_size=1, max_size=20), min_size=1, max_size=8
)


def packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def reply(*vectors: Any, tokens: int = 1, **more: Any) -> dict[str, Any]:
    data = [{"object": "embedding", "index": number, "embedding": vector} for number, vector in enumerate(vectors)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": "smol", "data": data, "usage": usage, **more}


def merged(body: dict[str, Any], *replies: dict[str, Any], most_bytes: int = 1) -> Any:
    merge = Merge(body)
    for call, each in zip(batches(body, most_bytes), replies, strict=True):
        merge.add(each, call)
    return orjson.loads(merge.body())


@given(inputs, st.integers(1, 60))
def test_the_calls_have_all_inputs_in_their_order_and_are_no_larger_than_they_must(
    given_inputs: list[Any], most_bytes: int
) -> None:
    body = {"input": given_inputs, "model": "x", "user": "me"}
    calls = list(batches(body, most_bytes))
    assert [each for call in calls for each in call["input"]] == given_inputs
    for call in calls:
        size = sum(len(each.encode()) if isinstance(each, str) else 4 * len(each) for each in call["input"])
        assert len(call["input"]) == 1 or size <= most_bytes
        assert {**call, "input": given_inputs} == body


@pytest.mark.parametrize("one", ["a long text", [1, 2, 3]])
def test_one_text_is_one_call(one: Any) -> None:
    assert list(batches({"input": one}, 1)) == [{"input": one}]


def test_calls_hold_as_much_as_they_may() -> None:
    calls = [call["input"] for call in batches({"input": ["aa", "bb", "cc", "a longer one", "d"]}, 5)]
    assert calls == [["aa", "bb"], ["cc"], ["a longer one"], ["d"]]


def test_replies_become_one_with_indices_of_its_own_and_all_tokens() -> None:
    body = {"input": ["aa", "bb", "cc"]}
    whole = merged(body, reply([1.0], [2.0], tokens=5), reply([3.0], tokens=7, model="other"), most_bytes=4)
    assert [(entry["index"], entry["embedding"]) for entry in whole["data"]] == [(0, [1.0]), (1, [2.0]), (2, [3.0])]
    assert whole["usage"] == {"prompt_tokens": 12, "total_tokens": 12}
    assert (whole["object"], whole["model"]) == ("list", "smol")


def test_vectors_that_come_in_another_order_are_put_into_theirs() -> None:
    answer = reply([1.0], [2.0])
    answer["data"].reverse()
    whole = merged({"input": ["a", "b"]}, answer, most_bytes=9)
    assert [(entry["index"], entry["embedding"]) for entry in whole["data"]] == [(0, [1.0]), (1, [2.0])]


def test_tokens_that_one_engine_did_not_count_are_not_guessed() -> None:
    merge = Merge({"input": ["a", "b"]})
    merge.add(reply([1.0], tokens=3), {"input": ["a"]})
    assert merge.usage == Usage(3, 0, estimated=False)
    silent = reply([1.0])
    del silent["usage"]
    merge.add(silent, {"input": ["b"]})
    assert "usage" not in orjson.loads(merge.body())
    unheard = Merge({"input": "a"})
    unheard.add(silent, {"input": "a"})
    assert unheard.usage is None


@given(st.lists(float32, min_size=1, max_size=10), st.booleans(), st.sampled_from([None, "float", "base64"]))
def test_the_encoding_is_the_one_that_was_asked_for_whatever_the_engine_made(
    vector: list[float], engine_encodes: bool, wanted: str | None
) -> None:
    answer = reply(packed(vector) if engine_encodes else vector)
    told = merged({"input": "x", "encoding_format": wanted}, answer)["data"][0]["embedding"]
    assert told == (packed(vector) if wanted == "base64" else vector)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"data": None},
        {"data": ["x"]},
        reply(),
        reply([1.0], [2.0]),
        {"data": [{"embedding": [1.0], "index": 1}]},
        {"data": [{"embedding": [1.0], "index": True}]},
        {"data": [{"embedding": [1.0], "index": "0"}]},
        reply(None),
        reply([]),
        reply(""),
        reply(["1.0"]),
        reply([None]),
        reply([float("inf")]),
        reply([float("nan")]),
        reply([10**400]),
        reply("no base64!"),
        reply(base64.b64encode(b"abc").decode()),
        reply(packed([float("nan")])),
    ],
)
def test_what_is_no_list_of_as_many_vectors_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(MalformedReply):
        merged({"input": "x"}, answer)


def test_a_number_that_is_no_float32_cannot_become_base64() -> None:
    with pytest.raises(MalformedReply):
        merged({"input": "x", "encoding_format": "base64"}, reply([1e300]))


def test_vectors_are_as_long_as_was_asked_for_and_as_each_other() -> None:
    assert merged({"input": "x", "dimensions": 2}, reply([1.0, 2.0]))["data"]
    with pytest.raises(MalformedReply, match="a vector of 3 numbers where 2 were to come"):
        merged({"input": "x", "dimensions": 2}, reply([1.0, 2.0, 3.0]))
    with pytest.raises(MalformedReply, match="a vector of 1 numbers where 2 were to come"):
        merged({"input": ["a", "b"]}, reply([1.0, 2.0]), reply([1.0]))


def test_a_reply_before_the_last_call_is_none() -> None:
    merge = Merge({"input": ["a", "b"]})
    merge.add(reply([1.0]), {"input": ["a"]})
    with pytest.raises(MalformedReply, match="1 vectors for 2 inputs"):
        merge.body()


def too_large(tokens: int) -> dict[str, Any]:
    why = f"input ({tokens} tokens) is too large to process. increase the physical batch size (current batch size: 512)"
    return {"error": {"code": 500, "message": why, "type": "server_error"}}


@pytest.mark.parametrize(
    ("given_input", "calls_before", "place"),
    [
        ("a " * 600, 0, "input"),
        ([1] * 601, 0, "input"),
        (["short", "a " * 600], 0, "input[1]"),
        (["short", "a " * 600], 1, "input[1]"),
        (["b " * 600, "a " * 600], 0, "input"),  # either may be meant
    ],
)
def test_a_text_that_is_too_long_is_the_callers_fault_and_told_by_its_place(
    given_input: Any, calls_before: int, place: str
) -> None:
    body = {"input": given_input}
    merge = Merge(body)
    calls = list(batches(body, 10_000 if calls_before == 0 else 1))
    for call in calls[:calls_before]:
        merge.add(reply([1.0]), call)
    error = merge.refused(500, too_large(601), calls[calls_before])
    assert error is not None
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", place)
    assert "601" in error.message
    assert "512" in error.message


def test_an_engine_without_embeddings_is_told_as_that() -> None:
    why = {"error": {"code": 501, "message": "This server does not support embeddings. Start it with `--embeddings`"}}
    error = Merge({"input": "x"}).refused(501, why, {"input": "x"})
    assert error is not None
    assert (error.status, error.code) == (400, "unsupported_endpoint")


@pytest.mark.parametrize("document", [None, [], {}, {"error": None}, {"error": "busy"}, {"error": {"message": 5}}])
@pytest.mark.parametrize("status", [400, 500, 501, 503])
def test_every_other_refusal_means_what_it_says(status: int, document: Any) -> None:
    assert Merge({"input": "x"}).refused(status, document, {"input": "x"}) is None
