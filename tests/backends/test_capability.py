"""What is read of an engine's own words: the shapes that servers send, and whatever else may come in their place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.backends.capability import of_llama_cpp, of_lm_studio, of_model_list, of_ollama
from lumbre.gateway.capability import UNKNOWN, Capability

LLAMA_MODELS = {
    "models": [{"name": "smol", "model": "smol", "type": "model", "capabilities": ["completion"]}],
    "object": "list",
    "data": [
        {
            "id": "smol",
            "aliases": ["smol"],
            "object": "model",
            "created": 1796074151,
            "owned_by": "llamacpp",
            "meta": {"vocab_type": 2, "n_vocab": 49152, "n_ctx": 1024, "n_ctx_train": 8192, "n_embd": 576},
        }
    ],
}
LLAMA_PROPS = {
    "default_generation_settings": {"params": {"seed": 4294967295, "n_predict": -1}, "n_ctx": 1024},
    "total_slots": 2,
    "model_alias": "smol",
    "modalities": {"vision": False, "video": False, "audio": False},
    "chat_template": "{% for message in messages %}…{% endfor %}",
    "chat_template_caps": {
        "supports_object_arguments": False,
        "supports_parallel_tool_calls": False,
        "supports_string_content": True,
        "supports_system_role": True,
        "supports_tool_calls": False,
        "supports_tools": False,
        "supports_typed_content": False,
    },
    "build_info": "b0-unknown",
}
VLLM_MODELS = {
    "object": "list",
    "data": [
        {
            "id": "Qwen/Qwen3-8B",
            "object": "model",
            "created": 1756885796,
            "owned_by": "vllm",
            "root": "Qwen/Qwen3-8B",
            "parent": None,
            "max_model_len": 40960,
            "permission": [{"id": "modelperm-1", "object": "model_permission", "allow_sampling": True}],
        },
        {"id": "a-lora", "object": "model", "owned_by": "vllm", "parent": "Qwen/Qwen3-8B", "max_model_len": None},
    ],
}
LM_STUDIO_MODELS = {
    "object": "list",
    "data": [
        {
            "id": "qwen2-vl-7b-instruct",
            "object": "model",
            "type": "vlm",
            "publisher": "mlx-community",
            "arch": "qwen2_vl",
            "state": "not-loaded",
            "max_context_length": 32768,
        },
        {"id": "gemma", "object": "model", "type": "llm", "state": "loaded", "max_context_length": 8192},
        {"id": "nomic", "object": "model", "type": "embeddings", "state": "loaded", "max_context_length": 2048},
    ],
}
OLLAMA_SHOW = {
    "modelfile": "FROM …",
    "parameters": "num_ctx 4096",
    "template": "…",
    "details": {"format": "gguf", "family": "llama", "parameter_size": "3.2B"},
    "model_info": {
        "general.architecture": "llama",
        "general.parameter_count": 3212749888,
        "llama.attention.head_count": 24,
        "llama.context_length": 131072,
        "llama.embedding_length": 3072,
    },
    "capabilities": ["completion", "tools"],
}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_a_model_list_tells_the_context_where_the_engine_puts_it_there() -> None:
    assert of_model_list(LLAMA_MODELS) == {"smol": Capability(context_tokens=1024)}
    assert of_model_list(VLLM_MODELS) == {"Qwen/Qwen3-8B": Capability(context_tokens=40960)}
    plain = {"object": "list", "data": [{"id": "llama3.2:latest", "object": "model", "owned_by": "library"}]}
    assert of_model_list(plain) == {}


def test_llama_cpp_tells_all_of_its_one_model() -> None:
    assert of_llama_cpp(LLAMA_PROPS) == Capability(1024, tools=False, images=False, json_schema=True)


@pytest.mark.parametrize(
    ("caps", "tools"),
    [
        ({"supports_tools": True, "supports_tool_calls": True}, True),
        ({"supports_tools": False, "supports_tool_calls": True}, True),
        ({"supports_tools": False}, False),
        ({}, None),
        (None, None),
    ],
)
def test_tools_are_those_that_the_template_knows(caps: Any, tools: bool | None) -> None:
    assert of_llama_cpp({**LLAMA_PROPS, "chat_template_caps": caps}).tools is tools


def test_a_llama_cpp_without_a_model_of_its_own_says_nothing() -> None:
    assert of_llama_cpp({"role": "router", "max_instances": 4}) == UNKNOWN


def test_lm_studio_tells_kinds_and_lengths() -> None:
    generating = frozenset({"chat/completions", "completions"})
    assert of_lm_studio(LM_STUDIO_MODELS) == {
        "qwen2-vl-7b-instruct": Capability(32768, images=True, endpoints=generating),
        "gemma": Capability(8192, images=False, endpoints=generating),
        "nomic": Capability(2048, endpoints=frozenset({"embeddings"})),
    }


@pytest.mark.parametrize(
    ("said", "able"),
    [
        (["completion", "tools"], {"tools": True, "images": False}),
        (["completion", "vision"], {"tools": False, "images": True}),
        (["embedding"], {"tools": False, "images": False, "endpoints": frozenset({"embeddings"})}),
        (["completion", "embedding"], {"tools": False, "images": False}),
        (None, {}),
    ],
)
def test_ollama_tells_what_a_model_can_do(said: Any, able: dict[str, Any]) -> None:
    assert of_ollama({**OLLAMA_SHOW, "capabilities": said}) == Capability(131072, **able)


@pytest.mark.parametrize("length", [0, -1, True, "8192", 1.5, None])
def test_a_length_that_is_none_is_unknown(length: Any) -> None:
    assert of_model_list({"data": [{"id": "x", "max_model_len": length}]}) == {}
    assert of_ollama({"model_info": {"llama.context_length": length}}) == UNKNOWN


@given(anything)
def test_whatever_comes_is_read_or_unknown(document: Any) -> None:
    assert isinstance(of_model_list(document), dict)
    assert isinstance(of_lm_studio({"data": [document, {"id": "x", "type": document}]}), dict)
    assert of_llama_cpp({"default_generation_settings": document, "modalities": document}).tools is None
    assert isinstance(of_llama_cpp(document), Capability)
    assert isinstance(of_ollama({"model_info": document, "capabilities": document}), Capability)
