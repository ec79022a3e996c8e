"""The policy at run time, over HTTP: the next request goes by it, a kill does not lose it, and a drain ends."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flow.flow_house import Backends, House, HouseOpener, Layout
from lumbre.gateway.policy import POLICIES
from wire_client import Call, poll

# seed: the four policies; by complexity and class, the backend that is asked
GOES = {
    "balanced": {"low": "one", "medium": "one", "high": "gpu-1", "high background": "gpu-2"},
    "drain-batch": {"low": "gpu-2", "medium": "gpu-2", "high": "gpu-2", "high background": "gpu-2"},
    "drain-express": {"low": "gpu-1", "medium": "gpu-1", "high": "gpu-1", "high background": "gpu-1"},
    "local-only": {"low": "one", "medium": "one", "high": "one", "high background": "one"},
}


def ask(house: House, how: str) -> str | None:
    """The node that answered."""
    complexity, _, klass = how.partition(" ")
    answer = house.ask(complexity=complexity, klass=klass or None)
    assert answer.status == 200, answer.body
    return answer.node


@pytest.fixture(scope="module")
def house(open_house_for_module: HouseOpener) -> House:
    return open_house_for_module()


@pytest.fixture(autouse=True)
def _as_before(request: pytest.FixtureRequest) -> Any:
    yield
    if "house" in request.fixturenames:
        request.getfixturevalue("house").policy("balanced")


def moment(told: str) -> datetime:
    at = datetime.fromisoformat(told)
    assert at.utcoffset() == timedelta(0)
    return at


@pytest.mark.parametrize("policy", POLICIES)
def test_the_next_request_goes_by_the_policy(house: House, backends: Backends, policy: str) -> None:
    for how, node in GOES[policy].items():
        house.policy("local-only" if policy != "local-only" else "drain-batch")
        ask(house, "low")
        backends.forget()
        told = house.policy(policy)
        assert told == {"policy": policy, "until": None, "default": "balanced"}
        assert ask(house, how) == node
        assert {name: len(hits) for name, hits in backends.hits().items()} == {node: 1}


def test_a_request_that_runs_is_finished_where_it_runs(house: House, backends: Backends) -> None:
    asked = {"model": "auto", "messages": [{"role": "user", "content": "x"}], "rogue": {"id": "running", "hold": True}}
    with Call(f"{house.url}/v1/chat/completions", asked) as call:
        backends["one"].wait("running", "held")
        house.policy("drain-batch")
        assert ask(house, "low") == "gpu-2"
        backends["one"].release("running", 100)
        assert (call.status, call.header("x-lumbre-node")) == (200, "one")
        call.read()


@pytest.mark.parametrize(
    "policy",
    [pytest.param(name, marks=[pytest.mark.slow] if name.startswith("drain") else []) for name in POLICIES],
)
def test_a_policy_outlasts_a_kill(open_house: HouseOpener, tmp_path: Path, policy: str) -> None:
    state = tmp_path / "state"
    house = open_house(state_dir=state)
    house.policy("local-only" if policy != "local-only" else "drain-batch")
    house.policy(policy)
    house.kill()
    again = open_house(state_dir=state)
    assert again.flow()["policy"] == {"policy": policy, "until": None, "default": "balanced"}
    assert ask(again, "high background") == GOES[policy]["high background"]


@pytest.mark.parametrize("policy", ["drain-batch", pytest.param("drain-express", marks=pytest.mark.slow)])
def test_a_drain_ends_by_its_time_and_the_default_returns(open_house: HouseOpener, policy: str) -> None:
    house = open_house(Layout(sections={"flow": {"policy": "local-only"}}))
    before = datetime.now(UTC)
    told = house.policy(policy, "1s")
    assert (told["policy"], told["default"]) == (policy, "local-only")
    until = moment(told["until"])
    assert before + timedelta(seconds=1) <= until <= datetime.now(UTC) + timedelta(seconds=1)
    seen: list[tuple[datetime, str | None, datetime]] = []
    while not seen or seen[-1][1] != "one":
        sent = datetime.now(UTC)
        seen.append((sent, ask(house, "low"), datetime.now(UTC)))
        assert sent < until + timedelta(seconds=5)
    for sent, node, answered in seen:
        if answered < until:
            assert node == GOES[policy]["low"]
        if sent > until + timedelta(milliseconds=200):  # the timer's, and a busy machine's
            assert node == "one"
    assert house.flow()["policy"] == {"policy": "local-only", "until": None, "default": "local-only"}
    poll(lambda: len(changes(house)) == 2, what="the end of the drain is not in the ledger")
    chosen, ended = changes(house)
    assert (chosen["policy"], ended["policy"]) == (policy, "local-only")
    assert ended["by"] == "lumbre"


def changes(house: House) -> list[Mapping[str, Any]]:
    """The policies that the ledger tells of, oldest first."""
    with house.get("/v1/ledger?kind=policy") as call:
        return list(reversed(call.json()["records"]))


@pytest.mark.slow
def test_a_drain_goes_on_after_a_kill_and_ends_in_its_time(open_house: HouseOpener, tmp_path: Path) -> None:
    state = tmp_path / "state"
    house = open_house(state_dir=state)
    until = house.policy("drain-batch", "8s")["until"]
    house.kill()
    again = open_house(state_dir=state)
    assert again.flow()["policy"] == {"policy": "drain-batch", "until": until, "default": "balanced"}
    assert ask(again, "low") == "gpu-2"
    poll(lambda: ask(again, "low") == "one", 20, "the drain has not ended")
    assert datetime.now(UTC) >= moment(until)
    assert again.flow()["policy"]["policy"] == "balanced"


def test_a_drain_that_ended_while_the_gateway_was_down_does_not_come_back(
    open_house: HouseOpener, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    house = open_house(state_dir=state)
    until = moment(house.policy("drain-express", "1s")["until"])
    house.kill()
    poll(lambda: datetime.now(UTC) > until, what="time does not pass")
    again = open_house(Layout(sections={"flow": {"policy": "local-only"}}), state_dir=state)
    assert again.flow()["policy"] == {"policy": "local-only", "until": None, "default": "local-only"}
    assert ask(again, "high") == "one"


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "policy", "unknown_policy"),
        ({"policy": None}, "policy", "unknown_policy"),
        ({"policy": "fast"}, "policy", "unknown_policy"),
        ({"policy": "Balanced"}, "policy", "unknown_policy"),
        ({"policy": ["balanced"]}, "policy", "unknown_policy"),
        ({"policy": 1, "for": "2h"}, "policy", "unknown_policy"),
        ({"policy": "balanced", "for": "2h"}, "for", "invalid_duration"),
        ({"policy": "local-only", "for": "2h"}, "for", "invalid_duration"),
        ({"policy": "drain-batch", "for": "2"}, "for", "invalid_duration"),
        ({"policy": "drain-batch", "for": ""}, "for", "invalid_duration"),
        ({"policy": "drain-batch", "for": 7200}, "for", "invalid_duration"),
        ({"policy": "drain-batch", "for": "0s"}, "for", "invalid_duration"),
        ({"policy": "drain-batch", "for": "-1h"}, "for", "invalid_duration"),
        ({"policy": "drain-batch", "for": "400d"}, "for", "invalid_duration"),
        ({"policy": "drain-batch", "until": "2h"}, "until", "unknown_field"),
        ({"policy": "balanced", "by": 7}, "by", "invalid_value"),
        ({"policy": "balanced", "reason": ["x"]}, "reason", "invalid_value"),
    ],
    ids=str,
)
def test_what_is_wrong_is_a_400_that_names_the_field(house: House, body: dict[str, Any], param: str, code: str) -> None:
    house.policy("drain-batch")
    with Call(f"{house.url}/v1/flow/policy", body) as call:
        error = call.error()
        assert (call.status, error["param"], error["code"]) == (400, param, code)
        assert param in error["message"]
    assert house.flow()["policy"]["policy"] == "drain-batch"


@pytest.mark.parametrize("body", [b"", b"balanced", b'"balanced"', b'["balanced"]', b'{"policy": "balanced"', b"\xff"])
def test_what_is_no_object_changes_nothing(house: House, body: bytes) -> None:
    house.policy("drain-batch")
    with Call(f"{house.url}/v1/flow/policy", body, method="POST") as call:
        assert call.status == 400
        call.error()
    assert house.flow()["policy"]["policy"] == "drain-batch"


def test_an_unknown_policy_is_told_those_there_are(house: House) -> None:
    with Call(f"{house.url}/v1/flow/policy", {"policy": "fast"}) as call:
        assert call.error()["lumbre"]["valid"] == list(POLICIES)
