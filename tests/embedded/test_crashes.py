"""An engine that dies, and a gateway that dies: what the client sees, and what is left."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded_gateway import EmbeddedGateway
from engine_use import engine_of
from wire_client import Call, final_error, poll

ENDLESS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "tell me a story"}],
    "max_tokens": 900,
    "ignore_eos": True,
}
SHORT: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[EmbeddedGateway]:
    """A gateway that this test may harm."""
    with EmbeddedGateway(tmp_path, "smollm2-135m-instruct") as gateway:
        yield gateway


def chat(gateway: EmbeddedGateway, body: dict[str, Any]) -> Call:
    return Call(f"{gateway.url}/v1/chat/completions", body, deadline_s=60)


def test_an_engine_that_dies_costs_that_answer_and_no_other(embedded: EmbeddedGateway) -> None:
    """In a stream, then in a plain call; each time the very next request is served."""
    with chat(embedded, {**ENDLESS, "stream": True}) as call:
        call.read_until(b'"content":"')
        engine_of(embedded).kill()
        error = final_error(["data: {}", *call.events()])
    assert error["code"] == "upstream_cut"
    with chat(embedded, SHORT) as call:
        assert call.status == 200, call.read()

    with chat(embedded, ENDLESS) as call:
        engine = engine_of(embedded)
        poll(lambda: sum(engine.cpu_times()[:2]) > 0 and _busy(embedded), what="the answer did not begin")
        engine.kill()
        assert call.status == 502
        assert call.error()["code"] == "upstream_cut"
    with chat(embedded, SHORT) as call:
        assert call.status == 200, call.read()


def _busy(gateway: EmbeddedGateway) -> bool:
    with Call(f"{gateway.url}/readyz") as call:
        return bool(call.json()["tiers"]["A"]["upstreams"][0]["in_flight"])


def test_a_gateway_that_is_killed_leaves_no_engine(own_gateway: EmbeddedGateway) -> None:
    engine = engine_of(own_gateway)
    own_gateway.process.kill()
    own_gateway.process.wait(10)
    poll(lambda: not engine.is_running(), deadline_s=5, what="the engine outlived the gateway")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_that_is_asked_to_stop_finishes_the_answer_and_leaves_nothing(
    own_gateway: EmbeddedGateway, sent: signal.Signals
) -> None:
    engine = engine_of(own_gateway)
    with chat(own_gateway, {**SHORT, "max_tokens": 40, "ignore_eos": True, "stream": True}) as call:
        call.read_until(b'"content":"')
        own_gateway.process.send_signal(sent)
        own_gateway.wait_for("draining")
        with chat(own_gateway, SHORT) as late:
            assert late.status == 503
            assert late.error()["code"] == "draining"
        rest = list(call.events())
    assert rest[-1] == "data: [DONE]"
    assert own_gateway.wait_for_end() == (0 if sent is signal.SIGTERM else 130)
    assert not engine.is_running()
    assert not (own_gateway.state_dir / "gateway.json").exists()


def test_the_engine_takes_no_caller_but_the_gateway(embedded: EmbeddedGateway) -> None:
    """No key, no answer; no page of the web gets through to it, and there is none to see."""
    (listener,) = {
        each.laddr for each in engine_of(embedded).net_connections("tcp") if each.status == psutil.CONN_LISTEN
    }
    assert listener.ip == "127.0.0.1"
    base = f"http://127.0.0.1:{listener.port}"
    with Call(f"{base}/v1/chat/completions", SHORT, {"Origin": "http://evil.example"}) as call:
        assert call.status == 401
        assert call.header("access-control-allow-origin") in (None, "")
    with Call(f"{base}/") as call:
        assert call.status in (401, 404)
    with Call(f"{base}/v1/models", None, {"Origin": "http://evil.example"}, method="OPTIONS") as call:
        assert call.header("access-control-allow-origin") in (None, "")
