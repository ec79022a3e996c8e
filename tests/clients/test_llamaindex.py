"""What LlamaIndex sees of the gateway."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike  # type: ignore[import-untyped, unused-ignore]

from embedded_gateway import EmbeddedGateway
from gateway_process import GatewayProcess

Pasted = Callable[[str, str, str], list[str]]


def asked(url: str) -> OpenAILike:
    return OpenAILike(
        model="gpt-4o",
        api_base=f"{url}/v1",
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )


def test_an_answer_streamed_or_whole_is_what_the_engine_said(gateway: GatewayProcess) -> None:
    llm = asked(gateway.url)
    said = [ChatMessage(role=MessageRole.USER, content="say It rains in Oslo.")]
    assert llm.chat(said).message.content == "It rains in Oslo."
    assert str(llm.complete("say It rains in Oslo.")) == "It rains in Oslo."
    chunks = [chunk.delta or "" for chunk in llm.stream_chat(said)]
    assert "".join(chunks) == "It rains in Oslo."
    assert len(chunks) > 2


def test_a_tool_is_called(gateway: GatewayProcess) -> None:
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    tools = [FunctionTool.from_defaults(get_weather)]
    assert str(asked(gateway.url).predict_and_call(tools, 'call get_weather {"city": "Oslo"}')) == "rain in Oslo"


def test_plain_completions_are_answered_too(gateway: GatewayProcess) -> None:
    plain = OpenAILike(model="rogue", api_base=f"{gateway.url}/v1", api_key="none", is_chat_model=False, max_retries=0)
    assert str(plain.complete("go on")) == "word0 word1 word2 "


def test_what_the_page_says_works_as_it_stands(
    embedded: EmbeddedGateway, pasted: Pasted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "pasted.py"
    script.write_text(pasted("llamaindex.md", "python", embedded.url)[0])
    runpy.run_path(str(script))
    assert len(capsys.readouterr().out.split()) > 10
