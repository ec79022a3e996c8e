"""Until the client has had the first token a failed attempt moves on in silence; after it, nobody else is asked."""

import json
from collections.abc import Iterator
from pathlib import Path

import anthropic
import openai
import pytest

from flow.flow_house import OUTSIDE, Backends, House, HouseOpener, Json, Layout
from flow.orders import Orders, asked
from flow.sdk_doors import DOORS, UNBOUND, Ask, sdk_clients
from rogue_process import RogueProcess

DEAD = "http://127.0.0.1:9/v1"
LIMITS = {"connect_s": 0.6, "header_s": 0.6, "first_token_s": 0.6, "idle_s": 0.6, "total_s": 20}
"""Deadlines that a test waits for."""

each_door = pytest.mark.parametrize("door", DOORS)
each_form = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


@pytest.fixture(scope="module")
def house(open_house_for_module: HouseOpener) -> House:
    """Tiers A and C, with all the patience there is."""
    return open_house_for_module(Layout(b={}, direct=("*",)))


@pytest.fixture(scope="module")
def ask(house: House) -> Iterator[Ask]:
    yield from sdk_clients(house)


@pytest.fixture(scope="module")
def hasty(open_house_for_module: HouseOpener) -> House:
    """The same with short deadlines, and comments often."""
    sections = {"deadlines": LIMITS, "gateway": {"keepalive_s": 0.2}}
    return open_house_for_module(Layout(b={}, direct=("*",), sections=sections))


@pytest.fixture(scope="module")
def ask_hasty(hasty: House) -> Iterator[Ask]:
    yield from sdk_clients(hasty)


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def frail(request: pytest.FixtureRequest, open_house_for_module: HouseOpener) -> House:
    """Before an outside API of one kind or the other, which the tests have fail."""
    return open_house_for_module(Layout(b={}, c=request.param, direct=("*",)))


@pytest.fixture(scope="module")
def ask_frail(frail: House) -> Iterator[Ask]:
    yield from sdk_clients(frail)


@pytest.fixture(scope="module")
def touchy(open_house_for_module: HouseOpener) -> House:
    """Its breakers open after three failures."""
    return open_house_for_module(Layout(b={}, sections={"breaker": {"failures": 3, "probe_s": 60}}))


AT_ONCE: dict[str, Json] = {
    "500": {"do": "refuse", "status": 500},
    "502 of a proxy": {"do": "html", "status": 502},
    "503": {"do": "refuse", "status": 503},
    "529": {"do": "refuse", "status": 529},
    "429": {"do": "refuse", "status": 429},
    "408": {"do": "refuse", "status": 408},
    "cut before the head": {"do": "cut_before_head"},
    "reset before the head": {"do": "cut_before_head", "reset": True},
    "cut in the head": {"do": "cut_in_head"},
    "no HTTP": {"do": "garbage"},
    "a page of HTML": {"do": "html", "status": 200},
    "a redirect": {"do": "redirect"},
    "nothing": {"do": "empty"},
    "other JSON": {"do": "wrong_json"},
    "no JSON": {"do": "not_json"},
    "half a body": {"do": "truncated"},
}
OF_STREAMS: dict[str, Json] = {
    "an error comes first": {"do": "error_event", "bare": True},
    "a role, then an error": {"do": "error_event", "chunks": 0},
    "a role, then a cut": {"do": "cut", "chunks": 0},
    "a role, then a reset": {"do": "cut", "chunks": 0, "reset": True},
    "a role, then the end": {"do": "end_unfinished", "chunks": 0},
    "no event at all": {"do": "empty_stream"},
    "no stream": {"do": "json_for_stream"},
}


@each_form
@each_door
@pytest.mark.parametrize("failure", AT_ONCE)
def test_a_failure_before_the_first_token_is_never_seen(
    ask: Ask, house: House, backends: Backends, order: Orders, failure: str, door: str, stream: bool
) -> None:
    order("one", times=1, **AT_ONCE[failure])
    order(OUTSIDE, text="from the outside", chunks=3)
    assert ask(door, stream, **UNBOUND).text == "from the outside"
    assert asked(backends) == {"one": 1, OUTSIDE: 1}
    assert house.ask().tier == "A"


@each_door
@pytest.mark.parametrize("failure", OF_STREAMS)
def test_a_stream_that_fails_before_its_first_token_is_never_seen(
    ask: Ask, house: House, backends: Backends, order: Orders, failure: str, door: str
) -> None:
    order("one", times=1, **OF_STREAMS[failure])
    order(OUTSIDE, text="from the outside", chunks=3)
    assert ask(door, True, **UNBOUND).text == "from the outside"
    assert asked(backends) == {"one": 1, OUTSIDE: 1}
    assert house.ask().tier == "A"


@each_form
@each_door
@pytest.mark.parametrize("failure", ["529", "cut before the head", "no HTTP", "half a body", "other JSON"])
def test_when_the_outside_fails_the_house_answers(
    ask_frail: Ask, backends: Backends, order: Orders, failure: str, door: str, stream: bool
) -> None:
    order("one", text="from the house")
    order(OUTSIDE, **AT_ONCE[failure])
    assert ask_frail(door, stream, model="tier-c", extra_body={}).text == "from the house"
    assert asked(backends) == {"one": 1, OUTSIDE: 1}


@each_door
@pytest.mark.parametrize("failure", ["an error comes first", "a role, then an error", "a role, then a cut"])
def test_when_the_outsides_stream_fails_the_house_answers(
    ask_frail: Ask, backends: Backends, order: Orders, failure: str, door: str
) -> None:
    order("one", text="from the house")
    order(OUTSIDE, **OF_STREAMS[failure])
    assert ask_frail(door, True, model="tier-c", extra_body={}).text == "from the house"
    assert asked(backends) == {"one": 1, OUTSIDE: 1}


SLOW: dict[str, tuple[Json, tuple[bool, ...]]] = {
    "no head": ({"do": "no_header"}, (False, True)),
    "a head and no token": ({"do": "silent"}, (False, True)),
    "a role and no token": ({"do": "stall", "chunks": 0}, (True,)),
    "comments and no token": ({"do": "hum"}, (True,)),
    "half a body": ({"do": "stall"}, (False,)),
}


@pytest.mark.parametrize(
    "door", [pytest.param(door, marks=[pytest.mark.slow] if door != "chat" else []) for door in DOORS]
)
@pytest.mark.parametrize(
    ("failure", "stream"),
    [(name, stream) for name, (_, forms) in SLOW.items() for stream in forms],
)
def test_an_upstream_that_is_too_slow_is_given_up_and_the_next_has_time_of_its_own(
    ask_hasty: Ask, backends: Backends, order: Orders, failure: str, stream: bool, door: str
) -> None:
    order("one", **SLOW[failure][0])
    order(OUTSIDE, text="from the outside", chunks=3, silent_s=0.3)
    assert ask_hasty(door, stream, **UNBOUND).text == "from the outside"
    assert asked(backends) == {"one": 1, OUTSIDE: 1}


def test_comments_come_before_the_move_and_a_whole_stream_after_it(
    hasty: House, backends: Backends, order: Orders
) -> None:
    order("one", do="no_header")
    order(OUTSIDE, text="from the outside", chunks=3, silent_s=0.3)
    with hasty.chat({"model": "auto", "stream": True}) as call:
        events = list(call.events())
        assert call.status == 200
    comments = [event for event in events if event.startswith(":")]
    data = [event.removeprefix("data: ") for event in events if not event.startswith(":")]
    assert len(comments) >= 2
    assert events.index(comments[-1]) < events.index(f"data: {data[0]}")
    assert any(OUTSIDE in comment for comment in comments)  # the head has named the other
    chunks = [json.loads(each) for each in data[:-1]]
    assert data[-1] == "[DONE]"
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "from the outside"
    assert [chunk["choices"][0]["delta"].get("role") for chunk in chunks].count("assistant") == 1


def test_an_upstream_that_takes_no_connection_is_gone_round(
    open_house: HouseOpener, backends: Backends, tmp_path: Path
) -> None:
    with RogueProcess(tmp_path) as lost:
        own = {"one": {"base_url": f"{lost.url}/v1"}}
        house = open_house(Layout(b={}, own=own, sections={"breaker": {"probe_s": 60}}))
    for stream in (False, True):
        answer = house.ask({"stream": stream})
        assert (answer.status, answer.tier) == (200, "C")
    assert asked(backends) == {OUTSIDE: 2}


AFTER: dict[str, Json] = {
    "an error": {"do": "error_event", "chunks": 3},
    "a cut": {"do": "cut", "chunks": 3},
    "a reset": {"do": "cut", "chunks": 3, "reset": True},
    "broken framing": {"do": "bad_framing", "chunks": 3},
    "an end without a finish": {"do": "end_unfinished", "chunks": 3},
}


@each_door
@pytest.mark.parametrize("failure", AFTER)
def test_after_the_first_token_a_stream_ends_in_an_error_and_nobody_else_is_asked(
    ask: Ask, house: House, backends: Backends, order: Orders, failure: str, door: str
) -> None:
    order("one", times=1, **AFTER[failure])
    with pytest.raises((openai.APIError, anthropic.APIError), match=r"the (engine|upstream|rogue)"):
        ask(door, True, **UNBOUND)
    assert asked(backends) == {"one": 1}
    assert house.ask().tier == "A"


def test_an_upstream_that_falls_silent_after_a_token_ends_the_stream(
    hasty: House, backends: Backends, order: Orders
) -> None:
    order("one", do="stall", chunks=2)
    with hasty.chat({"model": "auto", "stream": True}) as call:
        *_, last = call.events()
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "deadline_idle"
    assert asked(backends) == {"one": 1}


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_callers_own_mistake_never_moves_on_and_never_counts(
    touchy: House, backends: Backends, order: Orders, status: int
) -> None:
    order("one", do="refuse", status=status)
    for number in range(50):
        assert touchy.ask({"stream": number % 2 == 0}).status == status
    assert asked(backends) == {"one": 50}
    assert touchy.states()["one"] == "ready"
    (upstream,) = touchy.flow()["tiers"]["A"]["upstreams"]
    assert upstream["breaker"]["shown"] == "closed (flowing)"
