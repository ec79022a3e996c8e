"""The truth about endings: what was cut is told as cut, and no finish is ever forged."""

import json
from typing import Any

import psutil
import pytest

from gateway_process import GatewayProcess, Opener
from messages_client import wish as messages_wish
from rogue_process import RogueProcess
from wire_client import broken

UNFINISHED: dict[str, dict[str, Any]] = {
    "cut with FIN": {"do": "cut"},
    "cut with FIN later": {"do": "cut", "pause_s": 0.05},
    "cut with RST": {"do": "cut", "reset": True, "pause_s": 0.05},
    "ended in good order, unfinished": {"do": "end_unfinished"},
    "ended in the middle of an event": {"do": "cut_in_event"},
    "ended without an event": {"do": "empty_stream"},
    "broken framing": {"do": "bad_framing", "pause_s": 0.05},
}

CODES = {"upstream_cut", "engine_failed"}

NO_ANSWER: dict[str, tuple[dict[str, Any], set[str]]] = {
    "half a body, length of the whole": ({"do": "truncated"}, {"upstream_cut"}),
    "half a body, length of the half": ({"do": "truncated", "honest": True}, CODES),
    "half a chunked body, FIN": ({"do": "cut"}, {"upstream_cut"}),
    "half a chunked body, RST": ({"do": "cut", "reset": True}, {"upstream_cut"}),
    "closed before the head": ({"do": "cut_before_head"}, CODES),
    "closed in the head": ({"do": "cut_in_head"}, CODES),
    "no HTTP": ({"do": "garbage"}, {"engine_failed"}),
    "no JSON": ({"do": "not_json"}, CODES),
    "a page of HTML": ({"do": "html", "status": 200}, CODES),
    "an empty 200": ({"do": "empty"}, CODES),
    "a redirect": ({"do": "redirect"}, {"engine_failed"}),
    "a body compressed unasked": ({"do": "zipped"}, CODES),
    "a stream for a plain call": ({"do": "stream_for_json"}, {"engine_failed", "engine_ignored_request"}),
}


@pytest.fixture(scope="module")
def modest(open_for_module: Opener) -> GatewayProcess:
    """A gateway that takes no plain reply over a mebibyte, and looks after a silent stream every second."""
    sections = {"limits": {"reply_bytes": 1_048_576}, "gateway": {"keepalive_s": 1}}
    return open_for_module(sections=sections).ready()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("case", UNFINISHED)
def test_a_stream_that_did_not_finish_ends_with_an_error(
    modest: GatewayProcess, name: str, case: str, path: str
) -> None:
    asked = {
        "model": "rogue",
        "prompt": "hi",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }
    with modest.get(path, body={**asked, "rogue": {"id": name, **UNFINISHED[case]}}) as call:
        if call.content_type != "text/event-stream":
            assert UNFINISHED[case]["do"] in {"empty_stream", "bad_framing"}
            assert call.status == 502
            assert call.error()["code"] in CODES
            return
        events = list(call.events())
    *told, last = [event.removeprefix("data:") for event in events if event.startswith("data:")]
    assert json.loads(last)["error"]["code"] in CODES
    chunks = [json.loads(event) for event in told]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * len(chunks)
    if UNFINISHED[case]["do"] != "empty_stream":
        assert "word2" in told[-1], "what was delivered before the cut must reach the client"


def test_a_finished_stream_without_done_gets_no_forged_done(
    gateway: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with gateway.chat({"stream": True, "rogue": {"id": name, "do": "no_done"}}) as call:
        assert call.read() == rogue.sent(name)


def test_a_finished_stream_that_is_cut_gets_no_forged_done(
    gateway: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with gateway.chat({"stream": True, "rogue": {"id": name, "do": "cut", "finished": True}}) as call:
        body = call.read()
    assert body.startswith(rogue.sent(name))
    assert b"[DONE]" not in body


def test_a_done_without_a_finish_gets_no_forged_finish(gateway: GatewayProcess, name: str) -> None:
    with gateway.chat({"stream": True, "rogue": {"id": name, "do": "done_unfinished"}}) as call:
        body = call.read()
    assert b'"finish_reason": "' not in body
    assert b'"finish_reason":"' not in body


def test_an_engine_that_breaks_in_mid_stream_is_quoted_and_the_stream_ends(
    gateway: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with gateway.chat({"stream": True, "rogue": {"id": name, "do": "error_event"}}) as call:
        body = call.read()
    assert body.startswith(rogue.sent(name))
    assert b"the rogue broke" in body
    assert b"[DONE]" not in body


@pytest.mark.parametrize("case", NO_ANSWER)
def test_a_plain_reply_that_is_no_answer_is_a_502(gateway: GatewayProcess, name: str, case: str) -> None:
    wish, codes = NO_ANSWER[case]
    with gateway.chat({"rogue": {"id": name, **wish}}) as call:
        assert call.status == 502
        assert call.error()["code"] in codes


@pytest.mark.parametrize("act", ["cut_before_head", "garbage", "html", "empty", "redirect", "json_for_stream"])
def test_a_stream_that_never_began_is_a_502(gateway: GatewayProcess, name: str, act: str) -> None:
    with gateway.chat({"stream": True, "rogue": {"id": name, "do": act, "status": 200}}) as call:
        status, error = broken(call)
    assert status == 502
    assert error["code"] in {"engine_failed", "upstream_cut", "engine_ignored_request"}


def test_nobody_follows_a_redirect_of_an_engine(gateway: GatewayProcess, rogue: RogueProcess, name: str) -> None:
    with gateway.chat({"rogue": {"id": name, "do": "redirect"}}) as call:
        call.read()
        assert call.header("location") is None
    assert [one["path"] for one in rogue.log()["requests"]] == ["/v1/chat/completions"]


def test_after_every_failure_the_next_request_is_served(gateway: GatewayProcess) -> None:
    for wish, _ in NO_ANSWER.values():
        with gateway.chat({"rogue": wish}) as call:
            assert call.status == 502
            call.read()
        with gateway.chat() as call:
            assert call.status == 200
            call.read()


def test_a_connection_that_brought_no_answer_is_not_used_again(gateway: GatewayProcess) -> None:
    # The engine says nothing of closing, but does it while the next request is on its way.
    with gateway.chat({"rogue": {"do": "truncated", "honest": True, "pause_s": 0.3}}) as call:
        assert call.status == 502
        call.read()
    with gateway.chat() as call:
        assert call.status == 200
        call.read()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/embeddings"])
def test_a_connection_that_brought_a_refusal_is_used_again(
    gateway: GatewayProcess, rogue: RogueProcess, path: str
) -> None:
    rogue.forget()
    asked = {"model": "rogue", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "input": "hi"}
    wish = {"do": "refuse", "status": 429}
    for _ in range(3):
        with gateway.get(path, body={**asked, "rogue": wish, **messages_wish(wish)}) as call:
            assert call.status == 429
            call.read()
    assert len({one["connection"] for one in rogue.log()["requests"]}) == 1


def test_a_plain_reply_over_the_limit_is_a_502_and_is_not_read_on(
    modest: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with modest.chat({"rogue": {"id": name, "do": "huge"}}) as call:
        assert (call.status, call.error()["code"]) == (502, "engine_failed")
    assert rogue.wait(name, "gone")["sent_bytes"] < 20_000_000


def test_an_endless_line_in_a_stream_does_not_fill_the_memory(
    modest: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    process = psutil.Process(modest.process.pid)
    before = process.memory_info().rss
    with modest.chat({"stream": True, "rogue": {"id": name, "do": "huge"}}) as call:
        most = before
        while call.response.read1(4_000_000):
            most = max(most, process.memory_info().rss)
    assert most - before < 64_000_000
