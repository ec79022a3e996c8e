"""Folding a stream gives the reply that the call without `stream` has: on made-up streams cut from made-up replies."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from lumbre.wire.openai.fold import Fold

text = st.text(max_size=12)
logprob = st.fixed_dictionaries({"token": text, "logprob": st.floats(-9, 0)})
tool_call = st.fixed_dictionaries(
    {
        "id": st.text(min_size=1, max_size=5),
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": text, "arguments": text}),
    }
)
message = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.text(min_size=1, max_size=20)},
    optional={
        "reasoning_content": st.text(min_size=1, max_size=9),
        "tool_calls": st.lists(tool_call, min_size=1, max_size=2),
    },
)
choice = st.fixed_dictionaries(
    {"message": message, "finish_reason": st.sampled_from(["stop", "length"])},
    optional={"logprobs": st.fixed_dictionaries({"content": st.lists(logprob, min_size=1, max_size=4)})},
)
replies = st.lists(choice, min_size=1, max_size=3)
TOP = {"id": "c-1", "created": 5, "model": "m", "system_fingerprint": "b0", "timings": {"n": 1}}


def chunks_of(choices: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Cut replies into chunks by a second, simpler way: one character run after another."""
    chunks: list[dict[str, Any]] = []

    def chunk(index: int, delta: dict[str, Any], **more: Any) -> None:
        part = {"index": index, "delta": delta, "finish_reason": None, **more}
        chunks.append({"object": "chat.completion.chunk", **TOP, "choices": [part]})

    for index, whole in enumerate(choices):
        said = whole["message"]
        chunk(index, {"role": "assistant", "content": None})
        for name in ("reasoning_content", "content"):
            for at in range(0, len(said.get(name, "")), size):
                chunk(index, {name: said[name][at : at + size]})
        for number, call in enumerate(said.get("tool_calls", ())):
            head = {"index": number, "id": call["id"], "type": "function"}
            chunk(index, {"tool_calls": [{**head, "function": {"name": call["function"]["name"], "arguments": ""}}]})
            arguments = call["function"]["arguments"]
            for at in range(0, len(arguments), size):
                fragment = {"index": number, "function": {"arguments": arguments[at : at + size]}}
                chunk(index, {"tool_calls": [fragment]})
        for each in whole.get("logprobs", {}).get("content", ()):
            chunk(index, {}, logprobs={"content": [each]})
        chunk(index, {}, finish_reason=whole["finish_reason"])
    return chunks


@given(replies, st.integers(1, 5))
def test_folding_what_was_cut_gives_what_it_was_cut_from(choices: list[dict[str, Any]], size: int) -> None:
    fold = Fold()
    for chunk in chunks_of(choices, size):
        fold.add(chunk)
    fold.add({"object": "chat.completion.chunk", "choices": [], "usage": {"total_tokens": 3}})
    expected = [{"index": index, **whole} for index, whole in enumerate(choices)]
    assert orjson.loads(fold.body()) == {
        **TOP,
        "object": "chat.completion",
        "usage": {"total_tokens": 3},
        "choices": expected,
    }


def test_texts_of_completions_are_joined_by_their_prompt() -> None:
    fold = Fold()
    for index, piece in ((0, "a"), (1, "x"), (0, "b")):
        fold.add({"object": "text_completion", "choices": [{"index": index, "text": piece, "finish_reason": None}]})
    fold.add({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    reply = orjson.loads(fold.body())
    assert reply["object"] == "text_completion"
    assert [(each["text"], each["finish_reason"]) for each in reply["choices"]] == [("ab", "stop"), ("x", None)]
