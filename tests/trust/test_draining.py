"""SIGTERM finishes what runs, refuses what comes, leaves nothing; and one state folder has one gateway."""

import json
import os
import signal

import psutil
import pytest

from gateway_process import Opener
from rogue_process import RogueProcess
from wire_client import broken, poll


def test_a_running_answer_is_finished_and_new_work_refused(
    open_gateway: Opener, rogue: RogueProcess, name: str
) -> None:
    gateway = open_gateway().ready()
    with gateway.chat({"stream": True, "rogue": {"id": name, "hold": True}}) as running:
        rogue.wait(name, "held")
        rogue.release(name, 2)
        running.read_until(b"word0")
        gateway.terminate()
        gateway.wait_for("draining")
        with gateway.chat() as refused:
            assert (refused.status, refused.error()["code"]) == (503, "draining")
            assert int(refused.header("retry-after") or 0) >= 1
        assert gateway.metric("lumbre_requests_total", outcome="draining", status="503") == 1
        with gateway.get("/readyz") as call:
            assert (call.status, call.json()["ready"]) == (503, False)
        with gateway.get("/healthz") as call:
            assert call.status == 200
        rogue.release(name, 9)
        assert running.read().endswith(b"data: [DONE]\n\n")
    assert gateway.wait_for_end(10) == 0
    gateway.wait_for("stopped")


def test_a_plain_call_and_one_that_waits_are_answered_too(open_gateway: Opener, rogue: RogueProcess, name: str) -> None:
    gateway = open_gateway(slots=1).ready()
    with gateway.chat({"rogue": {"id": name, "hold": True}}) as running:
        rogue.wait(name, "held")
        with gateway.chat() as waiting:
            poll(lambda: gateway.busy() == (1, 1))
            gateway.terminate()
            gateway.wait_for("draining")
            rogue.release(name, 9)
            assert running.status == 200
            running.read()
            assert waiting.status in {200, 503}
            if waiting.status == 503:
                assert waiting.error()["code"] == "draining"
            else:
                waiting.read()
    assert gateway.wait_for_end(10) == 0


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_past_the_drain_limit_what_still_runs_is_told_so(
    open_gateway: Opener, rogue: RogueProcess, name: str, stream: bool
) -> None:
    gateway = open_gateway(deadlines={"drain_s": 0.5}).ready()
    with gateway.chat({"stream": stream, "rogue": {"id": name, "do": "stall"}}) as running:
        rogue.wait(name, "sent")
        gateway.terminate()
        status, error = broken(running)
    assert (status, error["code"]) == (200 if stream else 503, "draining")
    assert gateway.wait_for_end(5) == 0
    rogue.wait(name, "gone")


def test_a_client_that_does_not_read_cannot_hold_the_gateway(
    open_gateway: Opener, rogue: RogueProcess, name: str
) -> None:
    gateway = open_gateway(deadlines={"drain_s": 0.5}).ready()
    wish = {"id": name, "do": "drip", "chunks": 1, "text": "x" * 100_000, "pause_s": 0.0001}
    with gateway.chat({"stream": True, "rogue": wish}) as call:
        assert call.status == 200
        assert not rogue.reaches(name, 100_000_000, timeout_s=1)
        gateway.terminate()
        assert gateway.wait_for_end(5) == 0


def test_an_idle_gateway_stops_at_once_and_leaves_no_process(open_gateway: Opener) -> None:
    gateway = open_gateway().ready()
    children = psutil.Process(gateway.process.pid).children(recursive=True)
    gateway.terminate()
    assert gateway.wait_for_end(5) == 0
    assert [child for child in children if child.is_running()] == []
    assert [event["event"] for event in gateway.events][-2:] == ["draining", "stopped"]


def test_a_connection_kept_alive_does_not_hold_the_gateway(open_gateway: Opener) -> None:
    gateway = open_gateway().ready()
    with gateway.get("/healthz") as call:
        call.read()
        gateway.terminate()
        assert gateway.wait_for_end(5) == 0


def test_the_second_gateway_on_a_state_folder_says_so_and_stops(open_gateway: Opener) -> None:
    first = open_gateway().ready()
    second = open_gateway(state_dir=first.state_dir)
    assert second.wait_for_end(10) == 1
    said = json.dumps(second.events) + second.stderr
    assert str(first.process.pid) in said
    assert "Traceback" not in said
    with first.chat() as call:
        assert call.status == 200
        call.read()


def test_a_killed_gateway_leaves_its_state_folder_usable(open_gateway: Opener) -> None:
    first = open_gateway().ready()
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait(5)
    with open_gateway(state_dir=first.state_dir).ready().chat() as call:
        assert call.status == 200
        call.read()
