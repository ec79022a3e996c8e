"""What a gateway makes of a state that is lost, and of a disk that takes nothing: what costs money stays closed."""

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from flow.flow_house import Backends, House, HouseOpener, Layout
from wire_client import Call

HOUSE = Layout(direct=("*",))
Reopen = Callable[..., House]


@pytest.fixture
def reopen(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reopen]:
    """Opens houses on a state that there is. They are not waited for: behind a closed switch nobody is looked at."""
    with ExitStack() as opened:

        def reopen(state: Path, layout: Layout = HOUSE) -> House:
            house = opened.enter_context(House(tmp_path_factory.mktemp("again"), layout, backends, state_dir=state))
            house.listening()
            return house

        yield reopen


def spoil(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def delete(path: Path) -> None:
    path.unlink()


def put_a_folder_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


def lose_in_a_loop(path: Path) -> None:
    """A link to itself can be opened by nobody, not even by root."""
    path.unlink()
    path.symlink_to(path.name)


LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": delete,
    "emptied": spoil(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "garbage": spoil(b"\x00\xff" * 300),
    "wrong types": spoil(b'{"policy": {"policy": "balanced", "until": null}, "switches": {"B": true}}'),
    "another document": spoil(b'{"url": "http://127.0.0.1:1", "pid": 1}'),
    "a folder": put_a_folder_there,
    "not to be opened": lose_in_a_loop,
}


def a_state(open_house: HouseOpener, tmp_path: Path) -> Path:
    """One in which a gateway has lived, and closed something that is free."""
    state = tmp_path / "state"
    house = open_house(HOUSE, state_dir=state)
    assert house.closed() == set()
    assert house.flow()["problems"] == []
    house.close("batch", "kept")
    house.kill()
    return state


def test_at_a_first_start_everything_flows(open_house: HouseOpener) -> None:
    house = open_house(HOUSE)
    assert house.closed() == set()
    assert [house.ask(tier=tier).tier for tier in "ABC"] == ["A", "B", "C"]
    assert house.flow()["problems"] == []


OFTEN = ("deleted", "cut off")
"""The losses that are tried each time; a start makes the same of all others."""


@pytest.mark.parametrize(
    "loss", [loss if loss in OFTEN else pytest.param(loss, marks=pytest.mark.slow) for loss in LOSSES]
)
def test_after_lost_state_nothing_is_spent_until_somebody_says_so(
    open_house: HouseOpener, reopen: Reopen, backends: Backends, tmp_path: Path, loss: str
) -> None:
    state = a_state(open_house, tmp_path)
    LOSSES[loss](state / "flow.json")
    house = reopen(state)
    assert house.closed() == {"B", "C"}
    for tier in "BC":
        refused = house.ask(tier=tier)
        assert (refused.status, refused.code, refused.switch) == (503, "switch_closed", tier)
    assert house.ask().tier == "A"
    assert set(backends.hits()) == {"one"}
    (problem,) = house.flow()["problems"]
    assert "flow.json" in problem
    reasons = {each["name"]: each["reason"] for each in house.flow()["switches"]}
    assert all("could not be read" in reasons[tier] for tier in "BC")
    house.kill()
    # the next start knows it too
    again = reopen(state)
    assert again.closed() == {"B", "C"}
    again.open("B", "looked at it")
    again.wait_state("gpu-1", "ready")
    assert again.ask(label="express").node == "gpu-1"


def test_the_reason_is_told_to_who_asks_whether_it_is_ready(
    open_house: HouseOpener, reopen: Reopen, tmp_path: Path
) -> None:
    state = a_state(open_house, tmp_path)
    delete(state / "flow.json")
    house = reopen(state)
    house.wait_for("ready")
    with house.get("/readyz") as call:
        told = call.json()
    assert told["ready"]
    (warning,) = told["warnings"]
    assert "flow.json" in warning
    for tier in "BC":
        assert told["tiers"][tier]["state"] == "stopped"
        first = told["tiers"][tier]["reasons"][0]
        assert f"the switch {tier} is closed (stopped)" in first
        assert "could not be read" in first


@contextmanager
def full_disk(house: House) -> Iterator[None]:
    """No file of the gateway's can grow."""
    soft, hard = resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def unwritable_folder(house: House) -> Iterator[None]:
    """The file that each new state is written to first cannot be made. (Root may write to every folder.)"""
    draft = house.state_dir / "flow.new"
    draft.mkdir()
    try:
        yield
    finally:
        draft.rmdir()


@pytest.mark.parametrize("obstacle", [full_disk, unwritable_folder])
def test_what_cannot_be_kept_is_closed_and_not_opened(
    open_house: HouseOpener,
    reopen: Reopen,
    backends: Backends,
    obstacle: Callable[[House], AbstractContextManager[None]],
) -> None:
    house = open_house(HOUSE)
    house.close("C", "kept")
    with obstacle(house):
        with Call(f"{house.url}/v1/flow/switches/A", {"state": "closed"}) as call:
            assert call.status == 503
            assert "cannot be written" in call.error()["message"]
        assert house.closed() == {"A", "C"}
        refused = house.ask(affinity="A")
        assert (refused.status, refused.switch) == (503, "A")
        for name in "AC":
            with Call(f"{house.url}/v1/flow/switches/{name}", {"state": "open"}) as call:
                assert call.status == 503
                assert "cannot be written" in call.error()["message"]
        assert house.closed() == {"A", "C"}
        with Call(f"{house.url}/v1/flow/policy", {"policy": "local-only"}) as call:
            assert call.status == 503
        assert house.flow()["policy"]["policy"] == "balanced"
        assert backends.hits() == {}
    house.close("A")
    state = house.state_dir
    house.kill()
    assert reopen(state).closed() == {"A", "C"}


def test_a_node_that_the_settings_lost_is_closed_when_it_comes_back(
    open_house: HouseOpener, reopen: Reopen, backends: Backends, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    house = open_house(HOUSE, state_dir=state)
    house.close("gpu-1", "too dear")
    house.kill()
    without = reopen(state, Layout(b={"gpu-2": ("batch",)}))
    assert "gpu-1" not in {each["name"] for each in without.flow()["switches"]}
    without.close("C")
    without.open("C")
    without.kill()
    back = reopen(state)
    assert back.closed() == {"gpu-1"}
    refused = back.ask(label="express")
    assert (refused.status, refused.switch) == (503, "gpu-1")
    back.wait_state("gpu-2", "ready")
    assert back.ask(label="batch").node == "gpu-2"
    assert set(backends.hits()) == {"gpu-2"}
