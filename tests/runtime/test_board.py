"""The board of switches and the policy while it runs: what holds, and what is written down."""

import asyncio
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lumbre.core.errors import CallerError, OperatorError, SwitchClosed
from lumbre.gateway.policy import Policy
from lumbre.gateway.switches import Switch, covering
from lumbre.runtime import board as module
from lumbre.runtime.board import Board
from lumbre.runtime.state_dir import write_whole
from runtime.boards import NODES, NOON, Watch, a_board, kept, kept_closed

WRONG = OperatorError("no space left")


def fail_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk be full until `monkeypatch.undo`."""

    def refuse(*_: object) -> None:
        raise WRONG

    monkeypatch.setattr(module, "write_whole", refuse)


def test_at_a_first_start_everything_is_open_and_kept_so(tmp_path: Path) -> None:
    board = a_board(tmp_path)
    assert [switch.name for switch in board.switches] == ["A", "B", "C", "batch", "express", "global", *NODES]
    assert (board.closed, board.problem, board.policy) == (frozenset(), None, Policy("balanced"))
    assert all(switch.at is None and switch.by is None for switch in board.switches)
    assert kept_closed(tmp_path) == frozenset()


def test_who_closed_a_switch_and_when_and_why_outlasts_a_start(tmp_path: Path) -> None:
    watch = Watch()
    asyncio.run(a_board(tmp_path, watch).close("express", "budget", "ana"))
    again = a_board(tmp_path)
    assert again.switch("express") == Switch("express", True, "budget", "ana", NOON)
    assert again.closed == {"express"}
    watch.at += timedelta(hours=1)
    asyncio.run(a_board(tmp_path, watch).open("express", None, "bea"))
    assert a_board(tmp_path).switch("express") == Switch("express", False, None, "bea", NOON + timedelta(hours=1))


def test_a_long_reason_is_cut(tmp_path: Path) -> None:
    board = a_board(tmp_path)
    asyncio.run(board.close("B", "x" * 10_000, "ana"))
    assert len(board.switch("B").reason or "") <= 200


@pytest.mark.parametrize("move", [Board.close, Board.open])
def test_a_switch_that_there_is_not_is_told_those_there_are(tmp_path: Path, move: Callable[..., Any]) -> None:
    board = a_board(tmp_path)
    for name in ("gpu-9", "b", "", "x" * 100_000):
        with pytest.raises(CallerError) as caught:
            asyncio.run(move(board, name, None, "ana"))
        error = caught.value
        assert (error.status, error.code, error.valid) == (404, "unknown_switch", tuple(s.name for s in board.switches))
        assert len(error.message) < 400


def test_what_is_asked_before_a_sending_is_refused_with_the_switch_that_stops_it(tmp_path: Path) -> None:
    async def scene() -> None:
        board = a_board(tmp_path)
        names = covering("B", "express", "gpu-1", ("express",))
        board.check(names)
        await board.close("gpu-1", None, "ana")
        with pytest.raises(SwitchClosed) as caught:
            board.check(names)
        assert (caught.value.switch, caught.value.status) == ("gpu-1", 503)
        assert (caught.value.retry_after_s or 0) > 0
        await board.close("global", None, "ana")
        with pytest.raises(SwitchClosed) as widest:
            board.check(names)
        assert widest.value.switch == "global"
        board.check(covering("A"))
        await board.open("global", None, "ana")
        await board.open("gpu-1", None, "ana")
        board.check(names)

    asyncio.run(scene())


def test_closing_holds_from_the_call_on_and_opening_from_its_end(tmp_path: Path) -> None:
    async def scene() -> None:
        watch = Watch()
        board = a_board(tmp_path, watch)
        closing = asyncio.create_task(board.close("B", None, "ana"))
        await asyncio.sleep(0)
        assert board.closed == {"B"}
        assert not closing.done()
        await closing
        assert kept_closed(tmp_path) == {"B"}
        watch.moved = lambda: opened.append(kept_closed(tmp_path))
        opened: list[frozenset[str]] = []
        await board.open("B", None, "ana")
        assert opened == [frozenset()]  # it was written down by the moment it held

    asyncio.run(scene())


def test_each_move_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        watch = Watch()
        board = a_board(tmp_path, watch)
        told = []
        for act in (board.close("B", None, "a"), board.open("B", None, "a"), board.choose(Policy("local-only"))):
            await act
            told.append(watch.moves)
        assert told == [1, 2, 3]

    asyncio.run(scene())


def test_what_cannot_be_written_down_is_closed_all_the_same_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        board = a_board(tmp_path)
        fail_to_write(monkeypatch)
        with pytest.raises(OperatorError):
            await board.close("C", "leak", "ana")
        assert board.closed == {"C"}
        monkeypatch.undo()
        await board.close("B", None, "ana")
        assert kept_closed(tmp_path) == {"B", "C"}  # the next one that can be written takes it along

    asyncio.run(scene())


def test_what_cannot_be_written_down_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        board = a_board(tmp_path)
        await board.close("C", "leak", "ana")
        fail_to_write(monkeypatch)
        with pytest.raises(OperatorError):
            await board.open("C", None, "ana")
        monkeypatch.undo()
        assert board.closed == kept_closed(tmp_path) == {"C"}
        assert board.switch("C").reason == "leak"

    asyncio.run(scene())


def test_an_opening_that_fails_in_its_last_step_does_not_come_back_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        board = a_board(tmp_path)
        await board.close("C", "leak", "ana")
        failures = [WRONG]

        def sync_once_badly(_folder: Path) -> None:
            if failures:
                raise failures.pop()

        monkeypatch.setattr(module, "_sync_folder", sync_once_badly)
        with pytest.raises(OperatorError):
            await board.open("C", None, "ana")
        assert board.closed == {"C"}

    asyncio.run(scene())
    assert a_board(tmp_path).closed == {"C"}


def test_a_policy_that_cannot_be_written_down_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        board = a_board(tmp_path)
        fail_to_write(monkeypatch)
        with pytest.raises(OperatorError):
            await board.choose(Policy("drain-batch"))
        monkeypatch.undo()
        assert board.policy == Policy("balanced")

    asyncio.run(scene())
    assert a_board(tmp_path).policy == Policy("balanced")


@pytest.mark.parametrize("seed", range(8))
def test_of_a_hundred_at_once_the_last_that_was_acknowledged_holds_here_and_on_disk(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)

    async def scene() -> None:
        board = a_board(tmp_path)
        last: dict[str, str] = {}

        async def move(name: str, close: bool, after: int) -> None:
            for _ in range(after):
                await asyncio.sleep(0)
            told = await (board.close if close else board.open)(name, None, "ana")
            if close:
                assert told.is_closed
            last[name] = told.state

        moves = [(dice.choice("BC"), dice.random() < 0.6, dice.randrange(20)) for _ in range(99)]
        await asyncio.gather(*(move(*each) for each in moves), move("B", True, 0))
        assert board.closed == {name for name, state in last.items() if state == "closed"}
        assert kept_closed(tmp_path) == board.closed
        assert {name: board.switch(name).state for name in last} == last

    asyncio.run(scene())


def test_one_who_closes_while_another_opens_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()

    def write_slowly(path: Path, document: object) -> None:
        begun.set()
        assert go.wait(10)
        write_whole(path, document)

    async def scene() -> None:
        board = a_board(tmp_path)
        await board.close("B", "first", "ana")
        monkeypatch.setattr(module, "write_whole", write_slowly)
        opening = asyncio.create_task(board.open("B", None, "bea"))
        assert await asyncio.to_thread(begun.wait, 10)
        closing = asyncio.create_task(board.close("B", "second", "ana"))
        await asyncio.sleep(0)
        go.set()
        assert (await opening).is_closed
        assert (await closing).reason == "second"
        assert board.closed == kept_closed(tmp_path) == {"B"}

    asyncio.run(scene())


@pytest.mark.parametrize(("move", "closed"), [(Board.close, {"B", "C"}), (Board.open, {"C"})])
def test_what_was_begun_is_seen_through_though_who_asked_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Callable[..., Any], closed: set[str]
) -> None:
    begun, go = threading.Event(), threading.Event()

    def write_slowly(path: Path, document: object) -> None:
        begun.set()
        assert go.wait(10)
        write_whole(path, document)

    async def scene() -> None:
        board = a_board(tmp_path)
        await board.close("B", None, "ana")
        monkeypatch.setattr(module, "write_whole", write_slowly)
        moving = asyncio.create_task(move(board, "B", None, "bea"))
        assert await asyncio.to_thread(begun.wait, 10)
        moving.cancel()
        await asyncio.gather(moving, return_exceptions=True)
        go.set()
        await board.close("C", None, "ana")  # written after it
        assert board.closed == kept_closed(tmp_path) == closed

    asyncio.run(scene())


def test_switches_and_policy_are_written_down_together(tmp_path: Path) -> None:
    async def scene() -> None:
        board = a_board(tmp_path)
        await asyncio.gather(
            board.close("B", None, "ana"), board.choose(Policy("local-only")), board.close("gpu-1", None, "ana")
        )
        assert kept(tmp_path)["policy"] == {"policy": "local-only", "until": None}
        assert kept_closed(tmp_path) == {"B", "gpu-1"}

    asyncio.run(scene())


def test_when_a_drain_is_over_the_default_holds_and_it_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        watch = Watch()
        board = a_board(tmp_path, watch, default="local-only")
        drain = Policy("drain-batch", NOON + timedelta(seconds=0.1))
        assert await board.choose(drain) == drain
        assert (board.policy, watch.moves) == (drain, 1)
        await watch.end_drain()
        assert board.policy == Policy("local-only")
        assert (watch.moves, watch.drained) == (2, [Policy("local-only")])

    asyncio.run(scene())


def test_a_drain_is_not_over_before_the_clock_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        watch = Watch()
        drain = Policy("drain-express", NOON + timedelta(seconds=0.02))
        board = a_board(tmp_path, watch)
        await board.choose(drain)
        await asyncio.sleep(0.1)  # the loop's clock is ahead
        assert (board.policy, watch.drained) == (drain, [])
        await watch.end_drain()

    asyncio.run(scene())


def test_another_policy_ends_a_drain_and_its_timer(tmp_path: Path) -> None:
    async def scene() -> None:
        watch = Watch()
        board = a_board(tmp_path, watch)
        await board.choose(Policy("drain-batch", NOON + timedelta(seconds=0.05)))
        await board.choose(Policy("local-only"))
        await board.choose(Policy("drain-express", NOON + timedelta(seconds=0.3)))
        await watch.end_drain()
        assert watch.drained == [Policy("balanced")]

    asyncio.run(scene())
