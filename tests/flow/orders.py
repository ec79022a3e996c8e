"""What a test orders single backends to do, whatever their requests say; how it asks at each door; and the records it
finds of a request. Used by the flow tests.

A request that goes to several backends in turn cannot say what each of them shall do.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from flow.flow_house import Answer, Backends, House, Json
from wire_client import Call, poll


class Orders:
    """Orders to backends, by name; they hold until `withdraw`."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._given: set[str] = set()

    def __call__(self, backend: str, times: int = 0, **wish: Any) -> None:
        """Have it do this (see `rogue.wish`) with the next so many requests; 0: with all."""
        self._put(backend, "order", json.dumps(wish), times=times)

    def demand(self, backend: str, api: str, key: str) -> None:
        """Have it be as strict as an API's vendor: no field that is not published, no other key than this."""
        self._put(backend, "demand", "", api=api, key=key)

    def withdraw(self) -> None:
        """Have all of them behave again."""
        for backend in tuple(self._given):
            self(backend)
            self.demand(backend, "", "")
        self._given.clear()

    def _put(self, backend: str, what: str, body: str, **query: object) -> None:
        self._given.add(backend)
        url = f"{self._backends[backend].url}/rogue/{what}?{urlencode(query)}"
        with Call(url, body, method="PUT") as call:
            assert call.status == 200, call.read()


def given_orders(backends: Backends) -> Iterator[Orders]:
    """The generator of a fixture that gives orders for one test."""
    orders = Orders(backends)
    yield orders
    orders.withdraw()


DOORS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")


def said_at(door: str, text: str = "hello", **more: Any) -> Json:
    """A request's body that says a text at a door."""
    body: Json = {"model": "auto", **more}
    if door == "/v1/responses":
        return {"input": text, **body}
    if door == "/v1/completions":
        return {"prompt": text, **body}
    turns = {"messages": [{"role": "user", "content": text}]}
    return {**turns, **({"max_tokens": 200} if door == "/v1/messages" else {}), **body}


def ask_at(house: House, door: str, body: Json, headers: Mapping[str, str] | None = None) -> Answer:
    """Ask at a door, and read the reply to its end."""
    with Call(f"{house.url}{door}", body, headers, deadline_s=60) as call:
        told = {name.lower(): value for name, value in call.response.getheaders()}
        return Answer(call.status, told, call.read())


def asked(backends: Backends) -> dict[str, int]:
    """How often each backend was asked for an answer."""
    return {name: len(hits) for name, hits in backends.hits().items()}


def records_of(house: House, decision: str, kind: str | None = None) -> list[Json]:
    """The ledger's records of a request, or those of a kind, oldest first, once it has ended."""
    found: list[Json] = []

    def has_ended() -> bool:
        found[:] = house.ledger(decision)
        return any(record["kind"] == "request" for record in found)

    poll(has_ended, what=f"the ledger does not say how {decision} ended")
    return [record for record in found if kind in (None, record["kind"])]


def breaker(house: House, name: str) -> str:
    """A breaker's state."""
    tiers = house.flow()["tiers"].values()
    state: str = next(each["breaker"]["state"] for tier in tiers for each in tier["upstreams"] if each["id"] == name)
    return state
