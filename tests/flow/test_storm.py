"""A switch closed in the middle of a storm: what is in flight finishes, and nothing new reaches what it covers."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from flow.flow_house import OUTSIDE, Backends, House, HouseOpener, Layout
from flow.storm import DOORS, FRAIL, Ask, Storm
from wire_client import poll

SIZE = 200
SLOTS_OF_BATCH = 10
FAILING = ("two", "gpu-3")
GOOD = ("one", "gpu-1", "gpu-2", OUTSIDE)

COVERS = {
    "A": ("one", "two"),
    "B": ("gpu-1", "gpu-2", "gpu-3"),
    "express": ("gpu-1", "gpu-3"),
    "gpu-1": ("gpu-1",),
    "C": (OUTSIDE,),
    "global": ("gpu-1", "gpu-2", "gpu-3", OUTSIDE),
}
"""The backends behind each switch."""


@pytest.fixture(scope="module")
def house(open_house_for_module: HouseOpener) -> House:
    """Two of its nodes list their models and fail every request, so their breakers open and try again all the time."""
    plenty = {name: {"slots": 4 * SIZE} for name in ("one", "gpu-1", OUTSIDE)}
    return open_house_for_module(
        Layout(
            a=("one", "two"),
            b={"gpu-1": ("express",), "gpu-2": ("batch",), "gpu-3": ("express",)},
            direct=("*",),
            own={
                **plenty,
                "gpu-2": {"slots": SLOTS_OF_BATCH},
                "two": {"model": "frail-a"},
                "gpu-3": {"model": "frail-b"},
            },
            sections={
                "breaker": {"probe_s": 0.2, "failures": 2, "open_s": 0.2, "most_open_s": 0.2},
                "limits": {"waiting": SIZE},
                "flow": {"daily_budget_usd": 1000},
            },
        )
    )


@pytest.fixture
def storm(house: House, backends: Backends) -> Iterator[Storm]:
    for name in FAILING:
        for path in (*DOORS, "/v1/embeddings"):
            backends.lay(name, path, {"error": {"message": "it is broken", "type": "server_error"}}, 500)
    with Storm(house.url) as begun:
        yield begun
    for switch in house.closed():
        house.open(switch)


@pytest.mark.parametrize(
    "switch",
    [pytest.param(name, marks=[pytest.mark.slow] if name in ("B", "express", "C") else []) for name in COVERS],
)
def test_nothing_new_reaches_what_a_closed_switch_covers(
    switch: str, house: House, backends: Backends, storm: Storm
) -> None:
    covered = COVERS[switch]
    wave = storm.wave(SIZE)
    poll(lambda: in_flight(wave, backends) + house.in_flight()[1] >= SIZE, 30, "the wave is not in flight")
    storm.rain()
    poll(lambda: len(storm.rained) > SIZE // 2, 30, "there is no rain")
    poll(lambda: all(backends.tries()[name] > 3 for name in FAILING), 30, "the failing nodes are not tried")
    begun = len(storm.rained)

    closed_s = house.close(switch)
    fence_s = backends.fence()
    before = {name: reached(backends, name) for name in GOOD + FAILING}
    inside = ids_in(backends, covered)
    poll(lambda: len(storm.rained) > begun + SIZE, 30, "the rain has stopped")
    if "gpu-2" in covered:
        poll(lambda: house.in_flight()[1] == 0, 10, "whoever waits in line is not told")
    others = [name for name in ("one", "gpu-1", "gpu-2", *FAILING) if name not in covered]
    poll(lambda: all(reached(backends, name) > before[name] + 3 for name in others), 30, "the others are not probed")
    backends.fence()
    assert {name: reached(backends, name) for name in covered} == {name: before[name] for name in covered}
    assert not [hit for name in covered for hit in backends.hits().get(name, ()) if hit.started_s > fence_s]
    assert not inside & {told.ask.id for told in storm.rained if told.sent_s > closed_s}

    release(backends, wave)
    poll(lambda: len(storm.waved) == SIZE, 30, "the wave has not come back")
    assert [told for told in storm.waved if told.ask.id in inside and not told.is_well] == []
    backends.fence()
    assert {name: reached(backends, name) for name in covered} == {name: before[name] for name in covered}

    house.open(switch)
    good = [name for name in covered if name in GOOD]
    poll(lambda: all(len(ids_in(backends, [name]) - inside) > 3 for name in good), 30, "nothing flows again")
    storm.stop()
    assert storm.failures == []
    refused = [told for told in storm.rained + storm.waved if not told.is_well and told.ask.group not in FRAIL]
    assert Counter((told.status, told.code, told.switch) for told in refused).keys() <= {(503, "switch_closed", switch)}
    assert (switch == "gpu-1") == (not refused), "an explicit label is refused where all of it is stopped"
    check_nothing_is_left(house)


def in_flight(wave: list[Ask], backends: Backends) -> int:
    return len(ids_in(backends, GOOD) & {ask.id for ask in wave})


def ids_in(backends: Backends, names: Sequence[str]) -> set[str]:
    """The requests that have reached some backends."""
    hits = backends.hits()
    return {hit.id for name in names for hit in hits.get(name, ())}


def reached(backends: Backends, name: str) -> int:
    """How much has reached a backend, of any kind: requests, probes, trials."""
    return backends.looks()[name] + len(backends.hits().get(name, ()))


def release(backends: Backends, wave: list[Ask]) -> None:
    """Let each of a wave go on to its end: where it is, or wherever it comes to yet."""
    places = {hit.id: (name,) for name, hits in backends.hits().items() for hit in hits}
    for ask in wave:
        for name in places.get(ask.id, GOOD):
            backends[name].release(ask.id, steps=1000)


def check_nothing_is_left(house: House) -> None:
    """No request holds a place, and none waits for one."""
    assert house.in_flight() == (0, 0)
    assert house.busy() == (0, 0)
    assert (house.metric("lumbre_in_flight"), house.metric("lumbre_waiting")) == (0, 0)
