"""What a start makes of what the last one left: switches and policy as they were, and lost state for closed."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from lumbre.core.errors import CallerError
from lumbre.gateway.policy import Policy
from runtime.boards import NOON, Watch, a_board

CLOSED_BY_ITSELF = frozenset({"B", "C"})

GOOD_SWITCH: dict[str, Any] = {"state": "closed", "reason": None, "by": "ana", "at": "2025-03-01T12:00:00+00:00"}
GOOD: dict[str, Any] = {"policy": {"policy": "local-only", "until": None}, "switches": {"B": GOOD_SWITCH}}


def with_switch(**told: Any) -> dict[str, Any]:
    return {**GOOD, "switches": {"A": {**GOOD_SWITCH, **told}}}


UNREADABLE: dict[str, object] = {
    "empty": b"",
    "cut off": orjson.dumps(GOOD)[:-9],
    "no JSON": b"closed: B",
    "no UTF-8": b'{"policy": "\xff\xfe"}',
    "zeros": bytes(4096),
    "deep": b"[" * 100_000,
    "a list": [],
    "a word": "closed",
    "null": None,
    "nothing in it": {},
    "no policy": {"switches": {}},
    "no switches": {"policy": {"policy": "balanced", "until": None}},
    "switches in a list": {**GOOD, "switches": ["B"]},
    "a policy that is a word": {**GOOD, "policy": "balanced"},
    "a policy that there is not": {**GOOD, "policy": {"policy": "spend", "until": None}},
    "a policy that is a list": {**GOOD, "policy": {"policy": ["balanced"], "until": None}},
    "a time without its zone": {**GOOD, "policy": {"policy": "drain-batch", "until": "2025-03-01T12:00:00"}},
    "a time that is a number": {**GOOD, "policy": {"policy": "drain-batch", "until": 7}},
    "a switch that is a word": {**GOOD, "switches": {"B": "closed"}},
    "a switch that is null": {**GOOD, "switches": {"B": None}},
    "a state that there is not": with_switch(state="shut"),
    "a state that is true": with_switch(state=True),
    "a reason that is a number": with_switch(reason=7),
    "a moment that is none": with_switch(at="yesterday"),
    "no moment": with_switch(at=None),
    "a moment before all time": with_switch(at="0001-01-01T00:00:00+14:00"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_closes_the_tiers_that_cost(tmp_path: Path, case: str) -> None:
    a_board(tmp_path)
    told = UNREADABLE[case]
    (tmp_path / "flow.json").write_bytes(told if isinstance(told, bytes) else orjson.dumps(told))
    board = a_board(tmp_path, default="local-only")
    assert board.closed == CLOSED_BY_ITSELF
    assert board.problem is not None
    assert str(tmp_path / "flow.json") in board.problem
    assert (board.switch("B").by, board.switch("C").by) == ("lumbre", "lumbre")
    assert "could not be read" in (board.switch("B").reason or "")
    assert board.policy == Policy("local-only")
    # once known to be lost it is no surprise again, and stays closed
    again = a_board(tmp_path)
    assert (again.closed, again.problem) == (CLOSED_BY_ITSELF, None)
    asyncio.run(again.open("B", "looked at it", "ana"))
    assert a_board(tmp_path).closed == {"C"}


def test_what_is_gone_closes_the_tiers_that_cost(tmp_path: Path) -> None:
    a_board(tmp_path)
    (tmp_path / "flow.json").unlink()
    board = a_board(tmp_path)
    assert board.closed == CLOSED_BY_ITSELF
    assert "is gone" in (board.problem or "")
    assert a_board(tmp_path).closed == CLOSED_BY_ITSELF


def test_what_may_not_be_read_closes_the_tiers_that_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_board(tmp_path)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        board = a_board(tmp_path)
    assert board.closed == CLOSED_BY_ITSELF
    assert "Permission denied" in (board.problem or "")
    assert a_board(tmp_path).closed == CLOSED_BY_ITSELF


def test_a_folder_in_the_place_of_the_file_closes_the_tiers_that_cost(tmp_path: Path) -> None:
    a_board(tmp_path)
    (tmp_path / "flow.json").unlink()
    (tmp_path / "flow.json").mkdir()
    board = a_board(tmp_path)
    assert board.closed == CLOSED_BY_ITSELF
    assert board.problem is not None
    assert a_board(tmp_path).closed == CLOSED_BY_ITSELF


def test_what_could_not_be_read_is_put_aside_for_who_wants_to_look_at_it(tmp_path: Path) -> None:
    a_board(tmp_path)
    (tmp_path / "flow.json").write_bytes(b"half of")
    a_board(tmp_path)
    assert (tmp_path / "flow.unreadable").read_bytes() == b"half of"


def test_a_switch_of_a_node_that_the_settings_lost_is_closed_when_it_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        await a_board(tmp_path).close("gpu-2", "too dear", "ana")
        without = a_board(tmp_path, nodes=("gpu-1",))
        assert without.closed == frozenset()
        with pytest.raises(CallerError):
            without.switch("gpu-2")
        await without.close("A", None, "ana")
        await without.choose(Policy("drain-batch"))
        await without.open("A", None, "ana")
        await a_board(tmp_path, nodes=()).close("C", None, "ana")
        back = a_board(tmp_path)
        assert back.closed == {"gpu-2", "C"}
        assert back.switch("gpu-2").reason == "too dear"
        await back.open("gpu-2", None, "ana")
        assert a_board(tmp_path).closed == {"C"}

    asyncio.run(scene())


def test_a_policy_outlasts_a_start(tmp_path: Path) -> None:
    asyncio.run(a_board(tmp_path).choose(Policy("drain-express")))
    assert a_board(tmp_path).policy == Policy("drain-express")


def test_a_policy_that_nobody_chose_is_the_settings_and_changes_with_them(tmp_path: Path) -> None:
    a_board(tmp_path, default="balanced")
    assert a_board(tmp_path, default="local-only").policy == Policy("local-only")


def test_a_drain_goes_on_for_what_is_left_of_its_time_after_a_start(tmp_path: Path) -> None:
    async def scene() -> None:
        drain = Policy("drain-express", NOON + timedelta(seconds=0.1))
        first = a_board(tmp_path)
        await first.choose(drain)
        first.close_timers()
        watch = Watch()
        again = a_board(tmp_path, watch)
        assert again.policy == drain
        await watch.end_drain()
        assert again.policy == Policy("balanced")

    asyncio.run(scene())


def test_a_drain_that_was_over_while_the_gateway_was_down_does_not_come_back(tmp_path: Path) -> None:
    async def scene() -> None:
        watch = Watch()
        first = a_board(tmp_path, watch)
        await first.choose(Policy("drain-express", NOON + timedelta(hours=2)))
        first.close_timers()
        late = Watch(at=NOON + timedelta(hours=2))
        again = a_board(tmp_path, late, default="local-only")
        assert again.policy == Policy("local-only")
        await late.end_drain()
        assert late.drained == [Policy("local-only")]

    asyncio.run(scene())
