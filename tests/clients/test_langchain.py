"""What LangChain sees of the gateway, by each of the doors it can use."""

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, SecretStr

from embedded_gateway import EmbeddedGateway
from gateway_process import GatewayProcess

Pasted = Callable[[str, str, str], list[str]]

OSLO = 'call get_weather {"city": "Oslo"}'


class City(BaseModel):
    """A city."""

    name: str
    people: int


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def chat_completions(url: str, **more: Any) -> BaseChatModel:
    return ChatOpenAI(**{"model": "gpt-4o", "base_url": f"{url}/v1", "api_key": "none", "max_retries": 0, **more})


def responses(url: str, **more: Any) -> BaseChatModel:
    return chat_completions(url, use_responses_api=True, **more)


def messages(url: str, **more: Any) -> BaseChatModel:
    return ChatAnthropic(**{"model": "claude-local", "base_url": url, "api_key": "none", "max_retries": 0, **more})


DOORS = (chat_completions, responses, messages)


@pytest.fixture(params=DOORS, ids=lambda door: door.__name__)
def model(request: pytest.FixtureRequest, gateway: GatewayProcess) -> BaseChatModel:
    made: BaseChatModel = request.param(gateway.url)
    return made


def told(chunks: Sequence[BaseMessage]) -> str:
    return "".join(str(chunk.text) for chunk in chunks)


def test_an_answer_streamed_or_whole_is_what_the_engine_said(model: BaseChatModel) -> None:
    whole = model.invoke("say It rains in Oslo.")
    assert told([whole]) == "It rains in Oslo."
    chunks = list(model.stream("say It rains in Oslo."))
    assert told(chunks) == "It rains in Oslo."
    assert len(chunks) > 2


def test_usage_is_counted(model: BaseChatModel) -> None:
    usage = model.invoke("say one two three").usage_metadata
    assert usage is not None
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (7, 3, 10)


def test_a_tool_is_called_and_its_result_comes_back(model: BaseChatModel) -> None:
    with_tools = model.bind_tools([get_weather])
    asked = with_tools.invoke(OSLO)
    assert [(call["name"], call["args"]) for call in asked.tool_calls] == [("get_weather", {"city": "Oslo"})]
    results = [ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in asked.tool_calls]
    answer = with_tools.invoke([HumanMessage(OSLO), asked, *results])
    assert told([answer]) == "The tools said: rain in Oslo"


def test_streamed_calls_of_two_tools_add_up_to_the_whole_ones(model: BaseChatModel) -> None:
    with_tools = model.bind_tools([get_weather])
    both = f'{OSLO}\ncall get_weather {{"city": "Bergen"}}'
    first, *rest = with_tools.stream(both)
    assert isinstance(first, AIMessageChunk)
    added = add_ai_message_chunks(first, *(chunk for chunk in rest if isinstance(chunk, AIMessageChunk)))
    assert [call["args"] for call in added.tool_calls] == [{"city": "Oslo"}, {"city": "Bergen"}]
    assert [call["args"] for call in with_tools.invoke(both).tool_calls] == [{"city": "Oslo"}, {"city": "Bergen"}]


@pytest.mark.parametrize(
    ("method", "prompt"),
    [
        ("json_schema", 'say {"name": "Oslo", "people": 700000}'),
        ("function_calling", 'call City {"name": "Oslo", "people": 700000}'),
    ],
)
def test_an_answer_becomes_an_object(model: BaseChatModel, method: str, prompt: str) -> None:
    assert model.with_structured_output(City, method=method).invoke(prompt) == City(name="Oslo", people=700_000)


@pytest.mark.parametrize("door", DOORS)
def test_the_default_model_answers_and_streams(embedded: EmbeddedGateway, door: Callable[..., BaseChatModel]) -> None:
    model = door(embedded.url, model="auto", temperature=0, max_tokens=16)
    assert len(told([model.invoke("Why is the sky blue?")]).split()) > 5
    chunks = list(model.stream("Why is the sky blue?"))
    assert len(told(chunks).split()) > 5
    assert len(chunks) > 5


def test_embeddings_of_the_default_model_tell_what_is_alike(embedded: EmbeddedGateway) -> None:
    made = OpenAIEmbeddings(
        model="auto",
        base_url=f"{embedded.url}/v1",
        api_key=SecretStr("none"),
        check_embedding_ctx_length=False,
        max_retries=0,
    )
    cat, kitten, tax = made.embed_documents(
        ["The cat sleeps.", "A kitten is sleeping.", "Corporate tax law of 1994, section 7."]
    )

    def likeness(one: Sequence[float], other: Sequence[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert likeness(cat, kitten) > likeness(cat, tax)


def test_what_the_page_says_works_as_it_stands(
    embedded: EmbeddedGateway, pasted: Pasted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "pasted.py"
    script.write_text(pasted("langchain.md", "python", embedded.url)[0])
    runpy.run_path(str(script))
    *answers, dimensions = capsys.readouterr().out.splitlines()
    assert len(" ".join(answers).split()) > 15
    assert int(dimensions) == 576
