"""What is nobody's business outside does not go there, and the client never notices: with `[tier_c] redact`, at every
door, before both APIs.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flow.flow_house import OUTSIDE, Backends, Hit, House, HouseOpener, Json, Layout
from flow.orders import Orders, ask_at, records_of, said_at
from flow.sdk_doors import DOORS, TOOLS, Ask, sdk_clients

VALUES = {
    "email": "ana.pérez@example.org",
    "phone": "+34 612 345 678",
    "card": "4111 1111 1111 1111",
    "iban": "ES91 2100 0418 4502 0005 1332",
    "key": "sk-abcdef0123456789abcdef",
    "case": "EXP-2041",
}
TEXT = "Write to {email}, or call {phone}; pay with {card} or {iban}; {key} opens {case}. «{email}» <b>".format(
    **VALUES
)
OWN_PATTERN = {"redact_patterns.case": "EXP-[0-9]{4}"}

each_door = pytest.mark.parametrize("door", DOORS)
each_form = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def house(request: pytest.FixtureRequest, open_house_for_module: HouseOpener) -> House:
    settings = {"redact": True, **OWN_PATTERN}
    return open_house_for_module(Layout(b={}, c=request.param, direct=("*",), sections={"tier_c": settings}))


@pytest.fixture(scope="module")
def ask(house: House) -> Iterator[Ask]:
    yield from sdk_clients(house)


def said_by_user(door: str, text: str) -> Json:
    return {"input": text} if door == "responses" else {"messages": [{"role": "user", "content": text}]}


def sent_outside(backends: Backends) -> Hit:
    """The one request that left the house, once it is seen that nothing of the values is in it."""
    (hit,) = backends.hits()[OUTSIDE]
    written = json.dumps(hit.json(), ensure_ascii=False)
    for kind, value in VALUES.items():
        assert value not in written, kind
        assert value.encode("ascii", "backslashreplace").decode() not in hit.body, kind
    return hit


@each_form
@each_door
@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_a_reply_has_the_values_again_wherever_it_is_cut(
    ask: Ask, backends: Backends, order: Orders, door: str, stream: bool, pieces: int
) -> None:
    order(OUTSIDE, do="echo", chunks=pieces)
    assert ask(door, stream, **said_by_user(door, TEXT)).text == TEXT
    sent = sent_outside(backends).json()["messages"][-1]
    for kind in VALUES:
        assert f"<{kind.upper()}_1>" in json.dumps(sent)
    assert "_2>" not in json.dumps(sent)  # one value, one placeholder, however often it stands there


@each_door
def test_a_placeholder_may_be_cut_between_any_two_bytes(ask: Ask, backends: Backends, order: Orders, door: str) -> None:
    order(OUTSIDE, do="echo", split="bytes", chunks=3)
    assert ask(door, True, **said_by_user(door, TEXT)).text == TEXT
    sent_outside(backends)


@each_form
@each_door
def test_the_arguments_of_a_call_have_the_values_again(
    ask: Ask, backends: Backends, order: Orders, door: str, stream: bool
) -> None:
    order(OUTSIDE, do="echo", tool_arguments="{}", chunks=40)
    told = ask(door, stream, **said_by_user(door, f'{TEXT}\n"quoted" \\'), tools=TOOLS[door])
    assert told.calls == (("lookup", {"said": f'{TEXT}\n"quoted" \\'}),)
    sent_outside(backends)


CONVERSATIONS: dict[str, Json] = {
    "chat": {
        "messages": [
            {"role": "system", "content": f"You serve {VALUES['email']}."},
            {"role": "user", "content": [{"type": "text", "text": f"Whose is {VALUES['phone']}?"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "lookup", "arguments": json.dumps({"city": VALUES["email"]})},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": f"He pays with {VALUES['card']}"},
        ],
    },
    "responses": {
        "instructions": f"You serve {VALUES['email']}.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": f"Whose is {VALUES['phone']}?"}]},
            {
                "type": "function_call",
                "call_id": "call_1",
                "name": "lookup",
                "arguments": json.dumps({"city": VALUES["email"]}),
            },
            {"type": "function_call_output", "call_id": "call_1", "output": f"He pays with {VALUES['card']}"},
        ],
    },
    "messages": {
        "system": [{"type": "text", "text": f"You serve {VALUES['email']}."}],
        "messages": [
            {"role": "user", "content": f"Whose is {VALUES['phone']}?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_1", "name": "lookup", "input": {"city": VALUES["email"]}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": f"He pays with {VALUES['card']}"}
                ],
            },
        ],
    },
}


@each_form
@each_door
def test_no_part_of_a_conversation_gives_a_value_away(
    ask: Ask, backends: Backends, order: Orders, door: str, stream: bool
) -> None:
    order(OUTSIDE, text="<EMAIL_1> owes <CARD_1>, not <CARD_2>.", chunks=30)
    told = ask(door, stream, **CONVERSATIONS[door], tools=TOOLS[door])
    assert told.text == f"{VALUES['email']} owes {VALUES['card']}, not <CARD_2>."
    body = sent_outside(backends).body
    assert body.count("<EMAIL_1>") == 2
    assert body.count("<PHONE_1>") == body.count("<CARD_1>") == 1


def test_no_field_of_a_request_gives_a_value_away_nor_does_an_earlier_turn(
    house: House, backends: Backends, order: Orders
) -> None:
    order(OUTSIDE, do="echo")
    token = "zq81abcdef0123456789"
    url = f"https://example.org/i.png?mail={VALUES['email']}&key={VALUES['key']}"
    schema = {"type": "object", "properties": {"city": {"default": {"type": VALUES["email"]}, "const": 612345678}}}
    said = [
        {"role": "user", "name": VALUES["email"], "content": f"The token is {token}."},
        {"role": "assistant", "content": "I see.", "reasoning_details": [{"type": "text", "text": TEXT}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]},
        {"role": "user", "content": f"Authorization: Bearer {token}, or 91 123 45 67"},
    ]
    extra = {"metadata": {VALUES["email"]: "x"}, "prompt_cache_key": VALUES["email"], "documents": [{"data": TEXT}]}
    tools = [{"type": "function", "function": {"name": "lookup", "parameters": schema}}]
    answer = house.ask({"messages": said, "tools": tools, **extra}, tier="C")
    echoed = answer.json()["choices"][0]["message"]["content"]
    assert echoed.endswith(f"Authorization: Bearer {token}, or 91 123 45 67")
    sent = sent_outside(backends).body
    for value in (token, "91 123 45 67", "612345678"):
        assert value not in sent


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----"
OBJECT = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@each_form
def test_json_stays_json_when_a_value_of_several_lines_returns(
    ask: Ask, backends: Backends, order: Orders, stream: bool
) -> None:
    order(OUTSIDE, text='{"city": "<KEY_1>"}', chunks=9)
    form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": OBJECT}}
    told = ask("chat", stream, **said_by_user("chat", f"Which city? {PEM}"), response_format=form)
    assert json.loads(told.text) == {"city": PEM}
    assert "MIIEvQ" not in sent_outside(backends).body


@each_door
def test_the_crossing_counts_what_was_taken_out(house: House, backends: Backends, order: Orders, door: str) -> None:
    order(OUTSIDE, do="echo")
    path = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[door]
    answer = ask_at(house, path, said_at(path, f"{TEXT} and ana@example.net", model="tier-c"))
    assert answer.status == 200
    sent_outside(backends)
    (crossing,) = records_of(house, answer.decision, "crossing")
    assert crossing["redactions"] == {"email": 2, "phone": 1, "card": 1, "iban": 1, "key": 1, "case": 1}


def test_a_clients_own_placeholder_comes_back_as_it_was(ask: Ask, backends: Backends, order: Orders) -> None:
    order(OUTSIDE, do="echo", chunks=50)
    text = f"<EMAIL_1> is no {VALUES['email']}, and <NOTE_1> is nothing"
    for stream in (False, True):
        assert ask("chat", stream, **said_by_user("chat", text)).text == text


def test_what_stays_in_the_house_is_not_touched(house: House, backends: Backends, order: Orders) -> None:
    order("one", do="echo")
    answer = house.ask({"messages": [{"role": "user", "content": TEXT}]})
    assert answer.tier == "A"
    assert backends.hits()["one"][0].json()["messages"][0]["content"] == TEXT


def test_what_falls_to_the_outside_is_hidden_there_alone(house: House, backends: Backends, order: Orders) -> None:
    order("one", do="refuse", status=500)
    order(OUTSIDE, do="echo")
    answer = house.ask({"messages": [{"role": "user", "content": TEXT}], "stream": True})
    assert answer.tier == "C"
    hits = backends.hits()
    assert hits["one"][0].json()["messages"][0]["content"] == TEXT
    (hit,) = hits[OUTSIDE]
    assert not any(value in json.dumps(hit.json(), ensure_ascii=False) for value in VALUES.values())


def test_the_log_and_the_ledger_have_no_value(house: House, order: Orders) -> None:
    order(OUTSIDE, do="echo")
    answer = house.ask({"messages": [{"role": "user", "content": TEXT}]}, tier="C")
    records_of(house, answer.decision)
    kept = b"".join(
        path.read_bytes() for path in house.state_dir.rglob("*") if path.is_file() and "ledger" in str(path)
    )
    for value in VALUES.values():
        assert value not in house.stderr
        assert value.encode() not in kept


@pytest.mark.parametrize("settings", [{}, OWN_PATTERN], ids=["off", "patterns alone"])
def test_nothing_is_hidden_unless_the_operator_says_so(
    open_house: HouseOpener, backends: Backends, order: Orders, settings: dict[str, Any]
) -> None:
    house = open_house(Layout(b={}, direct=("*",), sections={"tier_c": settings}))
    order(OUTSIDE, do="echo")
    answer = house.ask({"messages": [{"role": "user", "content": TEXT}]}, tier="C")
    assert answer.json()["choices"][0]["message"]["content"] == TEXT
    assert backends.hits()[OUTSIDE][0].json()["messages"][0]["content"] == TEXT
    (crossing,) = records_of(house, answer.decision, "crossing")
    assert crossing["redactions"] == {}
