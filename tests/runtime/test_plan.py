"""What is known of a call before anybody is asked: what is decided anew and what is not, and who can do it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lumbre.core.errors import CallerError, CapacityError, SwitchClosed
from lumbre.gateway.aliases import Aliases
from lumbre.gateway.capability import Capability
from lumbre.gateway.decision import Decision
from lumbre.gateway.hints import NONE, Hints
from lumbre.runtime.call import Call
from lumbre.runtime.lanes import Lane
from lumbre.runtime.plan import Planner, refusal_of
from lumbre.runtime.token_count import TokenCounter
from runtime.houses import Home, a_home

CHAT = "/chat/completions"
ALIASES = Aliases({"gpt-*": "auto", "claude": {"A": "small", "C": "vast"}})
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}


class NobodyCounts(TokenCounter):
    """Fails whoever asks an engine: in these tests nothing may be sent."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def count(self, lane: Lane, *_: object, **__: object) -> int:
        self.asked.append(lane.id)
        return 5000


def call(model: str | None = "auto", hints: Hints = NONE, **body: Any) -> Call:
    told: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], **body}
    if model is not None:
        told["model"] = model
    return Call("d-1", CHAT, CHAT, told, {}, hints)


def planner(home: Home, counter: TokenCounter | None = None) -> Planner:
    return Planner(home.house, ALIASES, counter or NobodyCounts(), asyncio.get_running_loop().time)


def run(folder: Path, scene: Callable[[Home, Planner], Awaitable[None]]) -> None:
    async def live() -> None:
        home = a_home(folder)
        await scene(home, planner(home))

    asyncio.run(live())


def asked(decision: Decision) -> list[tuple[str, tuple[str, ...], str | None]]:
    return [(each.tier, each.nodes, each.model) for each in decision.attempts]


def test_what_is_asked_in_the_usual_way_is_decided_once_while_nothing_changes(tmp_path: Path) -> None:
    async def scene(home: Home, plans: Planner) -> None:
        first, second = await plans.plan(call()), await plans.plan(call())
        assert second.decision is first.decision
        assert second.question is not first.question
        assert (await plans.plan(call("small"))).decision is not first.decision
        await home.board.close("A", None, "ana")
        third = await plans.plan(call())
        assert third.decision is not first.decision
        assert [each.tier for each in third.decision.attempts] == ["B", "C"]

    run(tmp_path, scene)


def test_no_refusal_is_handed_out_twice(tmp_path: Path) -> None:
    async def scene(home: Home, plans: Planner) -> None:
        for name in "ABC":
            await home.board.close(name, None, "ana")
        first, second = await plans.plan(call()), await plans.plan(call())
        assert first.decision.refusal is not None
        assert second.decision.refusal is not first.decision.refusal

    run(tmp_path, scene)


@pytest.mark.parametrize(
    "unusual",
    [
        call(hints=Hints(complexity="high")),
        call(response_format=SCHEMA),
        call("gpt-4"),
        Call("d-1", CHAT, CHAT, call().body, {}, NONE, key="sha256:x"),
    ],
    ids=["hints", "strict", "alias", "key"],
)
def test_what_is_asked_otherwise_is_decided_by_itself(tmp_path: Path, unusual: Call) -> None:
    async def scene(_home: Home, plans: Planner) -> None:
        usual = await plans.plan(call())
        assert (await plans.plan(unusual)).decision is not usual.decision
        assert (await plans.plan(call())).decision is usual.decision

    run(tmp_path, scene)


@pytest.mark.parametrize(
    ("model", "named", "attempts"),
    [
        (None, "auto", [("A", None), ("B", None), ("C", None)]),
        ("", "auto", [("A", None), ("B", None), ("C", None)]),
        ("tier-b", "tier-b", [("B", None), ("A", None), ("C", None)]),
        ("small", "small", [("A", "small")]),
        ("m", "m", [("A", "m"), ("B", "m")]),
        ("gpt-4-anything", "gpt-*", [("A", None), ("B", None), ("C", None)]),
        ("claude", "claude", [("A", "small"), ("C", "vast")]),
        # the record has no words of the caller's own
        ("my secret words", "", []),
    ],
)
def test_a_model_is_recorded_by_a_name_of_ours(
    tmp_path: Path, model: str | None, named: str, attempts: list[tuple[str, str | None]]
) -> None:
    async def scene(_home: Home, plans: Planner) -> None:
        plan = await plans.plan(call(model))
        assert plan.named == named
        assert [(each.tier, each.model) for each in plan.decision.attempts] == attempts

    run(tmp_path, scene)


def test_a_request_fills_a_slot_for_each_of_its_answers_and_waits_as_long_as_it_may(tmp_path: Path) -> None:
    async def scene(home: Home, plans: Planner) -> None:
        before = asyncio.get_running_loop().time()
        plan = await plans.plan(call(n=3))
        assert plan.answers == 3
        assert 0 <= plan.wait_until - before - home.house.a.wait_s < 5

    run(tmp_path, scene)


def test_what_makes_no_sense_is_refused_before_anything_is_decided(tmp_path: Path) -> None:
    async def scene(_home: Home, plans: Planner) -> None:
        for is_large in (False, True):
            senseless = call(tool_choice="required")
            senseless.is_large = is_large
            with pytest.raises(CallerError) as caught:
                await plans.plan(senseless)
            assert caught.value.param == "tool_choice"

    run(tmp_path, scene)


def test_only_lanes_that_serve_the_model_and_were_not_tried_are_asked(tmp_path: Path) -> None:
    async def scene(_home: Home, plans: Planner) -> None:
        plan = await plans.plan(call("m"))
        first, second = plan.decision.attempts
        assert [lane.id for lane in await plans.able(plan, first)] == ["a1", "a2"]
        plan.tried.add("a1")
        assert [lane.id for lane in await plans.able(plan, first)] == ["a2"]
        assert [lane.id for lane in await plans.able(plan, second)] == ["gpu-1", "gpu-2"]
        plan.tried |= {"a2", "gpu-1", "gpu-2"}
        assert await plans.able(plan, first) == await plans.able(plan, second) == []

    run(tmp_path, scene)


IMAGE: Mapping[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_a_lane_that_lacks_something_is_left_out_and_the_next_decision_knows_why(tmp_path: Path) -> None:
    async def scene(home: Home, plans: Planner) -> None:
        for name in ("a1", "a2"):
            home.lane(name).learn({"m": Capability(images=False)})
        plan = await plans.plan(call(messages=[{"role": "user", "content": [IMAGE]}]))
        first = plan.decision.attempts[0]
        assert first.tier == "A"
        assert await plans.able(plan, first) == []
        assert plan.lacks.keys() == {"a1", "a2"}
        again = plans.again(plan.question)
        assert [each.tier for each in again.attempts] == ["B", "C"]
        assert any("images" in reason for reason in again.reasons)
        # others' requests are not decided by what this one lacks
        assert (await plans.plan(call())).decision.attempts[0].tier == "A"

    run(tmp_path, scene)


def test_what_a_lane_lacks_now_is_told_and_noted(tmp_path: Path) -> None:
    async def scene(home: Home, plans: Planner) -> None:
        plan = await plans.plan(call(messages=[{"role": "user", "content": [IMAGE]}]))
        attempt, lane = plan.decision.attempts[0], home.lane("a1")
        assert await plans.lacks_now(plan, attempt, lane) is None
        lane.learn({"m": Capability(images=False)})
        lack = await plans.lacks_now(plan, attempt, lane)
        assert lack is not None
        assert plan.lacks == {"a1": lack}
        assert plan.question.lacks == {"a1": lack}

    run(tmp_path, scene)


def test_nothing_is_sent_outside_only_to_be_counted(tmp_path: Path) -> None:
    async def live() -> None:
        home, counter = a_home(tmp_path), NobodyCounts()
        for name in ("a1", "c"):
            home.lane(name).learn({"m": Capability(context_tokens=4096), "vast": Capability(context_tokens=4096)})
        plans = planner(home, counter)
        plan = await plans.plan(call(messages=[{"role": "user", "content": "word " * 3000}]))
        by_tier = {each.tier: each for each in plan.decision.attempts}
        await plans.able(plan, by_tier["C"])
        assert counter.asked == []
        await plans.able(plan, by_tier["A"])
        assert counter.asked == ["a1"]
        assert plan.lacks.keys() >= {"a1"}

    asyncio.run(live())


@pytest.mark.parametrize(
    ("model", "taken"), [("auto", True), ("small", True), ("gpt-9", True), ("vast", False), ("nobody's", False)]
)
def test_it_knows_whether_a_model_would_be_taken(tmp_path: Path, model: str, taken: bool) -> None:
    async def scene(_home: Home, plans: Planner) -> None:
        assert plans.takes(model) is taken  # of tier C nothing is designated here

    run(tmp_path, scene)


def refused(error: Exception | None) -> Decision:
    return Decision("reject", (), (), "balanced", "medium", "interactive", False, None, error)  # type: ignore[arg-type]


def test_a_refusal_says_when_somebody_may_be_asked_again_if_that_is_known() -> None:
    down = CapacityError("down", retry_after_s=5)
    assert refusal_of(refused(down), 40).retry_after_s == 40
    assert refusal_of(refused(CapacityError("down", retry_after_s=5)), None).retry_after_s == 5
    closed = SwitchClosed("closed", switch="B", retry_after_s=30)
    assert refusal_of(refused(closed), 40).retry_after_s == 30
    with pytest.raises(ValueError, match="taken"):
        refusal_of(refused(None), None)
