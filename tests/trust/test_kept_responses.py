"""What is kept of Responses: conversations that go on, over restarts and crashes; and calls that go on without it."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response

from gateway_process import GatewayProcess, Opener
from rogue_process import RogueProcess
from wire_client import Call

MODEL = "rogue"
LOOKUP: Any = {"type": "function", "name": "lookup", "parameters": {"type": "object"}, "strict": False}


def sdk(gateway: GatewayProcess) -> OpenAI:
    return OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=30)


def ask(client: OpenAI, name: str, text: Any, **more: Any) -> Response:
    """One turn; the engine repeats what its wish says."""
    wish = {"id": name, **more.pop("rogue", {})}
    response: Response = client.responses.create(model=MODEL, input=text, extra_body={"rogue": wish}, **more)
    return response


def stored(response: Response) -> bool:
    """Whether it says that it was kept; the SDK's type does not know the field."""
    says: bool = response.model_dump()["store"]
    return says


def heard(rogue: RogueProcess, name: str) -> list[tuple[str, Any]]:
    """The conversation that the engine got, by role and content."""
    messages = json.loads(rogue.find(name)["body"])["messages"]
    return [(message["role"], message["content"]) for message in messages]


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[OpenAI]:
    with sdk(gateway) as made:
        yield made


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_conversation_goes_on_and_the_engine_hears_all_of_it(
    client: OpenAI, rogue: RogueProcess, name: str, stream: bool
) -> None:
    previous = ask(client, f"{name}-1", "one", instructions="Be brief.", rogue={"text": "uno"}).id
    if stream:
        wish = {"id": f"{name}-2", "text": "dos"}
        events = list(
            client.responses.create(
                model=MODEL, input="two", previous_response_id=previous, stream=True, extra_body={"rogue": wish}
            )
        )
        last = events[-1]
        assert last.type == "response.completed"
        assert last.response.previous_response_id == previous
        previous = last.response.id
    else:
        previous = ask(client, f"{name}-2", "two", previous_response_id=previous, rogue={"text": "dos"}).id
    ask(client, f"{name}-3", "three", previous_response_id=previous, instructions="Be kind.")
    # The instructions of earlier turns are none of it.
    assert heard(rogue, f"{name}-3") == [
        ("system", "Be kind."),
        ("user", "one"),
        ("assistant", "uno"),
        ("user", "two"),
        ("assistant", "dos"),
        ("user", "three"),
    ]


def test_a_call_that_was_kept_needs_only_its_output(client: OpenAI, rogue: RogueProcess, name: str) -> None:
    first = ask(client, f"{name}-1", "where?", tools=[LOOKUP], rogue={"tool_arguments": '{"city": "Ronda"}'})
    (call,) = first.output
    assert call.type == "function_call"
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "in Spain"}
    ask(client, f"{name}-2", [output], tools=[LOOKUP], previous_response_id=first.id)
    messages = json.loads(rogue.find(f"{name}-2")["body"])["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == '{"city": "Ronda"}'
    assert messages[2] == {"role": "tool", "tool_call_id": call.call_id, "content": "in Spain"}


def test_two_turns_may_go_on_from_the_same_one(client: OpenAI, rogue: RogueProcess, name: str) -> None:
    first = ask(client, f"{name}-1", "one", rogue={"text": "uno"})
    for branch in ("left", "right"):
        ask(client, f"{name}-{branch}", branch, previous_response_id=first.id)
        assert heard(rogue, f"{name}-{branch}") == [("user", "one"), ("assistant", "uno"), ("user", branch)]


def test_a_response_is_retrieved_as_it_was_told_then_deleted(client: OpenAI, name: str) -> None:
    told = ask(client, name, "one", metadata={"topic": "numbers"})
    found = client.responses.retrieve(told.id)
    assert found == told
    assert (stored(found), found.metadata) == (True, {"topic": "numbers"})
    client.responses.delete(told.id)
    for again in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError) as caught:
            again(told.id)
        assert caught.value.code == "response_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, f"{name}-2", "two", previous_response_id=told.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


def test_input_items_are_listed_by_pages_and_can_be_referred_to(client: OpenAI, rogue: RogueProcess, name: str) -> None:
    told = ask(client, name, [{"role": "user", "content": f"number {number}"} for number in range(5)])
    listed = list(client.responses.input_items.list(told.id, order="asc", limit=2))
    texts = [item.content[0].text for item in listed if item.type == "message" and item.content[0].type == "input_text"]
    assert texts == [f"number {number}" for number in range(5)]
    ask(client, f"{name}-2", [{"type": "item_reference", "id": listed[3].id}, {"role": "user", "content": "that one?"}])
    assert heard(rogue, f"{name}-2") == [("user", "number 3"), ("user", "that one?")]


def test_there_is_nothing_to_cancel(client: OpenAI, name: str) -> None:
    told = ask(client, name, "one")
    with pytest.raises(openai.BadRequestError, match="background") as caught:
        client.responses.cancel(told.id)
    assert caught.value.code == "not_cancellable"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_what_was_not_to_be_kept_is_not(client: OpenAI, name: str, stream: bool) -> None:
    if stream:
        *_, last = client.responses.create(model=MODEL, input="one", store=False, stream=True)
        assert last.type == "response.completed"
        told = last.response
    else:
        told = ask(client, name, "one", store=False)
    assert not stored(told)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(told.id)


def test_a_failed_answer_is_not_kept(gateway: GatewayProcess, name: str) -> None:
    asked = {"model": MODEL, "input": "one", "stream": True, "rogue": {"id": name, "do": "cut"}}
    with Call(f"{gateway.url}/v1/responses", asked) as call:
        first, *_ = call.events()
    response_id = json.loads(first.split("\n")[1].removeprefix("data: "))["response"]["id"]
    with gateway.get(f"/v1/responses/{response_id}") as kept:
        assert (kept.status, kept.error()["code"]) == (404, "response_not_found")


def test_a_store_that_is_turned_off_answers_all_the_same_and_names_the_setting(open_gateway: Opener, name: str) -> None:
    gateway = open_gateway(sections={"responses": {"store": False}}).ready()
    with sdk(gateway) as client:
        told = ask(client, name, "one", store=True)
        assert (told.output_text, stored(told)) == ("word0 word1 word2 ", False)
        with pytest.raises(openai.NotFoundError, match=r"\[responses\] store = true"):
            client.responses.retrieve(told.id)
        with pytest.raises(openai.BadRequestError, match=r"\[responses\] store = true"):
            ask(client, f"{name}-2", "two", previous_response_id=told.id)
    assert not list(gateway.state_dir.glob("responses*"))


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_conversation_goes_on_after_the_gateway_ended(
    open_gateway: Opener, rogue: RogueProcess, tmp_path: Path, name: str, end: str
) -> None:
    gateway = open_gateway(state_dir=tmp_path / "state").ready()
    with sdk(gateway) as client:
        told = ask(client, f"{name}-1", "one", rogue={"text": "uno"})
    if end == "kill":
        gateway.process.kill()
    else:
        gateway.terminate()
    gateway.wait_for_end()
    with sdk(open_gateway(state_dir=tmp_path / "state").ready()) as client:
        assert client.responses.retrieve(told.id) == told
        ask(client, f"{name}-2", "two", previous_response_id=told.id)
    assert heard(rogue, f"{name}-2") == [("user", "one"), ("assistant", "uno"), ("user", "two")]


def test_no_more_is_kept_than_the_settings_say_and_the_least_recent_goes_first(open_gateway: Opener, name: str) -> None:
    gateway = open_gateway(sections={"responses": {"keep": 2}}).ready()
    with sdk(gateway) as client:
        first, second = (ask(client, f"{name}-{number}", "hi") for number in range(2))
        third = ask(client, f"{name}-3", "on", previous_response_id=first.id)
        assert client.responses.retrieve(first.id).id == first.id
        assert client.responses.retrieve(third.id).id == third.id
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(second.id)
        fourth = ask(client, f"{name}-4", "further on", previous_response_id=third.id)
        assert client.responses.retrieve(fourth.id).id == fourth.id
        with pytest.raises(openai.BadRequestError, match="not kept any more") as caught:
            ask(client, f"{name}-5", "and on", previous_response_id=fourth.id)
    assert caught.value.code == "previous_response_not_found"


def test_what_is_larger_than_all_together_may_be_is_told_as_not_kept(open_gateway: Opener, name: str) -> None:
    gateway = open_gateway(sections={"responses": {"keep_bytes": 4096}}).ready()
    with sdk(gateway) as client:
        assert not stored(ask(client, name, "x" * 5000))
        assert stored(ask(client, f"{name}-2", "x"))


def test_a_store_whose_file_is_broken_stops_no_call_and_is_well_once_it_is_mended(
    open_gateway: Opener, tmp_path: Path, name: str
) -> None:
    broken = tmp_path / "state" / "responses.sqlite"
    broken.mkdir(parents=True)
    gateway = open_gateway(state_dir=tmp_path / "state").ready()
    with sdk(gateway) as client:
        told = ask(client, name, "one")
        assert (told.output_text, stored(told)) == ("word0 word1 word2 ", False)
        *_, last = client.responses.create(model=MODEL, input="one", stream=True)
        assert last.type == "response.completed"
        assert not stored(last.response)
        with pytest.raises(openai.InternalServerError) as caught:
            client.responses.retrieve(told.id)
        assert (caught.value.status_code, caught.value.code) == (503, "response_store_broken")
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client, f"{name}-2", "two", previous_response_id=told.id)
        assert (caught.value.status_code, caught.value.code) == (503, "response_store_broken")
        assert str(broken) in gateway.stderr
        broken.rmdir()
        assert stored(client.responses.retrieve(ask(client, f"{name}-3", "one").id))


def test_a_full_disk_stops_no_call_and_loses_nothing_that_was_kept(open_gateway: Opener, name: str) -> None:
    """The disk is full as far as the gateway's process can tell: no file of its may grow beyond a size."""
    gateway = open_gateway().ready()
    with sdk(gateway) as client:
        kept = ask(client, f"{name}-1", "one")
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        told = ask(client, f"{name}-2", "x" * 300_000, previous_response_id=kept.id)
        assert (told.output_text, stored(told)) == ("word0 word1 word2 ", False)
        assert client.responses.retrieve(kept.id) == kept
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        late = ask(client, f"{name}-3", "x" * 300_000, previous_response_id=kept.id)
        assert stored(client.responses.retrieve(late.id))
    assert "cannot be used" in gateway.stderr
