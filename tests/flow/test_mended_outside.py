"""Tier C: what it is asked at all, what a request to it may cost and does cost, and what counts as an attempt."""

import re
from typing import Any

import pytest

from flow.flow_house import OUTSIDE, Backends, House, HouseOpener, Json, Layout
from flow.orders import Orders, ask_at, asked, records_of, said_at
from wire_client import poll

FAILS: dict[str, Any] = {"do": "refuse", "status": 503}
TOKEN_MICROUSD = 1000
"""What a token of an answer costs; one of a prompt costs nothing."""
PRICES: Json = {"usd_per_million_prompt": 0, "usd_per_million_completion": TOKEN_MICROUSD}
RICH: Json = {"daily_budget_usd": 1000}
BOUND: Json = {"lumbre": {"affinity": "C"}}


def priced(c: str = "openai", **tier_c: Any) -> Layout:
    return Layout(b={}, c=c, direct=("*",), sections={"flow": RICH, "tier_c": {**PRICES, **tier_c}})


def budget(house: House) -> tuple[int, int]:
    """Spent and reserved, in micro-dollars."""
    told = house.flow()["budget"]
    return told["spent_microusd"], told["reserved_microusd"]


@pytest.fixture(scope="module")
def anthropics(open_house_for_module: HouseOpener) -> House:
    """Before an outside API of Anthropic's kind."""
    return open_house_for_module(priced("anthropic"))


@pytest.fixture(scope="module")
def openais(open_house_for_module: HouseOpener) -> House:
    """Before an outside API of OpenAI's kind."""
    return open_house_for_module(priced())


@pytest.fixture(params=["openais", "anthropics"])
def either(request: pytest.FixtureRequest) -> House:
    """Before one kind or the other."""
    house: House = request.getfixturevalue(request.param)
    return house


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("way", ["fall", "explicit", "bound", "A is closed"])
def test_an_api_without_completions_is_never_asked_for_one(
    anthropics: House, backends: Backends, order: Orders, way: str, stream: bool
) -> None:
    house = anthropics
    if way != "A is closed":
        order("one", **FAILS)
    else:
        house.close("A")
    more = {"bound": BOUND, "explicit": {"model": "tier-c"}}.get(way, {})
    answer = ask_at(house, "/v1/completions", said_at("/v1/completions", stream=stream, **more))
    assert answer.status in (400, 503), answer.body
    assert answer.error["code"] in ("unsupported_endpoint", "unsupported_field", "rogue_503", "switch_closed")
    house.open("A")
    assert OUTSIDE not in asked(backends)
    (record,) = records_of(house, answer.decision, "request")
    assert record["outcome"] != "internal"


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
def test_what_the_outside_has_no_words_for_falls_at_each_door(
    open_house: HouseOpener, backends: Backends, redact: bool
) -> None:
    house = open_house(Layout(b={}, c="anthropic", direct=("*",), sections={"tier_c": {"redact": redact}}))
    asked_for: Json = {"model": "tier-c", "logit_bias": {"5": 1}}
    chat = ask_at(house, "/v1/chat/completions", said_at("/v1/chat/completions", **asked_for))
    assert (chat.status, chat.tier) == (200, "A"), chat.body
    # At the door of its own API it is passed on as it came, unless it has to be read for what is to be hidden.
    both: Json = {"model": "tier-c", "temperature": 0.5, "top_p": 0.5}
    messages = ask_at(house, "/v1/messages", said_at("/v1/messages", **both))
    assert (messages.status, messages.tier) == (200, "A" if redact else "C"), messages.body
    assert asked(backends).get(OUTSIDE, 0) == (0 if redact else 1)


@pytest.mark.parametrize("limit", [None, 777], ids=["usual", "777"])
@pytest.mark.parametrize(("api", "field"), [("openai", "max_completion_tokens"), ("anthropic", "max_tokens")])
def test_a_request_without_a_limit_leaves_with_one_and_it_is_set_aside(
    open_house: HouseOpener, backends: Backends, api: str, field: str, limit: int | None
) -> None:
    house = open_house(priced(api) if limit is None else priced(api, max_tokens=limit))
    most = limit or 4096
    for door in ("/v1/chat/completions", "/v1/responses"):
        backends.forget()
        answer = ask_at(house, door, said_at(door, **BOUND))
        assert answer.status == 200, answer.body
        (hit,) = backends.hits()[OUTSIDE]
        assert hit.json()[field] == most
        assert {"max_tokens", "max_completion_tokens"} & hit.json().keys() == {field}
        (crossing,) = records_of(house, answer.decision, "crossing")
        assert most * TOKEN_MICROUSD <= crossing["reserved_microusd"] <= most * TOKEN_MICROUSD * 1.1


def test_a_limit_of_the_callers_own_stands(open_house: HouseOpener, backends: Backends) -> None:
    house = open_house(priced(max_tokens=777))
    for field in ("max_tokens", "max_completion_tokens"):
        backends.forget()
        answer = house.ask({**BOUND, field: 2000})
        (hit,) = backends.hits()[OUTSIDE]
        assert [hit.json().get(name) for name in ("max_tokens", "max_completion_tokens")].count(2000) == 1
        assert 777 not in hit.json().values()
        (crossing,) = records_of(house, answer.decision, "crossing")
        assert crossing["reserved_microusd"] >= 2000 * TOKEN_MICROUSD


def test_images_are_set_aside_for(open_house: HouseOpener) -> None:
    house = open_house(priced(usd_per_million_prompt=TOKEN_MICROUSD))
    image = {"type": "image_url", "image_url": {"url": "https://pictures.example/x.png"}}
    told = {"messages": [{"role": "user", "content": [image] * 20}], "max_tokens": 1}
    answer = house.ask({**BOUND, **told})
    (crossing,) = records_of(house, answer.decision, "crossing")
    assert crossing["reserved_microusd"] >= 20 * 1000 * TOKEN_MICROUSD


@pytest.mark.parametrize(
    "wish",
    [
        {"do": "refuse", "status": 401},
        {"do": "refuse", "status": 402},
        {"do": "redirect"},
        {"do": "error_event", "bare": True},
    ],
    ids=["401", "402", "302", "error first"],
)
def test_what_was_never_answered_costs_nothing(either: House, backends: Backends, order: Orders, wish: Json) -> None:
    house = either
    before = budget(house)
    order(OUTSIDE, **wish)
    answer = house.ask({**BOUND, "stream": True, "max_tokens": 100})
    assert answer.status >= 500
    assert answer.code not in (None, "internal")
    assert asked(backends) == {OUTSIDE: 1}
    assert budget(house) == before
    (attempt,) = records_of(house, answer.decision, "attempt")
    assert attempt["cost_microusd"] == 0


@pytest.mark.parametrize("wish", [{"do": "cut"}, {"do": "error_event"}], ids=["cut", "error later"])
def test_an_answer_that_is_cut_costs_what_was_set_aside(either: House, order: Orders, wish: Json) -> None:
    house = either
    spent, _ = budget(house)
    order(OUTSIDE, **wish)
    answer = house.ask({**BOUND, "stream": True, "max_tokens": 100})
    (crossing,) = records_of(house, answer.decision, "crossing")
    assert crossing["reserved_microusd"] == 100 * TOKEN_MICROUSD
    assert budget(house) == (spent + crossing["reserved_microusd"], 0)
    (attempt,) = records_of(house, answer.decision, "attempt")
    assert attempt["cost_microusd"] == crossing["reserved_microusd"]


def test_a_refused_key_is_the_operators_and_falls(open_house: HouseOpener, order: Orders) -> None:
    house = open_house(Layout(b={}, direct=("*",)))
    for status in (401, 402):
        order(OUTSIDE, do="refuse", status=status)
        assert house.ask(tier="C").tier == "A"
        bound = house.ask(BOUND)
        assert bound.status == 502, bound.body
        assert re.search("key or account", bound.error["message"])


def test_no_money_leaves_no_attempt(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    own = {"gpu-1": {"usd_per_hour": 1000}}
    poor: Json = {"flow": {"daily_budget_usd": 0.01}, "tier_c": PRICES}
    house = open_house(Layout(b={"gpu-1": ("express",)}, direct=("*",), own=own, sections=poor))
    order("one", **FAILS)
    cases = [({}, 1), ({"lumbre": {"complexity": "high"}}, 1), (BOUND, 0), ({"lumbre": {"affinity": "B"}}, 0)]
    for said, expected in cases:
        backends.forget()
        answer = house.ask({**said})
        assert answer.status in (429, 503), answer.body
        assert asked(backends) == ({"one": 1} if expected else {})
        records = records_of(house, answer.decision)
        assert [record["kind"] for record in records] == ["attempt"] * expected + ["request"]
        assert records[-1]["attempts"] == expected
    assert budget(house) == (0, 0)


def test_a_switch_closed_before_sending_leaves_no_attempt(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={"gpu-1": ("express",)}, own={"gpu-1": {"slots": 1}}))
    order("gpu-1", times=1, id="held", hold=True)
    calls = [house.chat({"model": "auto", "lumbre": {"affinity": "B"}}) for _ in range(2)]
    poll(lambda: house.in_flight() == (1, 1), what="the second does not wait")
    house.close("express")
    with calls[1] as waited:
        assert waited.status == 503
        decision = waited.header("x-lumbre-decision") or ""
        assert waited.error()["code"] == "switch_closed"
    backends["gpu-1"].release("held", 99)
    with calls[0] as ran:
        assert ran.status == 200
        ran.read()
    assert asked(backends) == {"gpu-1": 1}
    records = records_of(house, decision)
    assert [(record["kind"], record.get("attempts")) for record in records] == [("request", 0)]
