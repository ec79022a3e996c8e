"""The rogue misbehaves as it says, and tells the truth about it: real processes over loopback."""

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rogue_process import RogueProcess
from wire_client import Call

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path_factory.mktemp("rogue")) as process:
        yield process


def ask(rogue: RogueProcess, path: str = CHAT, *, stream: bool = False, model: str = "rogue", **wish: Any) -> Call:
    body = {"model": model, "messages": [], "stream": stream, "rogue": wish}
    return Call(rogue.url + path, body, deadline_s=10)


def deltas(events: list[str]) -> str:
    chunks = [json.loads(event.removeprefix("data:")) for event in events if "[DONE]" not in event]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])


def test_a_stream_and_a_plain_reply_say_the_same(rogue: RogueProcess) -> None:
    with ask(rogue, chunks=4) as plain, ask(rogue, chunks=4, stream=True) as stream:
        said = plain.json()["choices"][0]["message"]["content"]
        events = list(stream.events())
    assert said == "word0 word1 word2 word3 "
    assert deltas(events) == said
    assert events[-1] == "data: [DONE]"


def test_the_same_wish_gives_the_same_bytes_whatever_the_split(rogue: RogueProcess) -> None:
    bodies = set()
    for split in ("events", "joined", "bytes", "wire", "cut"):
        with ask(rogue, stream=True, split=split, at=70, text="añ🔥語", id=f"same-{split}") as call:
            bodies.add(call.read())
        assert rogue.sent(f"same-{split}") in bodies
    assert len(bodies) == 1


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_vendor_spellings_are_still_the_same_story(rogue: RogueProcess, newline: str) -> None:
    with ask(rogue, stream=True, vendor=True, comments=True, newline=newline) as call:
        body = call.read().decode()
    blocks = body.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n\n")
    data = ["".join(line[5:] for line in block.split("\n") if line.startswith("data:")) for block in blocks]
    assert deltas([f"data:{one}" for one in data]) == "word0 word1 word2 "
    assert ": the rogue hums" in body
    with ask(rogue, vendor=True) as plain:
        whole = plain.read()
    assert json.loads(whole)["choices"][0]["rogue_score"] == 150
    assert json.dumps(json.loads(whole)).encode() != whole


def test_tool_arguments_come_in_fragments(rogue: RogueProcess) -> None:
    arguments = '{"city": "Málaga"}'
    with ask(rogue, stream=True, tool_arguments=arguments, chunks=5) as call:
        chunks = [json.loads(event[5:]) for event in call.events() if "[DONE]" not in event]
    calls = [one for chunk in chunks for one in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert "".join(one["function"]["arguments"] for one in calls) == arguments
    assert len(calls) == 6
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_held_exchange_waits_for_each_release(rogue: RogueProcess) -> None:
    with ask(rogue, stream=True, hold=True, id="held") as call:
        rogue.wait("held", "held", 1)
        assert rogue.find("held")["sent_bytes"] == 0
        rogue.release("held")
        assert b"assistant" in call.read_until(b"\n\n")
        rogue.wait("held", "held", 2)
        rogue.release("held", steps=10)
        assert call.read().endswith(b"data: [DONE]\n\n")
    assert rogue.wait("held", "ended")["gone_s"] is None


@pytest.mark.parametrize("act", ["no_header", "silent", "stall", "drip"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_noticed_at_once(rogue: RogueProcess, act: str, stream: bool) -> None:
    name = f"leaves-{act}-{stream}"
    with ask(rogue, stream=stream, do=act, id=name):
        rogue.wait(name, "started")
    left_s = time.monotonic()
    record = rogue.wait(name, "gone")
    assert record["gone_s"] - left_s < 0.5
    assert rogue.wait(name, "ended")["ended_s"] is not None
    rogue.wait_running(0)


@pytest.mark.parametrize(
    "wish",
    [
        {"do": "cut"},
        {"do": "cut", "finished": True},
        {"do": "truncated"},
        {"do": "bad_framing"},
    ],
)
def test_a_cut_is_no_proper_end(rogue: RogueProcess, wish: dict[str, Any]) -> None:
    with (
        ask(rogue, stream=wish["do"] != "truncated", **wish) as call,
        pytest.raises(http.client.IncompleteRead),
    ):
        call.read()


def test_a_reset_is_a_reset(rogue: RogueProcess) -> None:
    with ask(rogue, stream=True, do="cut", reset=True, hold=True, id="reset") as call:
        rogue.release("reset", 3)
        call.read_until(b"word1")
        rogue.wait("reset", "held", 4)
        rogue.release("reset")
        with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
            call.read()


@pytest.mark.parametrize("act", ["cut_before_head", "garbage"])
def test_some_replies_are_no_http(rogue: RogueProcess, act: str) -> None:
    with ask(rogue, do=act) as call, pytest.raises((http.client.HTTPException, ConnectionError)):
        call.response.read()


def test_a_head_can_be_cut_in_the_middle_of_a_line(rogue: RogueProcess) -> None:
    with ask(rogue, do="cut_in_head") as call:
        assert call.header("content-type") is None
        assert call.read() == b""


@pytest.mark.parametrize(
    ("act", "holds", "lacks"),
    [
        ("end_unfinished", b"word2", b'"stop"'),
        ("done_unfinished", b"[DONE]", b'"stop"'),
        ("no_done", b'"stop"', b"[DONE]"),
        ("error_event", b"the rogue broke", b"[DONE]"),
        ("cut_in_event", b"word2", b"[DONE]"),
    ],
)
def test_some_streams_end_in_good_order_without_an_end(
    rogue: RogueProcess, act: str, holds: bytes, lacks: bytes
) -> None:
    with ask(rogue, stream=True, do=act) as call:
        body = call.read()
    assert holds in body
    assert lacks not in body


@pytest.mark.parametrize(
    ("wish", "status", "content_type"),
    [
        ({"do": "not_json"}, 200, "application/json"),
        ({"do": "wrong_json"}, 200, "application/json"),
        ({"do": "html", "status": 502}, 502, "text/html"),
        ({"do": "empty"}, 200, "application/json"),
        ({"do": "redirect"}, 302, "application/json"),
        ({"do": "refuse", "status": 429}, 429, "application/json"),
        ({"do": "stream_for_json"}, 200, "text/event-stream"),
        ({"do": "zipped"}, 200, "application/json"),
    ],
)
def test_each_reply_has_the_status_and_type_it_promises(
    rogue: RogueProcess, wish: dict[str, Any], status: int, content_type: str
) -> None:
    with ask(rogue, **wish) as call:
        assert (call.status, call.content_type) == (status, content_type)
        call.read()


def test_a_refusal_has_rate_limit_headers(rogue: RogueProcess) -> None:
    with ask(rogue, do="refuse", status=429, retry_after="7") as call:
        assert call.header("retry-after") == "7"
        assert call.header("x-ratelimit-remaining-requests") == "0"


def test_the_model_name_alone_can_choose_the_act(rogue: RogueProcess) -> None:
    with ask(rogue, model="rogue-not_json") as call:
        assert call.read().startswith(b"I am a teapot")
    with Call(rogue.url + "/v1/models") as models:
        assert "rogue-not_json" in [model["id"] for model in models.json()["data"]]


def test_a_huge_reply_has_the_size_it_says(rogue: RogueProcess) -> None:
    with ask(rogue, do="huge", size_bytes=3_000_000) as call:
        assert len(call.read()) == 3_000_000


def test_a_misspelt_wish_is_refused_by_name(rogue: RogueProcess) -> None:
    with ask(rogue, chunk=3) as call:
        assert call.status == 400
        assert "rogue.chunk" in call.error()["message"]


def test_the_log_has_the_headers_and_the_body_as_they_came(rogue: RogueProcess) -> None:
    rogue.forget()
    body = json.dumps({"model": "rogue", "rogue": {"id": "logged"}, "note": "ñ"}, ensure_ascii=False)
    with Call(rogue.url + "/v1/completions", body.encode(), {"X-Odd": "Yes"}) as call:
        assert call.json()["object"] == "text_completion"
    record = rogue.find("logged")
    assert record["body"] == body
    assert ["X-Odd", "Yes"] in record["headers"]
    assert rogue.log()["most"] == 1


def test_on_a_leash_it_ends_with_its_standard_input(tmp_path: Path) -> None:
    with RogueProcess(tmp_path) as process:
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.wait_for_end(5) == 0
