"""A house of real processes: backends of tiers A, B and C, each a rogue of its own, and gateways before them, worked by
HTTP alone. Used by the flow tests.

    house = open_house(Layout(c="anthropic", direct=("*",)))
    house.close("express")
    answer = house.ask(tier="B", label="express")
    assert (answer.status, answer.code, answer.switch) == (503, "switch_closed", "express")
    assert house.backends.hits() == {}
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from gateway_process import GatewayProcess, Sections
from rogue_process import RogueProcess
from wire_client import Call, poll

Json = dict[str, Any]

KEY = "k-outside-1"
"""Tier C's key, unless a layout says otherwise."""
KEY_ENV = "FLOW_TEST_KEY"

OUTSIDE = "tier-c"
"""The name of tier C's backend, as it stands in replies."""

# Short enough to be met by a test, long enough not to be met by chance on a busy machine.
PATIENT = {"header_s": 20, "first_token_s": 20, "idle_s": 20, "total_s": 40}
EAGER = {"probe_s": 0.2, "failures": 100}
"""Probes often, and no breaker opens by chance: but an upstream goes down after as many failed probes, so say
`failures` where that is wanted."""

PAIR: Mapping[str, tuple[str, ...]] = {"gpu-1": ("express",), "gpu-2": ("batch",)}


@dataclass(frozen=True)
class Hit:
    """A request that reached a backend.

    Attributes:
        id: the exchange's, if its wish gave it one.
        started_s: when the backend read it, on the monotonic clock that all processes of the machine share.
    """

    backend: str
    id: str
    path: str
    started_s: float
    headers: Mapping[str, str]
    body: str

    def json(self) -> Json:
        told: Json = json.loads(self.body)
        return told


class Backends:
    """The rogues, by the name that their node has in the settings; each starts when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes = ExitStack()
        self._rogues: dict[str, RogueProcess] = {}
        self._pages: dict[tuple[str, str], object] = {}
        self._ill: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def __getitem__(self, name: str) -> RogueProcess:
        if name not in self._rogues:
            folder = self._folder / name
            folder.mkdir()
            self._rogues[name] = self._processes.enter_context(RogueProcess(folder))
        return self._rogues[name]

    def hits(self, since_s: float = 0.0) -> dict[str, list[Hit]]:
        """The requests for an answer that have reached backends since a moment, and since the last `forget`.

        Args:
            since_s: a reading of `time.monotonic`.

        Returns:
            By backend; one that was not reached is not there.
        """
        found: dict[str, list[Hit]] = defaultdict(list)
        for name, rogue in self._rogues.items():
            for told in rogue.log()["requests"]:
                headers = {key.lower(): value for key, value in told["headers"]}
                hit = Hit(name, told["id"], told["path"], told["started_s"], headers, told["body"])
                if hit.started_s >= since_s:
                    found[name].append(hit)
        return dict(found)

    def fence(self) -> float:
        """Let every backend read all that had been sent to it before this call, and say when that was done.

        On loopback what is sent is at once in the other end's buffer, and a rogue reads its connections in turn: once
        it has answered two questions that were put after, it has read all that was there before.
        """
        for rogue in self._rogues.values():
            rogue.log()
            rogue.log()
        return time.monotonic()

    def looks(self) -> dict[str, int]:
        """How often each backend was asked about itself (its models, its tokens) since the last `forget`."""
        logs = {name: rogue.log() for name, rogue in self._rogues.items()}
        return {name: log["models_asked"] + len(log["pages"]) for name, log in logs.items()}

    def tries(self) -> dict[str, int]:
        """How often each backend was asked, since the last `forget`, for an answer in whose place a page is laid."""
        logs = {name: rogue.log()["pages"] for name, rogue in self._rogues.items()}
        return {name: sum(page["method"] == "POST" for page in pages) for name, pages in logs.items()}

    def lay(self, name: str, path: str, document: object, status: int = 200) -> None:
        """Have a backend answer a path with a document, until `heal`; whoever asks then is one of its `looks`."""
        self._pages[name, path] = document
        self[name].lay(path, document, status)

    def set_well(self, name: str, well: bool) -> None:
        """Have a backend answer its probes, or fail them with 503."""
        self[name].answer_models_with(200 if well else 503)
        if (listed := self._pages.get((name, "/v1/models"))) is not None:
            self[name].lay("/v1/models", listed, 200 if well else 503)
        (self._ill.discard if well else self._ill.add)(name)

    def heal(self) -> None:
        """Have all backends answer as they did when they started."""
        for name in tuple(self._ill):
            self.set_well(name, well=True)
        for name, path in self._pages:
            self[name].lay(path, {}, 0)
        self._pages.clear()

    def forget(self) -> None:
        """Forget what has reached them; nothing may be left that runs."""
        for rogue in self._rogues.values():
            rogue.wait_running(0)
            rogue.forget()


@dataclass(frozen=True)
class Layout:
    """What a gateway stands before; the backends' names are the nodes' ids.

    Attributes:
        a: tier A's upstreams.
        b: tier B's nodes, each with its labels.
        c: the API of tier C; None: no tier C.
        key: tier C's; None: the variable is not set.
        direct: see `[tier_c] direct`.
        model_c: what tier C is asked for.
        own: further settings of single nodes (and of tier C by `tier-c`), by id.
        sections: further settings of whole sections; `[breaker]` and `[deadlines]` stand on the usual ones.
    """

    a: tuple[str, ...] = ("one",)
    b: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(PAIR))
    c: str | None = "openai"
    key: str | None = KEY
    direct: tuple[str, ...] = ()
    model_c: str = "vast"
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sections: Sections = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all backends that it needs."""
        return (*self.a, *self.b, *((OUTSIDE,) if self.c else ()))

    def settings(self) -> Sections:
        """Sections without the lists of nodes."""
        told = {**self.sections}
        told["deadlines"] = {**PATIENT, **self.sections.get("deadlines", {})}
        told["breaker"] = {**EAGER, **self.sections.get("breaker", {})}
        return {name: values for name, values in told.items() if name not in ("tier_b", "tier_c")}

    def toml(self, backends: Backends) -> str:
        """The nodes and tier C."""
        lines = []
        for upstream in self.a:
            lines += _table("[[tier_a.upstreams]]", self._node(upstream, backends))
        lines += _table("[tier_b]", self.sections.get("tier_b", {}))
        for node, labels in self.b.items():
            lines += _table("[[tier_b.nodes]]", {**self._node(node, backends), "labels": list(labels)})
        if self.c is not None:
            outside = {**self._node(OUTSIDE, backends), "api": self.c, "api_key_env": KEY_ENV}
            outside |= {"model": self.model_c, "direct": list(self.direct)}
            del outside["id"]
            lines += _table("[tier_c]", {**outside, **self.sections.get("tier_c", {}), **self.own.get(OUTSIDE, {})})
        return "\n".join(lines) + "\n"

    def _node(self, name: str, backends: Backends) -> Json:
        return {"id": name, "base_url": f"{backends[name].url}/v1", **self.own.get(name, {})}


def _table(head: str, values: Mapping[str, Any]) -> list[str]:
    # Numbers, strings, booleans and arrays of them are spelled alike in JSON and TOML.
    return [head, *(f"{key} = {json.dumps(value)}" for key, value in values.items())]


@dataclass(frozen=True)
class Answer:
    """A reply of the gateway, read to its end.

    Attributes:
        headers: names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def tier(self) -> str | None:
        return self.headers.get("x-lumbre-tier")

    @property
    def node(self) -> str | None:
        return self.headers.get("x-lumbre-node")

    @property
    def decision(self) -> str:
        return self.headers["x-lumbre-decision"]

    @property
    def retry_after_s(self) -> int | None:
        told = self.headers.get("retry-after")
        return None if told is None else int(told)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Json:
        """The error of a refusal in OpenAI's or Anthropic's shape; {} if it is none."""
        if self.status < 400:
            return {}
        error: Json = self.json()["error"]
        return error

    @property
    def lumbre(self) -> Json:
        """The error's own part."""
        told: Json = self.error.get("lumbre") or {}
        return told

    @property
    def code(self) -> str | None:
        return self.error.get("code") or self.lumbre.get("code")

    @property
    def switch(self) -> str | None:
        """The switch that stood in the way."""
        return self.lumbre.get("switch")


HINTS = ("tier", "label", "complexity", "affinity", "class", "closed", "external")


def hint_headers(hints: Mapping[str, str | None]) -> dict[str, str]:
    """Hints as headers; `klass` stands for `class`, and what is None is not said."""
    named = {name.replace("klass", "class"): value for name, value in hints.items()}
    assert named.keys() <= set(HINTS), named
    return {f"X-Lumbre-{name.title()}": value for name, value in named.items() if value is not None}


class House(GatewayProcess):
    """A gateway, and the way to work it."""

    def __init__(self, folder: Path, layout: Layout, backends: Backends, **more: Any) -> None:
        environ = {} if layout.key is None else {KEY_ENV: layout.key}
        more["environ"] = {**environ, **more.get("environ", {})}
        sections = layout.settings()
        super().__init__(folder, {}, sections=sections, toml=layout.toml(backends), **more)
        self.layout = layout
        self.backends = backends

    def settled(self) -> Self:
        """Wait until it listens and has looked at each of its upstreams."""
        self.listening()
        poll(lambda: "starting" not in self.states().values(), what="not every upstream has been looked at")
        return self

    def states(self) -> dict[str, str]:
        """Of every upstream: `ready`, `starting`, `down`, `tripped`, `cooling`."""
        tiers = self.flow()["tiers"].values()
        return {upstream["id"]: upstream["state"] for tier in tiers for upstream in tier["upstreams"]}

    def wait_state(self, name: str, state: str) -> None:
        poll(lambda: self.states()[name] == state, what=f"{name} is not {state}")

    def set_well(self, name: str, well: bool) -> None:
        """Have a backend answer its probes or fail them, and wait until the gateway has seen it; see `[breaker]`."""
        self.backends.set_well(name, well)
        self.wait_state(name, "ready" if well else "down")

    def flow(self) -> Json:
        return self._told("/v1/flow")

    def close(self, switch: str, reason: str | None = None) -> float:
        """Close a switch; the moment when the answer was there, on the monotonic clock."""
        return self._move(switch, "closed", reason)

    def open(self, switch: str, reason: str | None = None) -> float:
        return self._move(switch, "open", reason)

    def closed(self) -> set[str]:
        return {each["name"] for each in self._told("/v1/flow/switches")["switches"] if each["state"] == "closed"}

    def policy(self, name: str, lasting: str | None = None) -> Json:
        told = {"policy": name} if lasting is None else {"policy": name, "for": lasting}
        return self._told("/v1/flow/policy", told)

    def explain(self, body: Mapping[str, Any] | None = None, **hints: str | None) -> Json:
        told = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], **(body or {})}
        return self._told("/v1/flow/explain", told, hint_headers(hints))

    def ask(
        self,
        body: Mapping[str, Any] | None = None,
        *,
        path: str = "/v1/chat/completions",
        headers: Mapping[str, str] | None = None,
        **hints: str | None,
    ) -> Answer:
        """Ask for a chat answer, with hints as headers, and read it to its end.

        Args:
            body: what it has beyond a model (`auto`) and a message.
        """
        asked = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], **(body or {})}
        with Call(f"{self.url}{path}", asked, {**hint_headers(hints), **(headers or {})}, deadline_s=60) as call:
            told = {name.lower(): value for name, value in call.response.getheaders()}
            return Answer(call.status, told, call.read())

    def in_flight(self) -> tuple[int, int]:
        """Requests that run on any upstream, and requests that wait for one."""
        upstreams = [each for tier in self.flow()["tiers"].values() for each in tier["upstreams"]]
        return sum(each["in_flight"] for each in upstreams), sum(each["waiting"] for each in upstreams)

    def _move(self, switch: str, state: str, reason: str | None) -> float:
        told = {"state": state} if reason is None else {"state": state, "reason": reason}
        answer = self._told(f"/v1/flow/switches/{switch}", told)
        at_s = time.monotonic()
        assert answer["state"] == state, answer
        return at_s

    def _told(self, path: str, body: Json | None = None, headers: Mapping[str, str] | None = None) -> Json:
        with Call(f"{self.url}{path}", body, headers) as call:
            told: Json = call.json()
            assert call.status == 200, f"{path} {body}: {call.status} {told}"
            return told


def whisper(wish: Mapping[str, Any]) -> Json:
    """The field of a chat request that carries a wish to whichever backend answers, in any API; see `rogue.whisper`.

    A wish in the body's `rogue` does not come through where a request is told in another API's words.
    """
    return {"user": json.dumps({"rogue": wish})}


HouseOpener = Callable[..., House]
"""`open_house(Layout(...), **more)`, where `more` is what `GatewayProcess` takes; a fixture ends what it opened."""


def open_houses(backends: Backends, folders: pytest.TempPathFactory) -> Iterator[HouseOpener]:
    """The generator of a fixture that opens houses."""
    with ExitStack() as opened:

        def open_one(layout: Layout | None = None, **more: Any) -> House:
            house = opened.enter_context(House(folders.mktemp("house"), layout or Layout(), backends, **more))
            return house.settled()

        yield open_one
