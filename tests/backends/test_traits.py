"""An engine is known by what it says of itself, and one that says nothing is like any other."""

import pytest

from lumbre.backends.traits import LLAMA_CPP, LM_STUDIO, OLLAMA, UNKNOWN, VLLM, Traits, traits_of


@pytest.mark.parametrize(
    ("owners", "server", "traits"),
    [
        (["llamacpp"], None, LLAMA_CPP),
        ([], "llama.cpp", LLAMA_CPP),
        (["me"], "llama.cpp", LLAMA_CPP),
        (["vllm", "vllm"], "uvicorn", VLLM),
        (["organization_owner"], None, LM_STUDIO),
        (["bartowski", "library"], None, OLLAMA),
        (["openai"], "cloudflare", UNKNOWN),
        ([], None, UNKNOWN),
    ],
)
def test_an_engine_is_known_by_its_owners_or_its_server_header(
    owners: list[str], server: str | None, traits: Traits
) -> None:
    assert traits_of(owners, server) is traits


def test_only_what_was_seen_to_speak_anthropics_api_is_taken_to() -> None:
    assert [traits.name for traits in (LLAMA_CPP, VLLM, LM_STUDIO, OLLAMA, UNKNOWN) if traits.messages] == ["llama.cpp"]
