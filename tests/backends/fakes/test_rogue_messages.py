"""What the rogue says to a gateway that speaks Anthropic's API, and where it finds its wish."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lumbre.wire.anthropic.fold import MessageFold
from rogue_process import RogueProcess
from wire_client import Call


@pytest.fixture(scope="module")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path_factory.mktemp("rogue")) as process:
        yield process


def ask(process: RogueProcess, path: str = "/v1/messages", **body: Any) -> Call:
    return Call(process.url + path, {"model": "rogue", "messages": [], **body}, deadline_s=10)


@pytest.mark.parametrize("wish", [{}, {"chunks": 5}, {"tool_arguments": '{"city": "Cádiz"}', "chunks": 4}], ids=str)
@pytest.mark.parametrize("vendor", [False, True])
def test_a_stream_and_a_plain_message_say_the_same(rogue: RogueProcess, wish: dict[str, Any], vendor: bool) -> None:
    fold = MessageFold()
    with ask(rogue, stream=True, rogue={**wish, "vendor": vendor}) as call:
        for event in call.events():
            fold.add(json.loads(event.split("data: ")[1]))
    with ask(rogue, rogue={**wish, "vendor": vendor}) as call:
        assert json.loads(fold.body()) == call.json()


def test_errors_have_this_apis_shape(rogue: RogueProcess) -> None:
    with ask(rogue, rogue={"do": "refuse", "status": 404}) as call:
        assert call.status == 404
        assert call.json()["error"]["type"] == "not_found_error"
    with ask(rogue, stream=True, rogue={"do": "error_event"}) as call:
        *_, last = call.events()
    assert last.startswith("event: error\n")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_it_recites_to_the_letter(rogue: RogueProcess, path: str) -> None:
    text = "event: x\ndata: 1\n\n: ñ\n\n"
    for stream in (False, True):
        with ask(rogue, path, stream=stream, rogue={"do": "recite", "text": text}) as call:
            assert call.read() == text.encode()


@pytest.mark.parametrize("where", ["user", "metadata"])
def test_a_wish_can_be_whispered_where_a_translation_keeps_it(rogue: RogueProcess, where: str) -> None:
    user = json.dumps({"rogue": {"do": "recite", "text": "heard"}})
    fields: dict[str, Any] = {where: user if where == "user" else {"user_id": user}}
    with ask(rogue, **fields) as call:
        assert call.read() == b"heard"


@pytest.mark.parametrize("user", ["ana", "{", "[1]", '{"x": 1}'])
def test_a_users_name_is_no_wish(rogue: RogueProcess, user: str) -> None:
    with ask(rogue, user=user) as call:
        assert call.json()["content"][0]["text"] == "word0 word1 word2 "


def test_each_turn_of_a_conversation_may_have_a_wish_of_its_own(rogue: RogueProcess) -> None:
    wishes = [{"do": "recite", "text": f"turn {turn}"} for turn in range(2)]
    said = []
    for turns in range(3):
        with ask(rogue, rogue=wishes, messages=[{"role": "user"}, {"role": "assistant"}] * turns) as call:
            said.append(call.read())
    assert said == [b"turn 0", b"turn 1", b"turn 1"]
