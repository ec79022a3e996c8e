"""Breakers before real backends: what opens one, who tries it when it is half open, and who gets the work meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from flow.flow_house import OUTSIDE, Answer, Backends, House, HouseOpener, Json, Layout
from flow.orders import Orders, breaker, records_of
from wire_client import Call, poll

ONE_B: Json = {"gpu-1": ("express", "batch")}
TWO_B: Json = {"gpu-1": ("express",), "gpu-3": ("express",)}
FAILS: dict[str, Any] = {"do": "refuse", "status": 500}
ON_B: Json = {"lumbre": {"affinity": "B"}}
JITTER = 0.2
"""The largest part by which an opening is shortened."""


def wait_breaker(house: House, name: str, state: str) -> None:
    poll(lambda: breaker(house, name) == state, what=f"the breaker of {name} is not {state}")


def hits(backends: Backends, name: str) -> int:
    return len(backends.hits().get(name, ()))


def limits(**breaker: float) -> Json:
    return {"breaker": {"failures": 1, "open_s": 60, "most_open_s": 60, "probe_s": 60, **breaker}}


@pytest.mark.parametrize(
    "failing", [pytest.param(503, id="503"), pytest.param(0, id="silence", marks=pytest.mark.slow)]
)
def test_failed_probes_open_it_with_no_traffic_at_all(
    open_house: HouseOpener, backends: Backends, failing: int
) -> None:
    sections = limits(failures=3, probe_s=0.2)
    house = open_house(Layout(b=ONE_B, c=None, sections=sections))
    for name, tier in (("one", "A"), ("gpu-1", "B")):
        backends[name].answer_models_with(failing)
        try:
            wait_breaker(house, name, "open")
            answer = house.ask(affinity=tier)
            assert (answer.status, answer.code) == (503, "no_tier")
            assert answer.retry_after_s is not None
        finally:
            backends[name].answer_models_with(200)
        wait_breaker(house, name, "half_open")  # an answer, after so many silent probes, is news
    assert backends.hits() == {}


def test_fewer_failed_probes_do_not(open_house: HouseOpener, backends: Backends) -> None:
    house = open_house(Layout(b={}, sections=limits(failures=50, probe_s=0.1)))
    asked = backends.looks()["one"]
    backends["one"].answer_models_with(503)
    try:
        poll(lambda: backends.looks()["one"] >= asked + 4)
        assert breaker(house, "one") == "closed"
        assert house.ask().tier == "A"
    finally:
        backends["one"].answer_models_with(200)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(FAILS, id="500"),
        pytest.param({"do": "cut_before_head"}, id="cut", marks=pytest.mark.slow),
        pytest.param({"do": "not_json"}, id="not JSON", marks=pytest.mark.slow),
    ],
)
def test_failed_requests_open_it_though_it_answers_its_probes(
    open_house: HouseOpener, backends: Backends, order: Orders, failure: Json
) -> None:
    house = open_house(Layout(b=ONE_B, c=None, sections=limits(failures=3, probe_s=0.1)))
    order("gpu-1", **failure)
    for _ in range(3):
        assert breaker(house, "gpu-1") == "closed"
        assert house.ask(ON_B).status >= 500
    assert breaker(house, "gpu-1") == "open"
    looked = backends.looks()["gpu-1"]
    poll(lambda: backends.looks()["gpu-1"] >= looked + 5)
    assert breaker(house, "gpu-1") == "open"
    assert hits(backends, "gpu-1") == 3


def test_a_success_between_failures_keeps_it_closed(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(Layout(b=ONE_B, c=None, sections=limits(failures=3)))
    for _ in range(4):
        order("gpu-1", times=2, **FAILS)
        assert [house.ask(ON_B).status for _ in range(3)] == [500, 500, 200]
    assert breaker(house, "gpu-1") == "closed"


def test_an_open_breaker_lets_interactive_work_fall_and_refuses_what_is_bound(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b=ONE_B, sections=limits()))
    order("gpu-1", **FAILS)
    assert house.ask(ON_B).status == 500
    assert house.ask(complexity="high").tier == "A"
    assert house.ask(tier="B").tier == "A"
    for stream in (False, True):
        answer = house.ask({**ON_B, "stream": stream})
        assert (answer.status, answer.code) == (503, "no_tier")
        assert "open (tripped)" in answer.error["message"]
        assert answer.retry_after_s is not None
        assert 40 <= answer.retry_after_s <= 60
    assert hits(backends, "gpu-1") == 1
    assert hits(backends, OUTSIDE) == 0


def test_the_outsides_breaker_is_opened_by_requests_alone(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}, direct=("*",), sections=limits(failures=2, open_s=0.5)))
    order(OUTSIDE, times=2, **FAILS)
    for _ in range(3):
        assert house.ask(tier="C").tier == "A"
    assert hits(backends, OUTSIDE) == 2
    wait_breaker(house, OUTSIDE, "half_open")
    assert backends.looks()[OUTSIDE] == 0
    assert house.ask(tier="C").tier == "C"
    assert breaker(house, OUTSIDE) == "closed"


def tripped(house: House, backends: Backends, order: Orders, name: str, asked: Json) -> None:
    """Have a request open a breaker, and wait until it is half open."""
    order(name, times=1, **FAILS)
    assert house.ask(asked).status in (200, 500)
    wait_breaker(house, name, "half_open")
    backends.forget()


def answers(calls: list[Call]) -> list[Answer]:
    """Read replies to their ends, whichever comes first."""

    def read(call: Call) -> Answer:
        with call:
            told = {name.lower(): value for name, value in call.response.getheaders()}
            return Answer(call.status, told, call.read())

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(read, calls))


HALF = {"open_s": 0.4, "most_open_s": 60}


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "free"])
def test_one_of_a_hundred_tries_a_rented_machine_and_the_others_go_on(
    open_house: HouseOpener, backends: Backends, order: Orders, bound: bool
) -> None:
    house = open_house(Layout(a=("one",), b=ONE_B, sections=limits(**HALF)))
    asked: Json = {"model": "auto", "lumbre": {"affinity": "B"} if bound else {"complexity": "high"}}
    tripped(house, backends, order, "gpu-1", asked)
    order("gpu-1", id="trial", hold=True)
    calls = [house.chat(asked) for _ in range(100)]
    poll(lambda: _ended(house) >= 100, 30, "the others did not go on")
    assert breaker(house, "gpu-1") == "half_open"
    assert hits(backends, "gpu-1") == 1
    backends["gpu-1"].release("trial", 9)
    told = answers(calls)
    assert sum(answer.tier == "B" for answer in told) == 1
    if bound:
        assert sorted(answer.status for answer in told) == [200] + [503] * 99
        assert hits(backends, "one") == 0
    else:
        assert [answer.status for answer in told] == [200] * 100
        assert hits(backends, "one") == 99
    assert breaker(house, "gpu-1") == "closed"
    assert hits(backends, OUTSIDE) == 0


def _ended(house: House) -> int:
    """Requests that have ended, the one that opened the breaker among them."""
    return int(house.metric("lumbre_requests_total"))


def test_one_of_a_hundred_tries_the_house_and_the_others_wait(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}, c=None, sections={**limits(**HALF), "limits": {"waiting": 200}}))
    tripped(house, backends, order, "one", {})
    order("one", times=1, id="trial", hold=True)
    calls = [house.chat({"model": "auto"}) for _ in range(100)]
    poll(lambda: house.in_flight() == (1, 99), 30, "the others do not wait")
    assert hits(backends, "one") == 1
    backends["one"].release("trial", 9)
    assert [answer.status for answer in answers(calls)] == [200] * 100
    assert hits(backends, "one") == 100
    assert breaker(house, "one") == "closed"


def test_the_others_are_told_at_once_when_the_trial_fails(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}, c=None, sections={**limits(**HALF), "limits": {"waiting": 200}}))
    tripped(house, backends, order, "one", {})
    order("one", id="trial", hold=True, **FAILS)
    calls = [house.chat({"model": "auto"}) for _ in range(30)]
    poll(lambda: house.in_flight() == (1, 29), 30, "the others do not wait")
    backends["one"].release("trial", 9)
    assert sorted(answer.status for answer in answers(calls)) == [500] + [503] * 29
    assert hits(backends, "one") == 1
    assert breaker(house, "one") == "open"


@pytest.mark.parametrize(
    ("name", "tier", "stream"),
    [
        ("one", "A", False),
        ("gpu-1", "B", True),
        pytest.param("one", "A", True, marks=pytest.mark.slow),
        pytest.param("gpu-1", "B", False, marks=pytest.mark.slow),
    ],
)
def test_a_trial_whose_client_leaves_is_given_back(
    open_house: HouseOpener, backends: Backends, order: Orders, name: str, tier: str, stream: bool
) -> None:
    house = open_house(Layout(b=ONE_B, c=None, sections=limits(**HALF)))
    bound: Json = {"model": "auto", "lumbre": {"affinity": tier}}
    tripped(house, backends, order, name, bound)
    order(name, times=1, id="left", do="no_header")
    call = house.chat({**bound, "stream": stream})
    backends[name].wait("left", "started")
    call.leave()
    backends[name].wait("left", "gone")
    poll(lambda: house.in_flight() == (0, 0))
    assert breaker(house, name) == "half_open"  # who went away has said nothing of it
    assert house.ask(bound).status == 200
    assert breaker(house, name) == "closed"
    assert hits(backends, name) == 2


@pytest.mark.parametrize(
    "wish",
    [{"do": "refuse", "status": 400}, {"do": "refuse", "status": 429, "retry_after": "1"}],
    ids=["400", "429"],
)
def test_a_trial_without_a_verdict_is_given_back(
    open_house: HouseOpener, backends: Backends, order: Orders, wish: Json
) -> None:
    house = open_house(Layout(b=ONE_B, c=None, sections=limits(**HALF)))
    tripped(house, backends, order, "gpu-1", ON_B)
    order("gpu-1", times=1, **wish)
    assert house.ask(ON_B).status == wish["status"]
    house.wait_state("gpu-1", "ready")
    assert house.ask(ON_B).status == 200
    assert breaker(house, "gpu-1") == "closed"


@pytest.mark.slow
def test_who_flaps_stays_open_longer_each_time_up_to_a_cap(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    open_s, most_s = 0.3, 1.2
    house = open_house(Layout(b=ONE_B, c=None, sections=limits(open_s=open_s, most_open_s=most_s, probe_s=0.1)))
    order("gpu-1", **FAILS)
    poll(lambda: bool(house.ask(ON_B)) and hits(backends, "gpu-1") >= 6, 30, "it was not tried often enough")
    times = [hit.started_s for hit in backends.hits()["gpu-1"][:6]]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    for gap, opening in zip(gaps, (0.3, 0.6, 1.2, 1.2, 1.2), strict=True):
        assert opening * (1 - JITTER) - 0.02 <= gap <= opening + 1.5, gaps
    assert gaps[2] > gaps[0]


def test_who_fails_fast_does_not_look_idle(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(Layout(b=TWO_B, c=None, sections=limits(failures=100)))
    order("gpu-1", do="refuse", status=503)
    order("gpu-3", id="busy", hold=True)
    with ExitStack() as stack:
        for number in range(6):
            stack.enter_context(house.chat({"model": "auto", **ON_B}))
            poll(lambda wanted=number + 1: hits(backends, "gpu-3") == wanted)  # type: ignore[misc]
        assert hits(backends, "gpu-1") <= 1
        backends["gpu-3"].release("busy", 99)


def test_among_healthy_machines_the_least_busy_is_asked(open_house: HouseOpener, backends: Backends) -> None:
    house = open_house(Layout(b=TWO_B, c=None))
    with ExitStack() as stack:
        for number in range(8):
            wish = {"id": f"n{number}", "hold": True}
            stack.enter_context(house.chat({"model": "auto", "rogue": wish, **ON_B}))
            poll(lambda wanted=number + 1: _running(house) == wanted)  # type: ignore[misc]
            loads = [hits(backends, name) for name in TWO_B]
            assert abs(loads[0] - loads[1]) <= 1, loads
        # One of them is done with its work: the next three are its own.
        light = backends.hits()["gpu-3"]
        for hit in light[:3]:
            backends["gpu-3"].release(hit.id, 9)
        poll(lambda: _running(house) == 5)
        for number in range(3):
            stack.enter_context(house.chat({"model": "auto", "rogue": {"id": f"m{number}", "hold": True}, **ON_B}))
            poll(lambda wanted=6 + number: _running(house) == wanted)  # type: ignore[misc]
        assert hits(backends, "gpu-3") == 7
        for name in TWO_B:
            for hit in backends.hits()[name]:
                backends[name].release(hit.id, 9)
        poll(lambda: _running(house) == 0)


def _running(house: House) -> int:
    return house.in_flight()[0]


def test_a_machine_that_failed_once_gets_work_again(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    """One failure of long ago must not idle a machine that is paid for."""
    sections = limits(failures=5, open_s=0.3, most_open_s=0.5, probe_s=0.1)
    house = open_house(Layout(b=TWO_B, c=None, sections=sections))
    order("gpu-1", times=1, **FAILS)
    poll(lambda: house.ask(ON_B).status == 200 and hits(backends, "gpu-1") == 1)
    poll(lambda: house.ask(ON_B).status == 200 and hits(backends, "gpu-1") > 1, 5, "it gets no work any more")


def test_a_machine_that_is_half_open_is_tried_though_another_is_well(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b=TWO_B, c=None, sections=limits(open_s=0.3, probe_s=0.1)))
    order("gpu-1", times=1, **FAILS)
    poll(lambda: house.ask(ON_B).status == 200 and hits(backends, "gpu-1") == 1)
    wait_breaker(house, "gpu-1", "half_open")
    poll(lambda: house.ask(ON_B).status == 200 and breaker(house, "gpu-1") == "closed", 5, "nobody tries it")


def test_a_broken_neighbour_costs_nobody_an_answer(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(Layout(b=TWO_B, c=None, sections=limits(failures=3, open_s=0.3, most_open_s=1)))
    order("gpu-1", **FAILS)
    answers = [house.ask(ON_B) for _ in range(40)]
    assert [answer.status for answer in answers] == [200] * 40
    assert {answer.node for answer in answers} == {"gpu-3"}
    for answer in answers[-3:]:
        assert records_of(house, answer.decision)[-1]["attempts"] in (1, 2)
