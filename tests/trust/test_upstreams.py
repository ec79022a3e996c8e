"""Upstreams are probed, work goes round those that fail, and comes back to those that are well again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_process import Opener
from rogue_process import RogueProcess
from wire_client import poll


@pytest.fixture
def second(tmp_path: Path) -> Iterator[RogueProcess]:
    with RogueProcess(tmp_path) as process:
        yield process


def test_an_engine_that_is_not_there_is_an_engine_failure(open_gateway: Opener, tmp_path: Path) -> None:
    with RogueProcess(tmp_path) as lost:
        gateway = open_gateway(upstreams={"lost": lost.url}, breaker={"probe_s": 60}).ready()
    with gateway.chat() as call:
        assert (call.status, call.error()["code"]) == (502, "engine_failed")
    with gateway.chat({"stream": True}) as call:
        assert (call.status, call.error()["code"]) == (502, "engine_failed")
    assert gateway.stderr == ""


def test_an_engine_that_fails_its_probes_gets_no_work_until_it_is_back(open_gateway: Opener, tmp_path: Path) -> None:
    with RogueProcess(tmp_path) as own:
        gateway = open_gateway(upstreams={"own": own.url}, breaker={"probe_s": 0.2, "failures": 2}).ready()
        own.answer_models_with(500)
        poll(lambda: gateway.tier_a()["state"] == "down", what="tier A is not down")
        with gateway.get("/readyz") as call:
            assert call.status == 503
            assert call.json()["tiers"]["A"]["reasons"]
        with gateway.chat() as call:
            assert (call.status, call.error()["code"]) == (503, "no_tier")
        assert own.log()["seen"] == 0
        own.answer_models_with(200)
        poll(lambda: gateway.tier_a()["state"] == "ready", what="tier A did not come back")
        with gateway.chat() as call:
            assert call.status == 200
            call.read()


def test_two_upstreams_share_the_work(
    open_gateway: Opener, rogue: RogueProcess, second: RogueProcess, name: str
) -> None:
    gateway = open_gateway(upstreams={"one": rogue.url, "two": second.url}, slots=2).ready()
    poll(lambda: [one["state"] for one in gateway.tier_a()["upstreams"]] == ["ready", "ready"])
    calls = [gateway.chat({"rogue": {"id": f"{name}-{number}", "hold": True}}) for number in range(4)]
    poll(lambda: gateway.busy() == (4, 0))
    for upstream in (rogue, second):
        upstream.wait_seen(2)
        upstream.wait_running(2)
    for number, call in enumerate(calls):
        for upstream in (rogue, second):
            upstream.release(f"{name}-{number}", 9)
        assert call.status == 200
        call.read()
        call.leave()


def test_a_request_goes_round_an_upstream_that_is_not_there(
    open_gateway: Opener, rogue: RogueProcess, second: RogueProcess
) -> None:
    gateway = open_gateway(upstreams={"a": second.url, "b": rogue.url}, breaker={"probe_s": 60}).ready()
    poll(lambda: [one["state"] for one in gateway.tier_a()["upstreams"]] == ["ready", "ready"])
    second.kill()
    for _ in range(4):
        with gateway.chat() as call:
            assert call.status == 200
            assert call.header("x-lumbre-node") == "b"
            call.read()


def test_a_request_whose_answer_has_begun_is_never_sent_twice(
    open_gateway: Opener, rogue: RogueProcess, second: RogueProcess, name: str
) -> None:
    gateway = open_gateway(upstreams={"a": rogue.url, "b": second.url}).ready()
    poll(lambda: [one["state"] for one in gateway.tier_a()["upstreams"]] == ["ready", "ready"])
    with gateway.chat({"stream": True, "rogue": {"id": name, "do": "cut"}}) as call:
        assert b"word0" in call.response.read()
    assert rogue.log()["seen"] + second.log()["seen"] == 1


def test_a_request_that_an_engine_cuts_off_before_its_first_word_goes_to_another(
    open_gateway: Opener, rogue: RogueProcess, second: RogueProcess, name: str
) -> None:
    gateway = open_gateway(upstreams={"a": rogue.url, "b": second.url}).ready()
    poll(lambda: [one["state"] for one in gateway.tier_a()["upstreams"]] == ["ready", "ready"])
    with gateway.chat({"rogue": {"id": name, "do": "cut"}}) as call:
        assert (call.status, call.error()["code"]) == (502, "upstream_cut")
    assert (rogue.log()["seen"], second.log()["seen"]) == (1, 1)


def test_a_request_that_finds_one_upstream_gone_is_served_by_another(
    open_gateway: Opener, rogue: RogueProcess, tmp_path: Path
) -> None:
    """Nothing had been sent to the one that is gone, so no caller need know of it."""
    with RogueProcess(tmp_path) as lost:
        gateway = open_gateway(upstreams={"lost": lost.url, "well": rogue.url}, breaker={"probe_s": 60}).ready()
        poll(lambda: [one["state"] for one in gateway.tier_a()["upstreams"]] == ["ready", "ready"])
    for stream in (False, True, False, True):
        with gateway.chat({"stream": stream}) as call:
            assert call.status == 200
            assert call.header("x-lumbre-node") == "well"
            call.read()
    assert gateway.stderr == ""
