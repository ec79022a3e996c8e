"""Pages that a test lays down stand in the place of the rogue's own answers, and tell who asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rogue_process import RogueProcess
from wire_client import Call


@pytest.fixture
def rogue(tmp_path: Path) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path) as process:
        yield process


def test_a_page_is_answered_until_it_is_taken_away(rogue: RogueProcess) -> None:
    rogue.lay("/v1/models", {"data": []})
    with Call(f"{rogue.url}/v1/models") as call:
        assert (call.status, call.json()) == (200, {"data": []})
    rogue.lay("/v1/models", None, status=0)
    with Call(f"{rogue.url}/v1/models") as call:
        assert call.json()["data"][0]["id"] == "rogue"


def test_a_page_has_its_status_and_tells_who_asked(rogue: RogueProcess) -> None:
    rogue.lay("/tokenize", {"error": "busy"}, status=503)
    with Call(f"{rogue.url}/tokenize", {"content": "hi"}) as call:
        assert (call.status, call.json()) == (503, {"error": "busy"})
    log = rogue.log()
    assert log["pages"] == [{"method": "POST", "path": "/tokenize", "body": '{"content": "hi"}'}]
    assert log["seen"] == 0
    rogue.forget()
    assert rogue.log()["pages"] == []
