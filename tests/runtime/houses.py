"""A house whose tiers no process stands behind, wired as the gateway wires it. Used by the tests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lumbre.gateway.budget import TokenPrice
from lumbre.runtime.board import Board
from lumbre.runtime.house import House, Rules, check_of, check_of_node
from lumbre.runtime.lanes import Lane
from lumbre.runtime.purse import Purse
from lumbre.runtime.tier import Tier
from runtime.boards import Watch, a_board
from runtime.tiers import LIMITS, a_lane, a_tier

RULES = Rules(a_does_strict_json=False, on_closed="auto", c_direct=frozenset(), c_has_key=True)


@dataclass
class Home:
    """A house with all that it is made of.

    Attributes:
        suspected: the lanes that somebody was told to look at.
        news: set whenever something changes.
    """

    house: House
    board: Board
    purse: Purse
    watch: Watch
    suspected: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that changes makes it true."""
        async with asyncio.timeout(10):
            while not condition():
                self.news.clear()
                await self.news.wait()

    def lane(self, name: str) -> Lane:
        """One of all tiers' lanes."""
        return {lane.id: lane for tier in self.house.tiers for lane in tier.lanes.values()}[name]

    def tier_of(self, name: str) -> Tier:
        return next(tier for tier in self.house.tiers if name in tier.lanes)


def a_home(folder: Path, **more: Any) -> Home:
    """Tier A has `a1` and `a2`; B has `gpu-1` (express) and `gpu-2` (both labels); C has `c`.

    Its budget is 1000 micro-dollars a day.

    Args:
        more: for `a_tier`.
    """
    seen = Watch()
    suspected: list[str] = []
    made: list[House] = []
    news = asyncio.Event()

    def touch() -> None:
        news.set()
        for house in made:  # while the tiers are being made they already have news
            house.touch()

    def moved() -> None:
        for house in made:
            house.moved()

    seen.moved = moved
    more = {"breaker": LIMITS, "suspect": lambda lane: suspected.append(lane.id), "news": touch, **more}
    board = a_board(folder, seen)
    nodes = {"gpu-1": ("express",), "gpu-2": ("batch", "express")}
    lanes_a = [a_lane(name, 2, models=("m", "small"), check=check_of(board, "A")) for name in ("a1", "a2")]
    lanes_b = [
        a_lane(name, 2, models=("m", "large"), labels=labels, check=check_of_node(board, name, labels))
        for name, labels in nodes.items()
    ]
    lane_c = a_lane("c", 2, model="vast", models=("vast",), outside=True)
    purse = Purse(
        {"all": 1000},
        {"gpu-1": 3600},
        TokenPrice(1_000_000, 1_000_000),
        longest_s=10,
        now=seen.now,
        news=touch,
        write=lambda _entry: None,
    )
    house = House(
        a_tier(*lanes_a, **more),
        a_tier(*lanes_b, name="B", **more),
        a_tier(lane_c, name="C", **more),
        board=board,
        purse=purse,
        rules=RULES,
    )
    made.append(house)
    return Home(house, board, purse, seen, suspected, news)
