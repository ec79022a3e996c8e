"""Whose words are told to whom: what an engine says of one caller's prompt is nobody else's, and what cannot be written
in any encoding breaks nothing.
"""

import json

import pytest

from flow.flow_house import OUTSIDE, Backends, House, HouseOpener, Json, Layout
from flow.orders import DOORS, Orders, ask_at, asked, records_of, said_at
from wire_client import Call

CHAT = "/v1/chat/completions"
SECRET = "patient Jane Roe"
PROMPT: Json = {"messages": [{"role": "user", "content": SECRET}]}
QUOTED: Json = {"error": {"message": f"the template failed on: {SECRET}", "type": "server_error", "code": SECRET}}
PIECE: Json = {"choices": [{"index": 0, "delta": {"content": "Well, "}}]}
HALF_A_PAIR = "bad \ud800 token"
WHY = {
    "reply": "it answered 500",
    "first event": "engine_failed",
    "later event": "it failed in the middle of its answer",
}
"""What the gateway says of an engine that failed so."""


TRIPS: Json = {"breaker": {"failures": 3, "open_s": 60, "most_open_s": 60, "probe_s": 60}}


def events(*told: Json) -> str:
    """A stream of the engine's, to be recited."""
    return "".join(f"data: {json.dumps(each)}\n\n" for each in told)


def fail(backends: Backends, order: Orders, how: str, error: Json) -> None:
    """Have tier A's engine report an error from now on: in a reply of 500, or in a stream, first or after a piece."""
    if how == "reply":
        backends.lay("one", CHAT, error, 500)
    else:
        order("one", do="recite", text=events(error) if how == "first event" else events(PIECE, error))


def told_to_everybody(house: House) -> bytes:
    """All that the gateway tells, without the prompt's own reply: to the next client, to who looks, in its books."""
    told = [house.ask().body, json.dumps(house.explain()).encode()]
    for path in ("/readyz", "/v1/flow", "/v1/flow/nodes", "/v1/ledger?limit=100", "/metrics"):
        with house.get(path) as call:
            told.append(call.read())
    return b"".join(told)


@pytest.mark.parametrize("how", ["reply", "first event", "later event"])
def test_a_prompt_that_an_engine_quotes_is_told_to_nobody_else(
    open_house: HouseOpener, backends: Backends, order: Orders, how: str
) -> None:
    house = open_house(Layout(b={}, c=None, sections=TRIPS))
    fail(backends, order, how, QUOTED)
    answers = [house.ask({**PROMPT, "stream": how != "reply"}) for _ in range(3)]
    assert house.states() == {"one": "tripped"}
    assert all(records_of(house, answer.decision) for answer in answers)
    everything = told_to_everybody(house).decode()
    assert SECRET not in everything
    assert WHY[how] in json.dumps(house.flow())
    assert WHY[how] in house.ask().error["message"]
    kept = b"".join(path.read_bytes() for path in (house.state_dir / "ledger").iterdir())
    assert SECRET.encode() not in kept


def test_a_prompt_that_the_outside_quotes_with_its_values_put_back_is_told_to_nobody_else(
    open_house: HouseOpener, order: Orders
) -> None:
    house = open_house(Layout(b={}, direct=("*",), sections={**TRIPS, "tier_c": {"redact": True}}))
    text = events({"error": {"message": "cannot do: mail <EMAIL_1>"}})
    order(OUTSIDE, do="recite", text=text)
    mail = {"messages": [{"role": "user", "content": "mail alice@example.com"}]}
    for stream in (False, True, True):
        house.ask({**mail, "stream": stream}, affinity="C")
    assert house.states()[OUTSIDE] == "tripped"
    assert "alice" not in told_to_everybody(house).decode()
    assert "alice" not in house.ask(affinity="C").body.decode()


def test_a_model_that_nobody_serves_is_named_to_its_caller_alone(open_house: HouseOpener) -> None:
    house = open_house(Layout())
    card = "my card is 4111 1111 1111 1111"
    for door in DOORS:
        answer = ask_at(house, door, said_at(door, model=card))
        assert answer.status == 404
        (record,) = records_of(house, answer.decision)
        assert record["outcome"] in ("model_not_found", "unknown_model")
        assert "4111" not in json.dumps(record)
    kept = b"".join(path.read_bytes() for path in (house.state_dir / "ledger").iterdir())
    assert b"4111" not in kept
    with house.get("/metrics") as call:
        assert b"4111" not in call.read()


@pytest.mark.parametrize("how", ["reply", "first event", "later event"])
def test_an_error_that_cannot_be_encoded_is_told_and_breaks_nothing(
    open_house: HouseOpener, backends: Backends, order: Orders, how: str
) -> None:
    house = open_house(Layout(b={}, sections=TRIPS))
    fail(backends, order, how, {"error": {"message": HALF_A_PAIR}})
    kept_in = {**PROMPT, "stream": how != "reply", "lumbre": {"external": "never"}}
    for _ in range(3):
        told = house.ask(kept_in)
        assert b"bad " in told.body
        assert b"token" in told.body
        assert told.status == 200 if how == "later event" else told.status >= 500
        assert records_of(house, told.decision, "attempt")
    assert house.states()["one"] == "tripped"
    for stream in (False, True):
        answer = house.ask({"stream": stream})
        assert (answer.status, answer.tier) == (200, "C")
        assert records_of(house, answer.decision, "crossing")
    assert asked(backends)[OUTSIDE] == 2
    for path in ("/readyz", "/v1/flow", "/v1/flow/nodes", "/v1/ledger", "/metrics"):
        with house.get(path) as call:
            assert call.status == 200, path
    assert house.explain()["outcome"] == "dispatch"


@pytest.mark.parametrize("how", ["reply", "first event"])
def test_an_error_that_cannot_be_encoded_lets_the_request_go_on(
    open_house: HouseOpener, backends: Backends, order: Orders, how: str
) -> None:
    house = open_house(Layout(b={}))
    fail(backends, order, how, {"error": {"message": HALF_A_PAIR}})
    for door in DOORS if how == "reply" else ("/v1/chat/completions",):
        answer = ask_at(house, door, said_at(door, stream=how != "reply"))
        assert (answer.status, answer.tier) == (200, "C"), answer.body
        assert [each["tier"] for each in records_of(house, answer.decision, "attempt")] == ["A", "C"]


def test_what_an_engine_calls_its_error_is_not_a_name_in_the_books(open_house: HouseOpener, backends: Backends) -> None:
    house = open_house(Layout(b={}, c=None))
    backends.lay("one", CHAT, QUOTED, 500)
    with Call(f"{house.url}{CHAT}", {"model": "auto", **PROMPT}) as call:
        assert call.status == 500
        decision = call.header("x-lumbre-decision") or ""
        assert SECRET in call.error()["message"]  # it is the caller's own
    records = records_of(house, decision)
    assert [record["outcome"] for record in records] == ["upstream_refused", "upstream_refused"]
