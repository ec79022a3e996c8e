"""The day's money: set aside before anything leaves, settled by what it cost, kept over a restart, never overspent."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flow.flow_house import OUTSIDE, Answer, Backends, House, HouseOpener, Json, Layout
from flow.orders import Orders, records_of
from wire_client import Call, poll

TOKEN_MICROUSD = 1000
"""What a token of an answer costs outside; one of a prompt costs nothing."""
ANSWER_TOKENS = 1000
A_REQUEST = TOKEN_MICROUSD * ANSWER_TOKENS
"""What is set aside for one: a dollar."""
BOUND: Json = {"lumbre": {"affinity": "C"}, "max_tokens": ANSWER_TOKENS}
FREE: Json = {"model": "tier-c", "max_tokens": ANSWER_TOKENS}


def layout(usd: float, *, c: str | None = "openai", usd_per_hour: float = 0, **sections: Any) -> Layout:
    """A gateway that may spend so much in a day."""
    prices = {"usd_per_million_prompt": 0, "usd_per_million_completion": TOKEN_MICROUSD}
    told: dict[str, Any] = {"flow": {"daily_budget_usd": usd}, "tier_c": {**prices, "slots": 64}, **sections}
    own = {"gpu-1": {"usd_per_hour": usd_per_hour}}
    return Layout(b={"gpu-1": ("express", "batch")}, c=c, direct=("*",), own=own, sections=told)


def budget(house: House) -> tuple[int, int]:
    """Spent and reserved, in micro-dollars."""
    told = house.flow()["budget"]
    return told["spent_microusd"], told["reserved_microusd"]


def hits(backends: Backends, name: str = OUTSIDE) -> int:
    return len(backends.hits().get(name, ()))


def read(call: Call) -> Answer:
    with call:
        told = {name.lower(): value for name, value in call.response.getheaders()}
        return Answer(call.status, told, call.read())


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_requests_at_once_cannot_overspend(
    open_house: HouseOpener, backends: Backends, order: Orders, stream: bool
) -> None:
    house = open_house(layout(3.5))
    order(OUTSIDE, id="held", hold=True)
    calls = [house.chat({"model": "auto", **BOUND, "stream": stream}) for _ in range(50)]
    poll(lambda: int(house.metric("lumbre_requests_total")) == 47, 30, "not all but three were refused")
    assert hits(backends) == 3
    assert budget(house) == (0, 3 * A_REQUEST)
    backends[OUTSIDE].release("held", 99)
    with ThreadPoolExecutor(50) as pool:
        told = list(pool.map(read, calls))
    refused = [answer for answer in told if answer.status != 200]
    assert {(answer.status, answer.code) for answer in refused} == {(429, "over_budget")}
    assert len(refused) == 47
    assert all(answer.retry_after_s for answer in refused)
    assert hits(backends) == 3
    assert budget(house) == (3 * 3 * TOKEN_MICROUSD, 0)  # three answers of three tokens each


def test_what_is_not_bound_goes_elsewhere_when_the_money_is_gone(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(layout(0.5))
    assert house.ask(FREE).tier == "A"
    refused = house.ask(BOUND)
    assert (refused.status, refused.code) == (429, "over_budget")
    assert refused.retry_after_s is not None
    assert "daily_budget_usd" in refused.error["message"]
    order("one", do="refuse", status=500)
    order("gpu-1", do="refuse", status=500)
    fallen = house.ask({"max_tokens": ANSWER_TOKENS})
    assert fallen.status in (429, 500)
    assert hits(backends) == 0
    assert house.ask({**BOUND, "max_tokens": 100}).status == 200  # for less, there is money


def test_when_all_is_spent_the_decision_knows(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(layout(0.004))
    order(OUTSIDE, chunks=4)
    assert house.ask({**BOUND, "max_tokens": 4}).status == 200
    assert budget(house) == (4000, 0)
    shown = house.flow()["tiers"]["C"]
    assert shown["available"] is False
    assert any("budget" in reason for reason in shown["reasons"])
    told = house.explain(tier="C")
    assert [step["reason"] for step in told["steps"] if step["tier"] == "C" and step["step"] == 4] == ["over_budget"]
    assert house.ask({**FREE, "max_tokens": 4}).tier == "A"
    refused = house.ask({**BOUND, "max_tokens": 4})
    assert (refused.status, refused.code) == (429, "over_budget")
    assert hits(backends) == 1


def test_with_no_budget_nothing_is_bought(open_house: HouseOpener, backends: Backends) -> None:
    house = open_house(layout(0, usd_per_hour=1))
    assert house.ask(FREE).tier == "A"
    assert house.ask(tier="B").tier == "A"
    for bound in (BOUND, {"lumbre": {"affinity": "B"}}):
        answer = house.ask(bound)
        assert (answer.status, answer.code) == (429, "over_budget")
    assert backends.hits().keys() == {"one"}


def test_a_tier_may_have_a_smaller_budget_of_its_own(open_house: HouseOpener, backends: Backends) -> None:
    prices = {"usd_per_million_prompt": 0, "usd_per_million_completion": TOKEN_MICROUSD}
    house = open_house(layout(100, tier_c={**prices, "daily_budget_usd": 0.5}))
    assert house.ask(BOUND).status == 429
    assert house.ask({**BOUND, "max_tokens": 400}).status == 200
    assert hits(backends) == 1


@pytest.mark.parametrize(
    ("wish", "cost"),
    [
        ({"chunks": 7}, 7 * TOKEN_MICROUSD),
        ({"usage": False}, A_REQUEST),
        ({"do": "refuse", "status": 500}, 0),
        ({"do": "refuse", "status": 400}, 0),
        ({"do": "cut_before_head"}, A_REQUEST),
        ({"do": "truncated"}, A_REQUEST),
    ],
    ids=str,
)
def test_a_request_costs_what_the_outside_says_and_all_of_it_where_it_says_nothing(
    open_house: HouseOpener, order: Orders, wish: Json, cost: int
) -> None:
    house = open_house(layout(5))
    order(OUTSIDE, **wish)
    answer = house.ask(BOUND)
    records = records_of(house, answer.decision)
    assert [each["reserved_microusd"] for each in records if each["kind"] == "crossing"] == [A_REQUEST]
    assert [each["cost_microusd"] for each in records if each["kind"] == "attempt"] == [cost]
    assert records[-1]["cost_microusd"] == cost
    assert budget(house) == (cost, 0)


def test_a_stream_that_its_client_leaves_costs_all_of_it(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(layout(5))
    order(OUTSIDE, id="left", do="drip", pause_s=0.02)
    call = house.chat({"model": "auto", "stream": True, **BOUND})
    call.read_until(b"word0")
    call.leave()
    backends[OUTSIDE].wait("left", "gone")
    poll(lambda: budget(house) == (A_REQUEST, 0), what="it is not settled")


def test_a_restart_forgets_nothing(open_house: HouseOpener, tmp_path: Path, order: Orders) -> None:
    house = open_house(layout(1.5), state_dir=tmp_path / "state")
    order(OUTSIDE, chunks=600)
    assert house.ask(BOUND).status == 200
    spent = budget(house)
    assert spent == (600 * TOKEN_MICROUSD, 0)
    house.terminate()
    assert house.wait_for_end() == 0
    again = open_house(layout(1.5), state_dir=tmp_path / "state")
    assert budget(again) == spent
    assert again.ask(BOUND).status == 429  # nine tenths of a dollar are left
    assert again.ask({**BOUND, "max_tokens": 800}).status == 200


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_what_was_on_its_way_when_the_gateway_was_killed_counts_whole(
    open_house: HouseOpener, backends: Backends, tmp_path: Path, order: Orders, stream: bool
) -> None:
    house = open_house(layout(2.5), state_dir=tmp_path / "state")
    order(OUTSIDE, id="held", hold=True)
    calls = [house.chat({"model": "auto", "stream": stream, **BOUND}) for _ in range(2)]
    poll(lambda: hits(backends) == 2)
    assert budget(house) == (0, 2 * A_REQUEST)
    house.kill()
    for call in calls:
        call.leave()
    backends[OUTSIDE].wait("held", "gone")
    order(OUTSIDE)
    again = open_house(layout(2.5), state_dir=tmp_path / "state")
    assert budget(again) == (2 * A_REQUEST, 0)
    assert again.ask(BOUND).status == 429
    assert hits(backends) == 2


def test_a_machine_that_worked_when_the_gateway_was_killed_counts_whole(
    open_house: HouseOpener, backends: Backends, tmp_path: Path, order: Orders
) -> None:
    """A request may take 40 seconds here, and a second costs a dollar."""
    state = tmp_path / "state"
    house = open_house(layout(70, usd_per_hour=3600), state_dir=state)
    assert house.ask(tier="B").tier == "B"
    order("gpu-1", id="held", hold=True)
    calls = [house.chat({"model": "tier-b"}) for _ in range(2)]
    poll(lambda: hits(backends, "gpu-1") == 3)
    spent = budget(house)[0]
    house.kill()
    for call in calls:
        call.leave()
    backends["gpu-1"].wait("held", "gone")
    again = open_house(layout(70, usd_per_hour=3600), state_dir=state)
    assert budget(again) == (spent + 40_000_000, 0)
    assert again.ask(tier="B").tier == "A"
    assert hits(backends, "gpu-1") == 3


def test_a_machine_that_was_idle_at_the_end_costs_what_it_worked(
    open_house: HouseOpener, backends: Backends, tmp_path: Path, order: Orders
) -> None:
    state = tmp_path / "state"
    house = open_house(layout(1000, usd_per_hour=3600), state_dir=state)
    answer = house.ask(tier="B")
    order("gpu-1", do="cut_before_head")
    house.ask(tier="B")
    records = records_of(house, answer.decision)
    assert [each["kind"] for each in records] == ["hold", "attempt", "request"]
    assert [each["reserved_microusd"] for each in records if each["kind"] == "hold"] == [40_000_000]
    assert [each["idle"] for each in records if each["kind"] == "attempt"] == [True]
    poll(lambda: budget(house)[1] == 0)
    spent = budget(house)
    house.terminate()
    assert house.wait_for_end() == 0
    assert budget(open_house(layout(1000, usd_per_hour=3600), state_dir=state)) == spent


def test_a_machine_is_not_begun_with_that_cannot_be_written_down(
    open_house: HouseOpener, backends: Backends, tmp_path: Path
) -> None:
    house = open_house(layout(1000, usd_per_hour=3600), state_dir=tmp_path / "state")
    folder = tmp_path / "state" / "ledger"
    assert records_of(house, house.ask().decision)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("no folder")
    assert house.ask(tier="B").tier == "A"
    refused = house.ask(affinity="B")
    assert refused.status == 503
    assert "written down" in refused.error["message"]
    assert hits(backends, "gpu-1") == 0
    assert budget(house) == (0, 0)


def test_a_machine_that_can_never_be_paid_is_told_at_the_start(open_house: HouseOpener) -> None:
    house = open_house(layout(30, usd_per_hour=3600))
    (problem,) = house.flow()["problems"]
    assert problem.startswith("gpu-1 never runs")
    shown = house.flow()["tiers"]["B"]
    assert shown["available"] is False
    assert any("40.0000 USD" in reason for reason in shown["reasons"])
    told = house.explain(tier="B")
    assert [step["reason"] for step in told["steps"] if step["tier"] == "B" and step["step"] == 4] == ["over_budget"]


def test_who_is_refused_for_what_others_have_reserved_may_come_back_soon(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(layout(1.5))
    order(OUTSIDE, id="held", hold=True)
    call = house.chat({"model": "auto", **BOUND})
    poll(lambda: hits(backends) == 1)
    refused = house.ask(BOUND)
    assert (refused.status, refused.code, refused.retry_after_s) == (429, "over_budget", 5)
    assert "that is reserved by requests on their way" in refused.error["message"]
    backends[OUTSIDE].release("held", 99)
    assert read(call).status == 200
    assert house.ask(BOUND).status == 200


def test_a_ledger_that_cannot_be_read_closes_what_costs(
    open_house: HouseOpener, backends: Backends, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    today = state / "ledger" / f"{datetime.now(UTC):%Y-%m-%d}.jsonl"
    house = open_house(layout(5, usd_per_hour=1), state_dir=state)
    records_of(house, house.ask().decision)
    assert today.is_file()
    house.terminate()
    house.wait_for_end()
    today.unlink()
    today.mkdir()  # which nobody can read as a file, not even root
    again = open_house(layout(5, usd_per_hour=1), state_dir=state)
    backends.forget()
    (problem,) = again.flow()["problems"]
    assert "ledger" in problem
    assert again.ask().tier == "A"
    for free in (FREE, {"model": "tier-b"}):
        assert again.ask(free).tier == "A"
    for bound in (BOUND, {"lumbre": {"affinity": "B"}}):
        answer = again.ask(bound)
        assert (answer.status, answer.code) == (429, "over_budget")
    assert backends.hits().keys() == {"one"}
    assert any("ledger" in reason for reason in again.flow()["tiers"]["C"]["reasons"])


def test_a_machines_time_counts_once_however_many_share_it(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(layout(1000, usd_per_hour=3600))  # a dollar a second
    order("gpu-1", id="shared", hold=True)
    began_s = time.monotonic()
    calls = [house.chat({"model": "tier-b"})]
    poll(lambda: hits(backends, "gpu-1") == 1)
    alone_s = time.monotonic()
    poll(lambda: time.monotonic() - alone_s > 0.7)
    calls += [house.chat({"model": "tier-b"}) for _ in range(9)]
    poll(lambda: hits(backends, "gpu-1") == 10)
    shared_s = time.monotonic()
    poll(lambda: time.monotonic() - shared_s > 0.7)
    released_s = time.monotonic()
    backends["gpu-1"].release("shared", 99)
    decisions = [read(call).decision for call in calls]
    records = [record for decision in decisions for record in records_of(house, decision, "attempt")]
    ended_s = time.monotonic()
    spent, reserved = budget(house)
    assert reserved == 0
    assert (released_s - alone_s) * 1e6 <= spent <= (ended_s - began_s) * 1e6
    assert sum(record["cost_microusd"] for record in records) == spent
    (node,) = house._told("/v1/flow/nodes")["nodes"]
    assert node["cost_microusd"] == spent


def test_a_machines_time_is_set_aside_until_the_longest_request_is_over(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    """A request may take 40 seconds here, so at a dollar a second 30 dollars are too few."""
    poor = open_house(layout(30, usd_per_hour=3600))
    assert poor.ask(tier="B").tier == "A"
    assert poor.ask(affinity="B").code == "over_budget"
    rich = open_house(layout(50, usd_per_hour=3600))
    order("gpu-1", id="one-by-one", hold=True)
    began_s = time.monotonic()
    calls = [rich.chat({"model": "tier-b"}) for _ in range(5)]
    poll(lambda: hits(backends, "gpu-1") == 5)  # they share one machine, and what is set aside for it
    spent, reserved = budget(rich)
    assert spent == 0
    assert 40e6 <= reserved <= 40e6 + (time.monotonic() - began_s) * 1e6
    backends["gpu-1"].release("one-by-one", 99)
    assert [read(call).status for call in calls] == [200] * 5
