"""The kept responses over HTTP: read, listed, deleted, and refused with a reason; and what a request goes on from."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from lumbre.api import responses
from lumbre.core.errors import CallerError, LumbreError
from lumbre.runtime.archive import ANSWER_S, Archive
from lumbre.runtime.response_store import ResponseStore, StoreBroken
from lumbre.wire.openai.errors import error_body
from lumbre.wire.responses.items import kept_items
from lumbre.wire.responses.translation import ResponseTranslation

BODY = {
    "input": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
    ]
}
ITEMS = ["msg_a_in0", "msg_a_in1", "fc_a_in2", "fco_a_in3"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResponseStore]:
    store = ResponseStore(tmp_path / "r.db", keep=9, keep_bytes=10**6, keep_s=60, now_s=lambda: 5.0)
    told = ResponseTranslation("resp_a", 5, "m", BODY)
    told.reply({"choices": [{"message": {"content": "x"}}]})
    store.put("resp_a", told.result, kept_items(BODY, "resp_a", {}))
    yield store
    store.close()


async def _told(_request: Request, error: Exception) -> Response:
    assert isinstance(error, LumbreError)
    return Response(error_body(error, None), error.status)


def client(store: ResponseStore | None) -> TestClient:
    path = "/v1/responses/{response_id}"
    archive = None if store is None else Archive(store)
    routes = [
        Route(path, responses.retrieve(archive), methods=["GET"]),
        Route(path, responses.delete(archive), methods=["DELETE"]),
        Route(f"{path}/input_items", responses.input_items(archive), methods=["GET"]),
        Route(f"{path}/cancel", responses.cancel(archive), methods=["POST"]),
        Route("/v1/responses/compact", responses.unsupported("compact"), methods=["POST"]),
    ]
    return TestClient(Starlette(routes=routes, exception_handlers={LumbreError: _told}))


def error(reply: Any) -> tuple[int, str, str | None]:
    told = reply.json()["error"]
    return reply.status_code, told["code"], told["param"]


def test_a_kept_response_is_told_as_it_was_and_then_deleted(store: ResponseStore) -> None:
    http = client(store)
    assert http.get("/v1/responses/resp_a").json() == store.get("resp_a")
    assert http.get("/v1/responses/resp_a?stream=false&include=reasoning.encrypted_content").status_code == 200
    deleted = http.delete("/v1/responses/resp_a").json()
    assert deleted == {"id": "resp_a", "object": "response.deleted", "deleted": True}
    for again in (http.get("/v1/responses/resp_a"), http.delete("/v1/responses/resp_a")):
        assert error(again) == (404, "response_not_found", "response_id")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("stream=true", "stream"),
        ("starting_after=3", "starting_after"),
        ("include=file_search_call.results", "include"),
        ("include[]=file_search_call.results", "include"),
    ],
)
def test_what_cannot_be_told_again_is_refused_by_name(store: ResponseStore, query: str, field: str) -> None:
    assert error(client(store).get(f"/v1/responses/resp_a?{query}")) == (400, "unsupported_field", field)


@pytest.mark.parametrize(
    ("query", "ids", "more"),
    [
        ("", ITEMS[::-1], False),
        ("order=asc", ITEMS, False),
        ("order=asc&limit=2", ITEMS[:2], True),
        ("order=asc&limit=2&after=msg_a_in1", ITEMS[2:], False),
        ("limit=1&after=fc_a_in2", [ITEMS[1]], True),
        ("after=msg_a_in0", [], False),
    ],
)
def test_input_items_are_listed_by_pages(store: ResponseStore, query: str, ids: list[str], more: bool) -> None:
    page = client(store).get(f"/v1/responses/resp_a/input_items?{query}").json()
    assert [item["id"] for item in page["data"]] == ids
    assert page["has_more"] is more
    assert (page["first_id"], page["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))
    assert page["object"] == "list"


def test_openais_own_types_take_every_listed_item(store: ResponseStore) -> None:
    listed: TypeAdapter[Any] = TypeAdapter(ResponseItem)
    for item in store.input_items("resp_a") or []:
        assert listed.validate_python(item).id == item["id"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("limit=%C2%B2", "limit"),
        ("order=up", "order"),
        ("after=msg_b", "after"),
    ],
)
def test_a_page_that_makes_no_sense_is_refused_by_name(store: ResponseStore, query: str, field: str) -> None:
    reply = client(store).get(f"/v1/responses/resp_a/input_items?{query}")
    assert error(reply) == (400, "invalid_value", field)


def test_there_is_nothing_to_cancel_and_it_says_why(store: ResponseStore) -> None:
    reply = client(store).post("/v1/responses/resp_a/cancel")
    assert error(reply) == (400, "not_cancellable", None)
    assert "background" in reply.json()["error"]["message"]
    assert error(client(store).post("/v1/responses/resp_b/cancel"))[0] == 404


def test_a_path_that_nobody_answers_is_not_found_with_the_reason(store: ResponseStore) -> None:
    reply = client(store).post("/v1/responses/compact", json={})
    assert error(reply) == (404, "unsupported_endpoint", None)
    assert "shorter `input`" in reply.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "GET /input_items", "POST /cancel"])
def test_a_store_that_is_turned_off_says_how_to_turn_it_on(method: str) -> None:
    verb, _, rest = method.partition(" ")
    reply = client(None).request(verb, f"/v1/responses/resp_a{rest}")
    assert error(reply) == (404, "response_not_found", None)
    assert "[responses] store = true" in reply.json()["error"]["message"]


def test_a_store_that_is_broken_is_a_503(tmp_path: Path) -> None:
    (tmp_path / "r.db").mkdir()
    broken = ResponseStore(tmp_path / "r.db", keep=9, keep_bytes=10**6, keep_s=60, now_s=lambda: 5.0)
    assert error(client(broken).get("/v1/responses/resp_a")) == (503, "response_store_broken", None)
    with pytest.raises(StoreBroken):
        asyncio.run(responses.recall(Archive(broken), {"input": "hi", "previous_response_id": "resp_a"}))
    assert asyncio.run(responses.recall(Archive(broken), {"input": "hi"})) == responses.Recalled()


def test_a_store_that_hangs_costs_one_wait_and_then_says_so_at_once(store: ResponseStore) -> None:
    body = {"input": "hi", "previous_response_id": "resp_a"}

    async def scene() -> None:
        archive, clock, go = Archive(store), asyncio.get_running_loop().time, threading.Event()
        began = clock()
        with pytest.raises(StoreBroken, match="did not answer within"):
            await archive.ask(go.wait)
        assert ANSWER_S <= clock() - began < ANSWER_S + 1
        began = clock()
        for _ in range(9):
            with pytest.raises(StoreBroken, match="does not answer"):
                await responses.recall(archive, body)
        assert clock() - began < 0.5
        assert await asyncio.to_thread(lambda: 7) == 7, "the threads for large bodies are taken"
        go.set()
        async with asyncio.timeout(5):
            while True:  # until the loop has heard of the thread that is free again
                with contextlib.suppress(StoreBroken):
                    assert len((await responses.recall(archive, body)).history) == 5
                    break
                await asyncio.to_thread(int)
        await archive.close()

    asyncio.run(scene())


def test_what_a_request_goes_on_from_is_looked_up(store: ResponseStore) -> None:
    body = {
        "input": [{"id": "msg_a_0"}, {"type": "item_reference", "id": "fc_a_in2"}],
        "previous_response_id": "resp_a",
    }
    recalled = asyncio.run(responses.recall(Archive(store), body))
    assert [item["id"] for item in recalled.history] == [*ITEMS, "msg_a_0"]
    assert set(recalled.known) == {"msg_a_0", "fc_a_in2"}


def test_going_on_from_a_response_needs_a_store() -> None:
    with pytest.raises(CallerError, match=r"\[responses\] store = true") as caught:
        asyncio.run(responses.recall(None, {"input": "hi", "previous_response_id": "resp_a"}))
    assert (caught.value.status, caught.value.code) == (400, "previous_response_not_found")
    assert caught.value.param == "previous_response_id"
    assert asyncio.run(responses.recall(None, {"input": "hi"})) == responses.Recalled()
