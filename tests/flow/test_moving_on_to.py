"""Where work goes that somebody could not take: who is next, who wants to be left alone, who is full, who has gone."""

import time
from email.utils import formatdate
from typing import Any

import pytest

from flow.flow_house import OUTSIDE, Backends, House, HouseOpener, Json, Layout
from flow.orders import Orders, asked, records_of
from wire_client import Call, poll

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def house(open_house_for_module: HouseOpener) -> House:
    """Tiers A and C."""
    return open_house_for_module(Layout(b={}, direct=("*",)))


@pytest.fixture(scope="module")
def three(open_house_for_module: HouseOpener) -> House:
    """One upstream in each tier; what the clients ask for is no model of anybody's in particular."""
    return open_house_for_module(Layout(b={"gpu-1": ("express", "batch")}, direct=("*",)))


def test_a_number_of_seconds_is_waited_for(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(Layout(b={}))
    order("one", times=1, do="refuse", status=429, retry_after="2")
    assert house.ask().tier == "C"
    assert house.states()["one"] == "cooling"
    for _ in range(5):
        assert house.ask().tier == "C"
    house.wait_state("one", "ready")
    assert house.ask().tier == "A"
    refused, asked_again = backends.hits()["one"]
    assert 2 <= asked_again.started_s - refused.started_s < 6


@pytest.mark.slow
def test_a_date_is_waited_for(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(Layout(b={}))
    poll(lambda: 0.3 < time.time() % 1 < 0.5, what="the second has no middle")
    until = int(time.time()) + 3
    order("one", times=1, do="refuse", status=503, retry_after=formatdate(until, usegmt=True))
    assert house.ask().tier == "C"
    house.wait_state("one", "ready")
    assert house.ask().tier == "A"
    asked_again = backends.hits()["one"][1].started_s + time.time() - time.monotonic()
    assert until - 0.05 <= asked_again < until + 4


@pytest.mark.slow
def test_of_two_wishes_to_be_left_alone_the_later_holds(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}))
    order(OUTSIDE, do="answer", hold=False)
    wish = {"do": "refuse", "status": 429, "hold": True}
    bodies = [{"model": "auto", "rogue": {**wish, "id": f"r{wait}", "retry_after": wait}} for wait in ("3", "1")]
    calls = [house.chat(body) for body in bodies]
    for wait, call in zip(("3", "1"), calls, strict=True):
        backends["one"].wait(f"r{wait}", "held")
        backends["one"].release(f"r{wait}", 9)
        with call:
            assert call.status == 200
            call.read()
    began_s = time.monotonic()
    house.wait_state("one", "ready")
    assert time.monotonic() - began_s > 1.8


def test_the_wish_to_be_left_alone_is_handed_on_when_nobody_is_left(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}, c=None))
    order("one", do="refuse", status=429, retry_after="30")
    first = house.ask()
    assert (first.status, first.retry_after_s) == (429, 30)
    second = house.ask({"stream": True})
    assert second.status == 503
    assert second.retry_after_s is not None
    assert 25 <= second.retry_after_s <= 30
    assert asked(backends) == {"one": 1}


@pytest.mark.parametrize(
    ("ill", "tier", "answering"),
    [
        (("one",), "A", "B"),
        (("one", "gpu-1"), "A", "C"),
        (("gpu-1",), "B", "A"),
        (("gpu-1", "one"), "B", "C"),
        ((OUTSIDE,), "C", "A"),
    ],
    ids=str,
)
@pytest.mark.parametrize("failure", [{"do": "refuse", "status": 500}, {"do": "cut_before_head"}], ids=str)
def test_each_tier_falls_to_the_next(
    three: House,
    backends: Backends,
    order: Orders,
    ill: tuple[str, ...],
    tier: str,
    answering: str,
    failure: Json,
) -> None:
    for name in ill:
        order(name, **failure)
    answer = three.ask(model_of(tier))
    assert (answer.status, answer.tier) == (200, answering)
    assert list(asked(backends).values()) == [1] * (len(ill) + 1)
    attempts = records_of(three, answer.decision, "attempt")
    assert [each["node"] for each in attempts[:-1]] == list(ill)
    assert attempts[-1]["tier"] == answering


def model_of(tier: str) -> Json:
    return {"model": {"A": "auto", "B": "tier-b", "C": "tier-c"}[tier]}


def test_a_tier_that_is_down_is_not_even_asked(open_house: HouseOpener, backends: Backends) -> None:
    house = open_house(Layout(sections={"breaker": {"failures": 1}}))
    house.set_well("one", well=False)
    assert house.ask().tier == "B"
    house.set_well("gpu-1", well=False)
    assert house.ask().tier == "C"
    assert asked(backends) == {"gpu-1": 1, OUTSIDE: 1}


def test_a_full_house_goes_to_the_rented_machine_and_never_outside(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    own = {"one": {"slots": 1}, "gpu-1": {"slots": 1}}
    layout = Layout(b={"gpu-1": ("express", "batch")}, own=own, sections={"limits": {"waiting": 0}})
    house = open_house(layout)
    with held(house, backends, "one", "h1"):
        assert house.ask().tier == "B"
        with held(house, backends, "gpu-1", "h2"):
            full = house.ask()
            assert (full.status, full.code) == (429, "saturated")
            assert full.retry_after_s is not None
            streamed = house.ask({"stream": True})
            assert (streamed.status, streamed.code) == (429, "saturated")
    assert OUTSIDE not in asked(backends)


def test_whoever_may_wait_waits_for_the_house_first(open_house: HouseOpener, backends: Backends) -> None:
    layout = Layout(own={"one": {"slots": 1}}, sections={"limits": {"waiting": 5, "wait_s": 0.5}})
    house = open_house(layout)
    with held(house, backends, "one", "h1"):
        began_s = time.monotonic()
        assert house.ask().tier == "B"
        assert time.monotonic() - began_s >= 0.5
    assert OUTSIDE not in asked(backends)


class held:  # noqa: N801 a context manager in all but name
    """A request that takes a backend's only slot until the end."""

    def __init__(self, house: House, backends: Backends, name: str, exchange_id: str) -> None:
        self._rogue, self._id = backends[name], exchange_id
        self._call: Call = house.chat({"model": "auto", "rogue": {"id": exchange_id, "hold": True}})
        self._rogue.wait(exchange_id, "held")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._rogue.release(self._id, 9)
        with self._call:
            assert self._call.status == 200
            self._call.read()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_when_the_client_has_gone_nobody_else_is_asked(
    house: House, backends: Backends, order: Orders, stream: bool
) -> None:
    order("one", do="no_header", id="left")
    call = house.chat({"model": "auto", "stream": stream})
    backends["one"].wait("left", "started")
    call.leave()
    backends["one"].wait("left", "gone")
    poll(lambda: house.in_flight() == (0, 0))
    with house.get("/v1/ledger?kind=request&limit=1") as told:
        (ended,) = told.json()["records"]
    assert (ended["outcome"], ended["attempts"], ended["node"]) == ("client_gone", 1, "one")
    assert asked(backends) == {"one": 1}


def test_no_more_is_tried_when_the_time_is_over(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    sections: dict[str, Any] = {"deadlines": {"header_s": 0.5, "first_token_s": 20, "total_s": 0.5}}
    house = open_house(Layout(b={}, sections=sections))
    order("one", do="no_header")
    assert house.ask().status == 504
    assert asked(backends) == {"one": 1}
