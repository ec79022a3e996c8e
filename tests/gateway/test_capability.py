"""What a request needs, and what an upstream without it answers before any work is done."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.gateway.capability import UNKNOWN, Capability, Need, lack, may_exceed, need_of

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CHAT = "chat/completions"

can = st.none() | st.booleans()
capabilities = st.builds(
    Capability,
    context_tokens=st.none() | st.integers(1, 100),
    tools=can,
    images=can,
    json_schema=can,
    endpoints=st.none() | st.frozensets(st.sampled_from([CHAT, "completions", "embeddings"])),
)


def chat(content: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **more}


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        (chat(), {}),
        (chat(tools=TOOLS), {"tools": True}),
        (chat(tools=TOOLS, tool_choice="none"), {}),
        (chat(tools=[], tool_choice="auto"), {}),
        (chat(tools=None), {}),
        (chat([{"type": "text", "text": "what is it?"}, IMAGE]), {"image": "messages[0].content[1].type"}),
        (chat(response_format={"type": "json_schema", "json_schema": {"name": "x"}}), {"json_schema": True}),
        (chat(response_format={"type": "json_object"}), {}),
        (chat(response_format=None), {}),
        (chat(None), {}),
    ],
)
def test_what_a_chat_needs_is_read_from_its_body(body: dict[str, Any], needs: dict[str, Any]) -> None:
    need = need_of(body, "/chat/completions")
    assert need == replace(Need(CHAT, prompt_bytes=need.prompt_bytes), **needs)


@pytest.mark.parametrize(
    ("body", "endpoint", "most_bytes", "tokens", "longest"),
    [
        ({"prompt": "hello"}, "/completions", 5, None, "prompt"),
        ({"prompt": ["a", "hello", "bb"]}, "/completions", 5, None, "prompt[1]"),
        ({"prompt": [1, 2, 3]}, "/completions", 3, 3, "prompt"),
        ({"prompt": [[1], [1, 2, 3]]}, "/completions", 3, 3, "prompt[1]"),
        ({"input": "héllo"}, "/embeddings", 6, None, "input"),
        ({"input": ["a", "bb"]}, "/embeddings", 2, None, "input[1]"),
        ({"input": [7] * 9}, "/embeddings", 9, 9, "input"),
    ],
)
def test_the_longest_prompt_or_text_is_found_with_its_place(
    body: dict[str, Any], endpoint: str, most_bytes: int, tokens: int | None, longest: str
) -> None:
    need = need_of(body, endpoint)
    assert (need.prompt_tokens, need.longest) == (tokens, longest)
    assert most_bytes <= need.prompt_bytes <= most_bytes + 64


def test_an_images_bytes_are_no_text() -> None:
    large = {"type": "image_url", "image_url": {"url": "data:" + "A" * 100_000}}
    assert need_of(chat([large]), CHAT).prompt_bytes < 10_000


@given(st.lists(st.text(), max_size=5), st.text())
def test_a_chat_has_at_least_as_many_bytes_as_its_words(texts: list[str], argument: str) -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": argument}}
    messages = [
        *({"role": "user", "content": text} for text in texts),
        {"role": "user", "content": [{"type": "text", "text": text} for text in texts]},
        {"role": "assistant", "tool_calls": [call]},
    ]
    words = 2 * sum(len(text.encode()) for text in texts) + len(argument.encode())
    assert need_of({"messages": messages}, CHAT).prompt_bytes >= words


def test_a_deep_tool_is_measured_without_recursion() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = {"properties": deep}
    tools = [{"type": "function", "function": {"name": "f", "parameters": deep}}]
    assert need_of(chat(tools=tools), CHAT).prompt_bytes > 5000 * len("properties")


REFUSALS = [
    (Need(CHAT), {"endpoints": frozenset({"embeddings"})}, "unsupported_endpoint", "model"),
    (Need("embeddings"), {"endpoints": frozenset({CHAT})}, "unsupported_endpoint", "model"),
    (Need(CHAT, tools=True), {"tools": False}, "unsupported_field", "tools"),
    (Need(CHAT, image="messages[2].content[0].type"), {"images": False}, "unsupported_field", None),
    (Need(CHAT, json_schema=True), {"json_schema": False}, "unsupported_field", "response_format"),
    (Need(CHAT, prompt_tokens=10), {"context_tokens": 10}, "context_length_exceeded", "messages"),
    (
        Need("embeddings", prompt_tokens=11, longest="input[3]"),
        {"context_tokens": 10},
        "context_length_exceeded",
        "input[3]",
    ),
]


@pytest.mark.parametrize(("need", "able", "code", "param"), REFUSALS)
def test_what_an_upstream_lacks_is_a_400_by_its_field(
    need: Need, able: dict[str, Any], code: str, param: str | None
) -> None:
    refusal = lack(need, Capability(**able), "ollama")
    assert refusal is not None
    assert (refusal.status, refusal.code, refusal.param) == (400, code, param or need.image)
    assert "ollama" in refusal.message


@pytest.mark.parametrize(("need", "able", "code", "param"), REFUSALS)
def test_what_it_has_or_may_have_is_no_reason(need: Need, able: dict[str, Any], code: str, param: str | None) -> None:
    better: dict[str, Any] = {
        "endpoints": frozenset({need.endpoint, "other"}),
        "tools": True,
        "images": True,
        "json_schema": True,
        "context_tokens": 12,
    }
    assert lack(need, Capability(**{name: better[name] for name in able}), "ollama") is None
    assert lack(need, UNKNOWN, "ollama") is None


def test_a_prompt_that_is_too_long_is_told_with_both_numbers() -> None:
    refusal = lack(Need(CHAT, prompt_tokens=5000), Capability(context_tokens=4096), "embedded")
    assert refusal is not None
    assert "5000" in refusal.message
    assert "4096" in refusal.message


def test_an_answer_needs_room_and_a_text_to_embed_does_not() -> None:
    able = Capability(context_tokens=10)
    assert lack(Need(CHAT, prompt_tokens=9), able, "x") is None
    assert lack(Need("embeddings", prompt_tokens=10, longest="input"), able, "x") is None


@pytest.mark.parametrize("setting", ["tools", "images", "json_schema"])
def test_a_refusal_says_how_to_send_it_all_the_same(setting: str) -> None:
    need = Need(CHAT, tools=True, image="messages[0].content[0].type", json_schema=True)
    refusal = lack(need, Capability(**{setting: False}), "embedded")  # type: ignore[arg-type]
    assert refusal is not None
    assert f"{setting} = true under [tier_a]" in refusal.message


@given(capabilities, st.integers(0, 200))
def test_what_needs_nothing_special_is_refused_for_its_length_or_endpoint_alone(
    capability: Capability, tokens: int
) -> None:
    refusal = lack(Need(CHAT, prompt_tokens=tokens), capability, "x")
    is_there = capability.endpoints is None or CHAT in capability.endpoints
    fits = capability.context_tokens is None or tokens < capability.context_tokens
    assert (refusal is None) == (is_there and fits)


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50))
def test_whatever_is_too_long_may_exceed(limit: int, prompt_bytes: int, tokens: int) -> None:
    """A token is at least a byte, so asking is only left out where the answer could not matter."""
    tokens = min(tokens, prompt_bytes)
    able = Capability(context_tokens=limit)
    uncounted = Need(CHAT, prompt_bytes=prompt_bytes)
    if lack(replace(uncounted, prompt_tokens=tokens), able, "x") is not None:
        assert may_exceed(uncounted, able)


def test_counting_is_not_worth_asking_without_a_limit_or_once_counted() -> None:
    assert not may_exceed(Need(CHAT, prompt_bytes=10**9), UNKNOWN)
    assert not may_exceed(Need(CHAT, prompt_bytes=10**9, prompt_tokens=5), Capability(context_tokens=10))
    assert not may_exceed(Need(CHAT, prompt_bytes=9), Capability(context_tokens=10))


@given(capabilities, capabilities)
def test_what_one_says_goes_over_what_the_other_says(first: Capability, second: Capability) -> None:
    both = first.over(second)
    for name in ("context_tokens", "tools", "images", "json_schema", "endpoints"):
        own = getattr(first, name)
        assert getattr(both, name) == (getattr(second, name) if own is None else own)
