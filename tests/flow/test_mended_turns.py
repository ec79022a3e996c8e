"""Who is asked next: when a tier is full, when a machine refuses work fast, when one is on trial; and when a client is
told to come again.
"""

from contextlib import ExitStack

import pytest

from flow.flow_house import OUTSIDE, Answer, Backends, House, HouseOpener, Json, Layout
from flow.orders import Orders, asked, breaker, records_of
from wire_client import Call, poll

pytestmark = pytest.mark.slow

FAILS: Json = {"do": "refuse", "status": 500}
BUSY: Json = {"do": "refuse", "status": 429}
TRIES: Json = {"breaker": {"failures": 1, "open_s": 0.4, "most_open_s": 60, "probe_s": 60}}
"""One failure opens a breaker, and it is half open soon."""


def half_open(house: House, backends: Backends, order: Orders, name: str) -> None:
    """Have a request open a breaker, and wait until it is half open."""
    order(name, times=1, **FAILS)
    house.ask()
    poll(lambda: breaker(house, name) == "half_open", what=f"the breaker of {name} is not half open")
    backends.forget()


def read(call: Call) -> Answer:
    with call:
        told = {name.lower(): value for name, value in call.response.getheaders()}
        return Answer(call.status, told, call.read())


@pytest.mark.parametrize("why", ["it fails", "no money"])
def test_a_full_house_is_told_as_such_whatever_became_of_the_machine_beside_it(
    open_house: HouseOpener, backends: Backends, order: Orders, why: str
) -> None:
    own: Json = {"one": {"slots": 1}, "gpu-1": {"usd_per_hour": 0 if why == "it fails" else 1000}}
    sections: Json = {"limits": {"waiting": 0}, "flow": {"daily_budget_usd": 0.01}}
    house = open_house(Layout(b={"gpu-1": ("express",)}, c=None, own=own, sections=sections))
    order("one", times=1, id="held", hold=True)
    order("gpu-1", **FAILS)
    first = house.chat({"model": "auto"})
    poll(lambda: house.in_flight() == (1, 0))
    for stream in (False, True, False):
        answer = house.ask({"stream": stream})
        assert (answer.status, answer.code) == (429, "saturated"), answer.body
        assert answer.retry_after_s is not None
        records = records_of(house, answer.decision)
        assert records[-1]["attempts"] == len(records) - 1
    assert asked(backends) == {"one": 1, **({"gpu-1": 3} if why == "it fails" else {})}
    backends["one"].release("held", 99)
    assert read(first).status == 200


@pytest.mark.parametrize("tier", ["A", "B"])
def test_who_refuses_work_fast_gets_none_while_another_is_well(
    open_house: HouseOpener, backends: Backends, order: Orders, tier: str
) -> None:
    if tier == "A":
        layout, fast, well = Layout(a=("one", "two"), b={}, c=None), "one", "two"
    else:
        layout, fast, well = Layout(b={"gpu-1": ("express",), "gpu-3": ("express",)}, c=None), "gpu-1", "gpu-3"
    house = open_house(layout)
    order(fast, **BUSY)
    order(well, id="busy", hold=True)
    with ExitStack() as stack:
        for number in range(8):
            stack.enter_context(house.chat({"model": "auto", "lumbre": {"affinity": tier}}))
            poll(lambda wanted=number + 1: asked(backends).get(well, 0) == wanted)  # type: ignore[misc]
        assert asked(backends).get(fast, 0) <= 1
        backends[well].release("busy", 999)


def test_the_next_turn_is_that_of_the_soonest_of_those_who_could_take_it(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    rests = {"one": 5, "two": 60, "three": 600}
    own = {name: {"model": f"m-{name}"} for name in rests}
    house = open_house(Layout(a=tuple(rests), b={}, c=None, own=own))
    for name, rest_s in rests.items():
        order(name, **BUSY, retry_after=str(rest_s))
    for name in ("one", "two"):
        answer = house.ask({"model": f"m-{name}"})
        assert (answer.status, answer.retry_after_s) == (429, rests[name])
    last = house.ask()  # only the third is left to be asked
    assert last.status == 429
    assert last.retry_after_s is not None
    assert 1 <= last.retry_after_s <= 5
    for name, rest_s in rests.items():
        bound = house.ask({"model": f"m-{name}"})
        assert bound.status == 503
        assert bound.retry_after_s is not None
        assert rest_s - 5 <= bound.retry_after_s <= rest_s
    anybody = house.ask().retry_after_s
    assert anybody is not None
    assert 1 <= anybody <= 5
    assert asked(backends) == dict.fromkeys(rests, 1)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_turn_of_a_machine_that_may_not_take_it_is_not_told(
    open_house: HouseOpener, order: Orders, stream: bool
) -> None:
    house = open_house(Layout(c=None))
    order("gpu-1", **BUSY, retry_after="20")
    order("one", **BUSY, retry_after="600")
    on_b = house.ask({"stream": stream}, label="express", affinity="B")
    assert (on_b.status, on_b.retry_after_s) == (429, 20)
    for status in (429, 503):
        on_a = house.ask({"stream": stream}, affinity="A")
        assert on_a.status == status
        assert on_a.retry_after_s is not None
        assert 590 <= on_a.retry_after_s <= 600


def test_while_a_trial_hangs_others_go_on_where_somebody_is_ready(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(sections=TRIES))
    half_open(house, backends, order, "one")
    order("one", times=1, id="trial", do="no_header")
    trial = house.chat({"model": "auto"})
    backends["one"].wait("trial", "started")
    for stream in (False, True):
        for _ in range(3):
            answer = house.ask({"stream": stream})
            assert (answer.status, answer.tier) == (200, "B")
    assert asked(backends)["one"] == 1
    assert OUTSIDE not in asked(backends)
    trial.leave()
    backends["one"].wait("trial", "gone")
    poll(lambda: house.in_flight() == (0, 0))
    assert house.ask().tier == "A"
    assert breaker(house, "one") == "closed"


def test_where_there_is_nobody_else_they_wait_until_the_trial_has_said_its_first_token(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}, c=None, sections=TRIES))
    half_open(house, backends, order, "one")
    order("one", times=1, id="trial", hold=True, chunks=5)
    trial = house.chat({"model": "auto", "stream": True})
    backends["one"].wait("trial", "held")
    others = [house.chat({"model": "auto", "stream": number % 2 == 1}) for number in range(4)]
    poll(lambda: house.in_flight() == (1, 4), what="the others do not wait")
    backends["one"].release("trial")  # the role, and no token
    backends["one"].wait("trial", "held", 2)
    backends.fence()
    assert house.in_flight() == (1, 4)
    assert breaker(house, "one") == "half_open"
    backends["one"].release("trial")
    assert b"word0" in trial.read_until(b"word0")
    assert [read(call).status for call in others] == [200] * 4
    assert house.in_flight() == (1, 0)  # the trial goes on
    assert breaker(house, "one") == "closed"
    backends["one"].release("trial", 99)
    assert b"[DONE]" in trial.read()
    trial.leave()
    assert asked(backends) == {"one": 5}


def test_who_breaks_every_stream_after_its_first_token_is_left_alone(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}, sections={"breaker": {**TRIES["breaker"], "failures": 3, "open_s": 60}}))
    order("one", do="cut")
    for _ in range(3):
        assert breaker(house, "one") == "closed"
        assert house.ask({"stream": True}).tier == "A"
    assert breaker(house, "one") == "open"
    assert house.ask({"stream": True}).tier == "C"
    assert asked(backends) == {"one": 3, OUTSIDE: 1}
