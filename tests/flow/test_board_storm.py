"""A real gateway, killed with -9 at moments that nobody chose, again and again, while somebody closes and opens."""

import http.client
import json
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from flow.flow_house import Backends, House, Layout

SMALL = Layout(b={"gpu-1": ("express",)}, c=None)
NAMES = ("A", "B", "C", "batch", "express", "global", "gpu-1")


@dataclass
class Operator:
    """Closes and opens as fast as it is answered, and remembers what it was told.

    Attributes:
        acknowledged: by switch, the state that the gateway acknowledged last.
        asked: the switch and state that it had asked for when it got no answer; None if it was answered.
    """

    url: str
    dice: random.Random
    acknowledged: dict[str, str]
    asked: tuple[str, str] | None = None
    answers: int = 0
    refusals: list[str] = field(default_factory=list)

    def work(self) -> None:
        """Until the gateway is gone."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        try:
            while True:
                name, state = self.dice.choice(NAMES), self.dice.choice(["closed", "open"])
                self.asked = name, state
                body = json.dumps({"state": state, "by": "storm"})
                connection.request("POST", f"/v1/flow/switches/{name}", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                told = json.loads(response.read())
                if response.status != 200 or told["state"] != state:
                    self.refusals.append(f"{name} {state}: {response.status} {told}")
                self.acknowledged[name], self.asked = state, None
                self.answers += 1
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()


def storm(folder: Path, backends: Backends, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    acknowledged = dict.fromkeys(NAMES, "open")
    pending: tuple[str, str] | None = None
    answers = 0
    for number in range(rounds):
        with House(folder / str(number), SMALL, backends, state_dir=folder / "state") as house:
            house.listening()
            flow = house.flow()
            now = {each["name"]: each["state"] for each in flow["switches"]}
            assert flow["problems"] == []
            for name, state in acknowledged.items():
                may_be = {state} if pending is None or pending[0] != name else {state, pending[1]}
                assert now[name] in may_be, f"round {number}: {name} was acknowledged {state}, asked for {pending}"
            operator = Operator(house.url, dice, now)
            working = threading.Thread(target=operator.work)
            working.start()
            working.join(dice.uniform(0.0, 0.12))  # it does not end by itself
            house.process.kill()
            working.join(30)
            assert not working.is_alive()
            assert operator.refusals == []
            acknowledged, pending = operator.acknowledged, operator.asked
            answers += operator.answers
    assert answers > rounds


def test_a_switch_that_was_acknowledged_is_as_it_was_after_every_kill(backends: Backends, tmp_path: Path) -> None:
    storm(tmp_path, backends, rounds=6, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_switch_that_was_acknowledged_is_as_it_was_after_a_hundred_kills(backends: Backends, tmp_path: Path) -> None:
    storm(tmp_path, backends, rounds=100, seed=2)
