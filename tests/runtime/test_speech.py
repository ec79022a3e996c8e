"""In which API an engine is asked: the client's own where it knows it and does it as well, else OpenAI's."""

from typing import Any

import pytest

from lumbre.backends.traits import LLAMA_CPP, UNKNOWN, Traits
from lumbre.gateway.capability import Capability
from lumbre.gateway.hints import Hints
from lumbre.runtime.call import Call, Retelling
from lumbre.runtime.lanes import Lane
from lumbre.runtime.speech import own_words, speech
from lumbre.wire.anthropic.request import to_chat
from lumbre.wire.anthropic.translation import MessageTranslation
from lumbre.wire.dialects import MESSAGES, OPENAI

HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("now", "weather")]


def call(**asked: Any) -> Call:
    own = {"model": "auto", "max_tokens": 9, "messages": HELLO, **asked}
    retelling = Retelling(lambda model: MessageTranslation("msg_1", model), openai_errors=False, own=own)
    return Call("d-1", "/messages", "/chat/completions", to_chat(own), {}, Hints(), retelling)


def lane(traits: Traits = LLAMA_CPP, *endpoints: str) -> Lane:
    said = Capability(endpoints=frozenset(endpoints) if endpoints else None)
    return Lane("engine", 1, "small", traits=traits, said=said)


def texts(*said: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in said]


AS_WELL: dict[str, dict[str, Any]] = {
    "a word": {},
    "one text in a list": {"messages": [{"role": "user", "content": texts("hi")}], "system": texts("Be brief.")},
    "a long conversation with a stop sequence": {
        "messages": [{"role": "user", "content": "x" * 9000}],
        "stop_sequences": ["END"],
    },
}
WORSE: dict[str, dict[str, Any]] = {
    "a long prompt": {"messages": [{"role": "user", "content": "x" * 600}]},
    "a long system prompt": {"system": "x" * 600},
    "long tools": {"tools": [{**TOOLS[0], "description": "x" * 600}]},
    "two texts in a turn": {"messages": [{"role": "user", "content": texts("a", "b")}]},
    "two texts of the system": {"system": texts("a", "b")},
    "two turns of one role": {"messages": [*HELLO, *HELLO]},
}
NEVER: dict[str, dict[str, Any]] = {
    "a schema": {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    "a turn of the system": {"messages": [*HELLO, {"role": "system", "content": "Be brief."}]},
}


@pytest.mark.parametrize("case", AS_WELL)
def test_llama_cpp_is_asked_in_the_clients_words_where_it_does_as_well(case: str) -> None:
    asked = call(**AS_WELL[case])
    said = speech(asked, lane(), None)
    assert (said.endpoint, said.dialect, said.translation) == ("/messages", MESSAGES, None)
    assert said.body["model"] == "small"
    assert said.body["stream"] is True
    assert own_words(asked, lane(UNKNOWN)) is None


@pytest.mark.parametrize("case", [*WORSE, *NEVER])
def test_where_it_does_worse_its_chat_api_is_asked_with_reports_on_the_prompt(case: str) -> None:
    said = speech(call(**{**WORSE, **NEVER}[case]), lane(), None)
    assert (said.endpoint, said.dialect) == ("/chat/completions", OPENAI)
    assert said.translation is not None
    assert said.adds_progress
    assert said.body["return_progress"] is True


@pytest.mark.parametrize("case", [*AS_WELL, *WORSE])
def test_the_settings_word_counts_for_every_conversation(case: str) -> None:
    asked = call(**{**AS_WELL, **WORSE}[case])
    for traits in (LLAMA_CPP, UNKNOWN):
        assert own_words(asked, lane(traits, "messages", "chat/completions")) is not None
        assert own_words(asked, lane(traits, "chat/completions")) is None


@pytest.mark.parametrize("case", NEVER)
def test_what_such_an_engine_would_drop_is_never_asked_so(case: str) -> None:
    assert own_words(call(**NEVER[case]), lane(UNKNOWN, "messages")) is None


def test_a_named_tool_is_the_only_one_where_the_engine_knows_no_names() -> None:
    said = speech(call(tools=TOOLS, tool_choice={"type": "tool", "name": "weather"}), lane(), None)
    assert said.body["tools"] == TOOLS[1:]
    assert said.body["tool_choice"] == {"type": "any"}


def test_hints_to_the_gateway_stay_here() -> None:
    for traits in (LLAMA_CPP, UNKNOWN):
        assert "lumbre" not in speech(call(lumbre={"tier": "A"}), lane(traits), None).body
