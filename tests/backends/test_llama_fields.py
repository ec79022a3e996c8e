"""Every field that OpenAI publishes is accounted for: honoured, of no effect on the answer, or refused by name."""

from typing import Any

import pytest
from openai.types import completion_create_params as completion_params
from openai.types import embedding_create_params as embedding_params
from openai.types.chat import completion_create_params as chat_params

from lumbre.backends.llama_fields import CHAT, COMPLETION, EMBEDDINGS
from lumbre.core.errors import CallerError
from lumbre.wire.openai.fields import refuse_unsupported

HONOURED = set(
    "frequency_penalty logit_bias logprobs max_tokens model n presence_penalty seed stop stream_options "
    "temperature top_p".split()
)
CHAT_HONOURED = HONOURED | set(
    "max_completion_tokens messages parallel_tool_calls response_format tool_choice tools top_logprobs "
    "reasoning_effort".split()
)
ASKS_NOTHING = set(
    "metadata prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier user".split()
)
"""Hints to OpenAI's own machinery; the answer is the same without them."""


def test_every_published_field_of_chat_has_its_place() -> None:
    published = set(chat_params.CompletionCreateParamsBase.__annotations__)
    refused = {rule.field.partition(".")[0] for rule in CHAT}
    assert published - CHAT_HONOURED - ASKS_NOTHING - refused == set()


def test_every_published_field_of_completions_has_its_place() -> None:
    published = set(completion_params.CompletionCreateParamsBase.__annotations__)
    refused = {rule.field.partition(".")[0] for rule in COMPLETION}
    assert published - HONOURED - {"prompt", "user"} - refused == set()


def test_every_published_field_of_embeddings_has_its_place() -> None:
    published = set(embedding_params.EmbeddingCreateParams.__annotations__)
    refused = {rule.field for rule in EMBEDDINGS}
    assert published - {"input", "model", "encoding_format", "user"} - refused == set()


@pytest.mark.parametrize(
    "body",
    [
        {"stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"modalities": ["text"], "store": False, "service_tier": "auto", "verbosity": "medium"},
        {"audio": None, "suffix": "", "prediction": None, "functions": [], "logprobs": True},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        # whether its model sees is another question, which it answers itself
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"},
    ],
)
def test_fields_that_ask_nothing_impossible_pass(body: dict[str, Any]) -> None:
    refuse_unsupported(body, CHAT, "llama.cpp")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
        ({"response_format": {"type": "grammar"}}, "response_format.type"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"moderation": {"model": "x"}}, "moderation"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_its_place(body: dict[str, Any], field: str) -> None:
    with pytest.raises(CallerError) as caught:
        refuse_unsupported(body, CHAT, "llama.cpp")
    assert caught.value.param == field
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [{"suffix": "x"}, {"echo": True}, {"best_of": 2}, {"logprobs": 0}])
def test_completions_refuse_what_llama_cpp_ignores(body: dict[str, Any]) -> None:
    with pytest.raises(CallerError) as caught:
        refuse_unsupported(body, COMPLETION, "llama.cpp")
    assert caught.value.param == next(iter(body))


def test_vectors_of_another_length_are_refused_with_the_reason() -> None:
    with pytest.raises(CallerError, match=r"^dimensions: .*leave `dimensions` out"):
        refuse_unsupported({"input": "x", "dimensions": 10}, EMBEDDINGS, "llama.cpp")
    refuse_unsupported({"input": "x", "dimensions": None}, EMBEDDINGS, "llama.cpp")
