"""The ledger over HTTP: one decision, or page by page; and what is asked wrongly is named."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from lumbre.api import ledger as door
from lumbre.core.errors import LumbreError
from lumbre.gateway.switches import Switch
from lumbre.ledger.records import KEYS, Place, Tried, attempt, switch
from lumbre.ledger.store import Ledger
from lumbre.wire.openai.errors import error_body

AT = datetime(2026, 12, 1, 12, tzinfo=UTC)


async def _told(_request: Request, error: Exception) -> Response:
    assert isinstance(error, LumbreError)
    return Response(error_body(error, None), error.status)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A ledger of five attempts of two decisions, and a switch."""
    ledger = Ledger(tmp_path / "ledger", now=lambda: AT)
    for number in range(5):
        ledger.add_now(attempt(f"d-{number % 2}", AT, Place("A", None, "embedded"), Tried(number, "ok", 200, 0.5)))
    ledger.add_now(switch(Switch("B", is_closed=True), AT))
    routes = [Route("/v1/ledger", door.records(ledger))]
    yield TestClient(Starlette(routes=routes, exception_handlers={LumbreError: _told}))
    ledger.close()


def told(client: TestClient, query: str) -> tuple[list[int | None], str | None]:
    """The numbers of the attempts in a reply, None for another record; and its `next`."""
    reply = client.get(f"/v1/ledger{query}")
    assert reply.status_code == 200, reply.text
    document = reply.json()
    assert set(document) == {"records", "next"}
    assert all(set(KEYS) <= set(entry) for entry in document["records"])
    return [entry.get("attempt") for entry in document["records"]], document["next"]


def test_a_decision_is_told_whole_and_in_its_order(client: TestClient) -> None:
    assert told(client, "?decision=d-0") == ([0, 2, 4], None)
    assert told(client, "?decision=d-0&kind=attempt") == ([0, 2, 4], None)
    assert told(client, "?decision=d-0&kind=crossing") == ([], None)


@pytest.mark.parametrize("decision", ["d-9", "", "%00", "d-0%22", "x" * 3000])
def test_a_decision_that_nobody_knows_has_no_records(client: TestClient, decision: str) -> None:
    assert told(client, f"?decision={decision}") == ([], None)


@pytest.mark.parametrize("name", ["after", "next"])
def test_pages_lead_from_one_to_the_next(client: TestClient, name: str) -> None:
    numbers, following = told(client, "?limit=4")
    assert numbers == [None, 4, 3, 2]
    assert told(client, f"?limit=4&{name}={following}") == ([1, 0], None)
    assert told(client, "") == ([None, 4, 3, 2, 1, 0], None)


def test_one_kind_can_be_asked_for(client: TestClient) -> None:
    assert told(client, "?kind=switch") == ([None], None)
    assert told(client, "?kind=attempt&limit=1")[0] == [4]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=", "limit"),
        ("limit=²", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("kind=secret", "kind"),
        ("kind=", "kind"),
        ("after=x", "after"),
        ("after=", "after"),
        ("next=2026-12-01.3", "next"),
        ("after=x&next=x", "next"),
        ("decision=d-0&limit=1", "limit"),
        ("decision=d-0&after=x", "after"),
        ("decison=d-0", "decison"),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(client: TestClient, query: str, param: str) -> None:
    reply = client.get(f"/v1/ledger?{query}")
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, param)
    assert param in error["message"]


def test_a_kind_that_is_none_is_told_which_there_are(client: TestClient) -> None:
    error = client.get("/v1/ledger?kind=secret").json()["error"]
    assert error["lumbre"]["valid"] == ["request", "attempt", "crossing", "hold", "switch", "policy"]
