"""What a switch does before it is opened, at once when it is, and to what else waits, counts or probes; and what the
ledger tells of its moves.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flow.flow_house import OUTSIDE, Backends, House, HouseOpener, Json, Layout
from flow.orders import Orders, ask_at, asked
from lumbre.gateway.policy import POLICIES
from wire_client import Call, poll

pytestmark = pytest.mark.slow

ON_B: Json = {"lumbre": {"affinity": "B"}}
ONE_B = {"gpu-1": ("express", "batch")}
SELDOM: Json = {"breaker": {"probe_s": 20, "failures": 3}}


@contextmanager
def started_with_closed(
    open_house: HouseOpener, backends: Backends, folder: Path, layout: Layout, *switches: str
) -> Iterator[House]:
    """A house that starts with closed switches, as another left them."""
    before = open_house(layout, state_dir=folder / "state")
    for switch in switches:
        before.close(switch)
    before.kill()
    backends.forget()
    with House(folder / "house", layout, backends, state_dir=folder / "state") as house:
        house.listening()
        poll(lambda: house.states()["one"] == "ready", what="tier A is not ready")
        yield house


@pytest.mark.parametrize(
    "switch", ["B", "gpu-1", *(pytest.param(each, marks=pytest.mark.slow) for each in ("express", "global"))]
)
def test_what_was_closed_at_the_start_is_probed_at_once_when_it_is_opened(
    open_house: HouseOpener, backends: Backends, tmp_path: Path, switch: str
) -> None:
    layout = Layout(b={"gpu-1": ("express",)}, c=None, sections=SELDOM)
    with started_with_closed(open_house, backends, tmp_path, layout, switch) as house:
        assert backends.looks()["gpu-1"] == 0
        for stream in (False, True):
            house.close(switch)
            house.open(switch)
            answer = house.ask({**ON_B, "stream": stream})
            assert (answer.status, answer.node) == (200, "gpu-1"), answer.body
        looks = backends.looks()["gpu-1"]
        house.close(switch)
        house.open(switch)
        poll(lambda: backends.looks()["gpu-1"] > looks, 5, "it is not probed when it is opened again")


def test_an_unknown_model_is_one_though_a_machine_is_closed(
    open_house: HouseOpener, backends: Backends, tmp_path: Path
) -> None:
    layout = Layout(b=ONE_B, c=None, sections=SELDOM)
    with started_with_closed(open_house, backends, tmp_path, layout, "B") as house:
        for stream in (False, True):
            answer = house.ask({"model": "typo", "stream": stream})
            assert (answer.status, answer.code) == (404, "model_not_found")
        assert house.ask().status == 200


def test_an_unknown_model_is_one_though_a_machine_is_off(open_house: HouseOpener) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        own = {"gpu-1": {"base_url": f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"}}
        house = open_house(Layout(b=ONE_B, c=None, own=own, sections={"breaker": {"failures": 1}}))
        assert house.states()["gpu-1"] == "down"
        answer = house.ask({"model": "typo"})
        assert (answer.status, answer.code) == (404, "model_not_found")


@dataclass(frozen=True)
class WithVectors(Layout):
    """A layout with a backend for embeddings alone."""

    def toml(self, backends: Backends) -> str:
        own = f'id = "vectors"\nbase_url = "{backends["vectors"].url}/v1"\n'
        return f'{super().toml(backends)}[embeddings]\nbackend = "openai"\n[[embeddings.upstreams]]\n{own}'


def test_who_makes_embeddings_is_not_probed_while_tier_a_is_closed(open_house: HouseOpener, backends: Backends) -> None:
    house = open_house(WithVectors(b=ONE_B, c=None))
    said = {"model": "auto", "input": "x"}
    poll(lambda: ask_at(house, "/v1/embeddings", said).status == 200)
    poll(lambda: backends.looks()["vectors"] > 2)
    house.close("A")
    backends.fence()
    quiet, others = {name: backends.looks()[name] for name in ("vectors", "one")}, backends.looks()["gpu-1"]
    poll(lambda: backends.looks()["gpu-1"] > others + 5)
    assert {name: backends.looks()[name] for name in quiet} == quiet
    assert ask_at(house, "/v1/embeddings", said).code == "switch_closed"
    house.open("A")
    poll(lambda: backends.looks()["vectors"] > quiet["vectors"])
    assert ask_at(house, "/v1/embeddings", said).status == 200


def test_embeddings_are_no_business_of_a_drain_or_of_rented_machines(open_house: HouseOpener) -> None:
    house = open_house()
    house.close("global")
    for policy, klass in product(POLICIES, ("background", "interactive")):
        house.policy(policy)
        said = {"model": "auto", "input": "x"}
        answer = ask_at(house, "/v1/embeddings", said, {"X-Lumbre-Class": klass})
        assert (answer.status, answer.tier) == (200, "A"), answer.body


class SlowCounter:
    """A llama.cpp that takes a prompt to be counted and says nothing until it is let go."""

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.go = threading.Event()
        told = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.say({"data": [{"id": "slow", "owned_by": "llamacpp"}]} if "models" in self.path else {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path.endswith("input_tokens"):
                    told.counted.append(body.decode())
                    told.go.wait(20)
                self.say({"input_tokens": 5})

            def say(self, document: Any) -> None:
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "SlowCounter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_a_prompt_is_not_counted_after_its_label_was_closed(open_house: HouseOpener) -> None:
    with SlowCounter() as engine:
        own = {"gpu-1": {"base_url": engine.url, "context_tokens": 100}}
        house = open_house(Layout(b=ONE_B, c=None, own=own))
        house.wait_state("gpu-1", "ready")
        asked_for = {"model": "tier-b/express", **ON_B, "max_tokens": 1}
        calls = [house.chat({**asked_for, "messages": [{"role": "user", "content": f"secret{n}"}]}) for n in range(6)]
        poll(lambda: len(engine.counted) >= 2, what="no prompt is counted")  # two at a time
        house.close("express")
        sent = list(engine.counted)
        engine.go.set()
        for call in calls:
            with call:
                assert call.status == 503
                assert call.error()["code"] == "switch_closed"
        assert engine.counted == sent
        assert len(sent) == 2
        house.ask(label="batch")  # the other label of the same machine is open
        assert len(engine.counted) == 3


def moves(house: House, switch: str) -> list[Json]:
    """What the ledger tells of a switch, oldest first."""
    with house.get("/v1/ledger?kind=switch&limit=200") as call:
        return [each for each in reversed(call.json()["records"]) if each["switch"] == switch]


def test_who_leaves_while_a_switch_is_opened_leaves_the_ledger_right(open_house: HouseOpener) -> None:
    house = open_house(Layout(c=None))
    opened = 0
    for _ in range(12):
        house.close("B")
        call = Call(f"{house.url}/v1/flow/switches/B", {"state": "open", "by": "leaver"})
        call.leave(reset=True)
        # The board finishes what it has begun before it takes up the next move of the same switch.
        house.close("C")
        house.open("C")
        is_open = "B" not in house.closed()
        opened += is_open
        poll(lambda: moves(house, "B")[-1]["state"] == ("closed" if "B" in house.closed() else "open"))
    assert opened, "nobody was quick enough to be heard"
    told = moves(house, "B")
    assert [each["state"] for each in told].count("open") >= opened
    assert {each["by"] for each in told if each["state"] == "open"} == {"leaver"}


def test_two_who_close_at_once_are_both_in_the_ledger(open_house: HouseOpener) -> None:
    house = open_house()
    who = [f"operator-{number}" for number in range(6)]

    def close(by: str) -> None:
        told = {"state": "closed", "by": by, "reason": f"the reason of {by}"}
        with Call(f"{house.url}/v1/flow/switches/C", told) as call:
            assert call.status == 200

    threads = [threading.Thread(target=close, args=(by,)) for by in who]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    poll(lambda: len(moves(house, "C")) == len(who), what="not every closing is in the ledger")
    told = moves(house, "C")
    assert sorted(each["by"] for each in told) == who
    assert all(each["state"] == "closed" for each in told)
    assert all(f"the reason of {each['by']}" in json.dumps(each) for each in told)


@pytest.mark.parametrize(
    ("tier", "name", "switches"),
    [
        ("A", "one", ("A",)),
        ("B", "gpu-1", ("express", "gpu-1", "B", "global")),
        ("C", OUTSIDE, ("C", "global")),
    ],
    ids=["A", "B", "C"],
)
def test_to_close_and_open_a_switch_ends_a_rest(
    open_house: HouseOpener, backends: Backends, order: Orders, tier: str, name: str, switches: tuple[str, ...]
) -> None:
    layout = Layout(b={"gpu-1": ("express",)}, direct=("*",), sections={"breaker": {"probe_s": 20}})
    house = open_house(layout)
    bound: Json = {"lumbre": {"affinity": tier}}
    for switch in switches:
        backends.forget()
        order(name, times=1, do="refuse", status=503, retry_after="86400")
        assert house.ask(bound).status == 503
        assert house.states()[name] == "cooling"
        assert house.ask(bound).status == 503
        assert asked(backends) == {name: 1}
        house.close(switch)
        house.open(switch)
        assert house.ask(bound).status == 200
        assert house.states()[name] == "ready"
