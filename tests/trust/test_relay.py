"""Bytes are relayed as they arrive, not re-made: what the client got is what the rogue sent."""

import json
from typing import Any

import pytest

from gateway_process import GatewayProcess
from rogue_process import RogueProcess

STREAM = {"stream": True}

SPELLINGS: list[dict[str, Any]] = [
    {},
    {"newline": "\r\n"},
    {"newline": "\r"},
    {"comments": True},
    {"vendor": True},
    {"vendor": True, "comments": True, "newline": "\r\n"},
    {"text": "añ🔥 語\u2028 \u0000", "chunks": 4},
    {"tool_arguments": '{"city": "Málaga", "note": "\\"🔥\\""}', "chunks": 9},
]


@pytest.mark.parametrize("split", ["events", "joined", "bytes", "wire"])
@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_a_stream_comes_out_as_it_went_in(
    gateway: GatewayProcess, rogue: RogueProcess, name: str, spelling: dict[str, Any], split: str
) -> None:
    asked = {**STREAM, "rogue": {"id": name, "split": split, **spelling}}
    with gateway.chat(asked) as call:
        assert call.content_type == "text/event-stream"
        assert call.read() == rogue.sent(name)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_event_may_be_split_at_every_byte(
    gateway: GatewayProcess, rogue: RogueProcess, name: str, newline: str
) -> None:
    wish = {"split": "cut", "pause_s": 0.001, "text": "ñ🔥", "chunks": 1, "newline": newline}
    length = 1
    for at in range(1_000):
        if at >= length:
            break
        with gateway.chat({**STREAM, "rogue": {**wish, "at": at, "id": f"{name}-{at}"}}) as call:
            body = call.read()
        assert body == rogue.sent(f"{name}-{at}"), f"split at byte {at}"
        length = len(body)
    assert length > 400


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("wish", [{}, {"vendor": True}, {"text": "añ🔥語"}], ids=str)
def test_a_plain_reply_is_not_re_made(
    gateway: GatewayProcess, rogue: RogueProcess, name: str, path: str, wish: dict[str, Any]
) -> None:
    asked = json.dumps({"model": "rogue", "prompt": "hi", "messages": [{"role": "user", "content": "hi"}]})
    asked = asked.replace("{", '{"rogue": ' + json.dumps({"id": name, **wish}) + ", ", 1)
    with gateway.get(path, body=asked) as call:
        assert (call.status, call.content_type) == (200, "application/json")
        assert call.read() == rogue.sent(name)


def test_each_event_reaches_the_client_before_the_next_is_sent(
    gateway: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    with gateway.chat({**STREAM, "rogue": {"id": name, "hold": True, "chunks": 3}}) as call:
        # Until there is a token another engine could still be asked, so the role comes with it.
        rogue.wait(name, "held", 1)
        rogue.release(name)
        for step, marks in enumerate(((b"assistant", b"word0"), (b"word1",), (b"word2",), (b"stop",), (b"[DONE]",)), 2):
            rogue.wait(name, "held", step)
            rogue.release(name)
            told = call.read_until(marks[-1])
            assert all(mark in told for mark in marks)
        assert call.read() == b""


def test_a_stream_and_the_same_call_without_stream_tell_the_same_story(
    gateway: GatewayProcess,
) -> None:
    asked = {"rogue": {"text": "Érase una vez 🔥", "chunks": 4}}
    with gateway.chat(asked) as plain, gateway.chat({**asked, **STREAM}) as stream:
        choice = plain.json()["choices"][0]
        events = [json.loads(event[5:]) for event in stream.events() if event != "data: [DONE]"]
    told = [event["choices"][0] for event in events if event["choices"]]
    assert "".join(one["delta"].get("content", "") for one in told) == choice["message"]["content"]
    assert [one["finish_reason"] for one in told if one["finish_reason"]] == [choice["finish_reason"]]


def test_fields_the_gateway_does_not_know_reach_the_engine(
    gateway: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    more = {"mirostat": 2, "x_vendor": {"deep": [1, None, "ñ"]}, "seed": 7, "n": 1}
    with gateway.chat({**more, "rogue": {"id": name}}) as call:
        assert call.status == 200
        call.read()
    arrived = json.loads(rogue.find(name)["body"])
    assert {key: arrived[key] for key in more} == more


def test_usage_is_in_a_stream_when_asked_for_and_only_then(
    gateway: GatewayProcess, rogue: RogueProcess, name: str
) -> None:
    for number, options in enumerate(({}, {"stream_options": {"include_usage": True}})):
        asked = {**STREAM, **options, "rogue": {"id": f"{name}-{number}"}}
        with gateway.chat(asked) as call:
            body = call.read()
        assert (b'"usage": {"prompt_tokens": 7' in body) == bool(options)
