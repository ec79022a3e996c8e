"""In which API an engine is asked: the client's own where it knows it and does it as well, else OpenAI's."""

from typing import Any

import pytest

from lumbre.backends.traits import LLAMA_CPP, UNKNOWN, Traits
from lumbre.core.errors import CallerError
from lumbre.gateway.capability import Capability
from lumbre.gateway.hints import Hints
from lumbre.gateway.redaction import Redaction
from lumbre.gateway.sensitive import Finder
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


def outside(api: str = "openai") -> Lane:
    endpoints = {"chat/completions", *(["messages"] if api == "anthropic" else [])}
    said = Capability(endpoints=frozenset(endpoints))
    return Lane("tier-c", 1, "vast", api=api, outside=True, said=said)  # type: ignore[arg-type]


def chat(**asked: Any) -> Call:
    body = {"model": "auto", "messages": HELLO, "lumbre": {"tier": "C"}, **asked}
    return Call("d-1", "/chat/completions", "/chat/completions", body, {}, Hints())


def test_outside_a_chat_request_goes_as_it_is_but_for_its_model_and_the_hints() -> None:
    asked = chat(temperature=0.5)
    said = speech(asked, outside(), None)
    assert said.body == {"model": "vast", "messages": HELLO, "temperature": 0.5}
    assert (said.endpoint, said.dialect, said.reading, said.adds_usage) == ("/chat/completions", OPENAI, None, False)
    assert asked.body["lumbre"] == {"tier": "C"}
    assert speech(asked, outside(), "named").body["model"] == "named"


@pytest.mark.parametrize(
    ("options", "sent", "adds"),
    [
        (None, {"include_usage": True}, True),
        ({}, {"include_usage": True}, True),
        ({"include_usage": False}, {"include_usage": True}, True),
        ({"include_usage": True}, {"include_usage": True}, False),
        ({"other": 1}, {"other": 1, "include_usage": True}, True),
    ],
)
def test_outside_a_stream_is_always_asked_what_it_cost(options: object, sent: dict[str, Any], adds: bool) -> None:
    more = {} if options is None else {"stream_options": options}
    said = speech(chat(stream=True, **more), outside(), None)
    assert (said.body["stream_options"], said.adds_usage) == (sent, adds)


def test_outside_what_is_not_streamed_is_not_asked_for_the_usage_of_a_stream() -> None:
    said = speech(chat(), outside(), None)
    assert "stream_options" not in said.body
    assert not said.adds_usage


def test_outside_a_chat_request_becomes_one_of_messages_where_the_api_is_that() -> None:
    said = speech(chat(max_tokens=5, stop=["END"]), outside("anthropic"), None)
    assert said.endpoint == "/messages"
    assert (said.body["model"], said.body["max_tokens"], said.body["stop_sequences"]) == ("vast", 5, ["END"])
    assert "lumbre" not in said.body
    assert said.reading is not None
    assert said.dialect is OPENAI  # what the reading makes of the reply


def test_outside_what_messages_have_no_words_for_is_the_callers_to_change() -> None:
    with pytest.raises(CallerError) as caught:
        speech(chat(n=2), outside("anthropic"), None)
    assert (caught.value.status, caught.value.param) == (400, "n")


def test_outside_a_message_is_sent_as_it_is_where_the_api_is_that() -> None:
    asked = call(stop_sequences=["END"], messages=[{"role": "user", "content": texts("a", "b")}], lumbre={"tier": "C"})
    said = speech(asked, outside("anthropic"), None)
    assert (said.endpoint, said.dialect, said.translation, said.reading) == ("/messages", MESSAGES, None, None)
    assert said.body["messages"] == [{"role": "user", "content": texts("a", "b")}]
    assert said.body["model"] == "vast"
    assert "lumbre" not in said.body


def test_outside_a_message_becomes_chat_where_the_api_is_openais() -> None:
    said = speech(call(), outside(), None)
    assert (said.endpoint, said.dialect, said.reading) == ("/chat/completions", OPENAI, None)
    assert said.translation is not None


MAIL = "ana@example.org"


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("door", ["chat", "messages"])
def test_what_is_hidden_does_not_leave_by_any_door_for_any_api(api: str, door: str) -> None:
    turns = [{"role": "user", "content": f"Write to {MAIL}"}]
    asked = chat(messages=turns) if door == "chat" else call(messages=turns, system=f"You are {MAIL}")
    redaction = Redaction(Finder({}))
    said = speech(asked, outside(api), None, redaction)
    assert MAIL.encode() not in said.encoded()
    assert b"<EMAIL_1>" in said.encoded()
    assert redaction.counts == {"email": 1}
    assert said.reading is not None
    whole = {"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "<EMAIL_1>"}}]}
    if api == "openai":
        assert said.reading.whole(whole)["choices"][0]["message"]["content"] == MAIL


def test_inside_nothing_is_told_in_other_words() -> None:
    body = {"messages": [{"role": "user", "content": MAIL}]}
    said = speech(chat(**body, stream=True), lane(UNKNOWN), None)
    assert said.body == {"model": "small", "stream": True, **body}
    assert (said.reading, said.adds_usage, said.adds_progress) == (None, False, False)
