"""`lumbre switch`, `policy`, `explain`, `nodes`, `ledger` and `status` against a real gateway with three tiers."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_shell import FlowShell, flow_shell
from lumbre_process import Lumbre, gateway

from wire_client import poll

SWITCHES = ("A", "B", "C", "batch", "express", "global", "gpu-1", "gpu-2")
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowShell]:
    with flow_shell(tmp_path_factory.mktemp("flow")) as shell:
        everybody = 8  # the gateway, three tiers and their four upstreams
        poll(lambda: run(shell, "status").count("ready") >= everybody, 30, "the tiers were not ready")
        yield shell


@pytest.fixture
def flow(opened: FlowShell) -> Iterator[FlowShell]:
    yield opened
    opened.reset()


def run(flow: FlowShell, *words: str, status: int = 0, stdin: str = "") -> str:
    """What a command writes to stdout; it ends as it should, and without an error if that is well."""
    done = flow.lumbre.run(*words, stdin=stdin)
    assert done.returncode == status, done
    assert status != 0 or done.stderr == "", done
    return done.stdout


def complaint(flow: FlowShell, *words: str, status: int = 1) -> str:
    """What a command that fails writes to stderr; nothing else."""
    done = flow.lumbre.run(*words)
    assert (done.returncode, done.stdout) == (status, ""), done
    return done.stderr


def data(flow: FlowShell, *words: str, status: int = 0, stdin: str = "") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run(flow, *words, "--json", status=status, stdin=stdin))
    return told


def row(table: str, first: str) -> list[str]:
    """The cells of the line that begins with this one."""
    return next(cells for line in table.splitlines() if (cells := re.split(r"  +", line))[0] == first)


def test_the_switches_are_shown_and_none_by_the_bare_word(flow: FlowShell) -> None:
    table = run(flow, "switch")
    assert [line.split()[0] for line in table.splitlines()[1:]] == list(SWITCHES)
    assert row(table, "express")[:3] == ["express", "label", "open (flowing)"]
    assert row(table, "gpu-1")[1] == "node"
    assert not re.search(r"open(?! \(flowing\))|closed(?! \(stopped\))", table)


def test_a_closed_switch_stops_work_and_says_who_when_and_why(flow: FlowShell) -> None:
    assert flow.chat(label="express")[0] == 200
    assert run(flow, "switch", "close", "express", "--reason", "over budget") == (
        "the switch express is closed (stopped)\n"
    )
    assert flow.chat(label="express")[0] == 503
    name, kind, state, by, at, reason = row(run(flow, "switch"), "express")
    assert (name, kind, state, by, reason) == ("express", "label", "closed (stopped)", "maria", "over budget")
    assert re.fullmatch(MOMENT, at)
    assert run(flow, "switch", "open", "express") == "the switch express is open (flowing)\n"
    assert flow.chat(label="express")[0] == 200


def test_a_switch_as_json_is_the_gateways_object(flow: FlowShell) -> None:
    moved = data(flow, "switch", "close", "gpu-1", "--reason", "maintenance")
    assert moved.items() >= {"name": "gpu-1", "kind": "node", "state": "closed", "by": "maria"}.items()
    assert moved in data(flow, "switch")["switches"]


def test_a_switch_that_is_not_there_lists_those_that_are(flow: FlowShell) -> None:
    said = complaint(flow, "switch", "close", "expres")
    assert all(name in said for name in SWITCHES)
    assert data(flow, "switch", "open", "nobody", status=1)["error"]["code"] == "unknown_switch"


def test_what_somebody_wrote_as_a_reason_cannot_steer_the_terminal(flow: FlowShell) -> None:
    run(flow, "switch", "close", "C", "--reason", "\x1b[2J\nA  tier")
    for said in (run(flow, "switch"), run(flow, "status"), run(flow, "ledger")):
        assert "\x1b" not in said
        assert r"\x1b[2J\nA" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("switch", "close"), "lumbre switch close NAME"),
        (("switch", "shut", "B"), "lumbre switch close NAME"),
        (("switch", "--reason", "x"), "--reason goes with close or open"),
        (("policy", "--for", "2h"), "--for goes with drain-batch or drain-express"),
        (("explain",), "--body FILE"),
        (("explain", "x", "--body", "-"), "--body FILE"),
        (("explain", "x", "--tear", "A"), "--tear"),
        (("nodes", "gpu-1"), "gpu-1"),
    ],
)
def test_a_line_that_makes_no_sense_is_a_usage_error(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = Lumbre(tmp_path).run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_the_policy_is_shown_and_changed(flow: FlowShell) -> None:
    assert run(flow, "policy") == "balanced\n"
    assert run(flow, "policy", "local-only") == "local-only\n"
    assert data(flow, "explain", "x", "--complexity", "high")["tier"] == "A"
    assert re.fullmatch(
        f"drain-express until {MOMENT}, then balanced\n", run(flow, "policy", "drain-express", "--for", "2h")
    )
    assert data(flow, "policy").keys() == {"policy", "until", "default"}
    assert data(flow, "explain", "x", "--complexity", "low")["label"] == "express"


def test_a_policy_that_is_not_there_lists_those_that_are(flow: FlowShell) -> None:
    said = complaint(flow, "policy", "frugal")
    assert all(name in said for name in ("balanced", "drain-batch", "drain-express", "local-only"))
    assert "take a time" in complaint(flow, "policy", "balanced", "--for", "2h")
    assert "2h or 1d" in complaint(flow, "policy", "drain-batch", "--for", "soon")
    assert run(flow, "policy") == "balanced\n"


def test_an_explanation_has_its_outcome_its_steps_and_its_attempts(flow: FlowShell) -> None:
    run(flow, "switch", "close", "express")
    outcome, went_by, _, heads, *lines = run(flow, "explain", "Prove it", "--complexity", "high").splitlines()
    assert outcome == "it would go to tier A: house"
    assert went_by == "policy balanced, complexity high, class interactive"
    assert heads.split() == ["step", "tier", "verdict", "reason", "why"]
    steps, attempts = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert re.split(r"  +", steps[0]) == [
        "1",
        "B",
        "fall",
        "switch closed (stopped)",
        "the switch express is closed (stopped)",
    ]
    assert [re.split(r"  +", step)[:3] for step in steps] == [
        ["1", "B", "fall"],
        ["2", "-", "pass"],
        ["3", "B", "take"],
        ["4", "B", "fall"],
        ["4", "A", "take"],
        ["4", "C", "take"],
    ]
    assert attempts == ["tried in this order:", "1. tier A: house", "2. tier C: tier-c"]


def test_an_explanation_asks_nobody(flow: FlowShell) -> None:
    flow.rogue.forget()
    assert data(flow, "explain", "x")["outcome"] == "dispatch"
    assert [one for one in flow.rogue.log()["requests"] if "completions" in one["path"]] == []


@pytest.mark.parametrize(
    ("flags", "decided"),
    [
        ((), {"tier": "A", "label": None, "complexity": "medium", "class": "interactive", "strict_json": False}),
        (("--tier", "B"), {"tier": "B", "label": "express"}),
        (("--label", "batch"), {"tier": "B", "label": "batch", "node": "gpu-2"}),
        (("--complexity", "high"), {"tier": "B", "complexity": "high"}),
        (("--affinity", "A"), {"affinity": "A", "attempts": [{"tier": "A", "label": None, "node": "house"}]}),
        (("--complexity", "high", "--class", "background"), {"class": "background", "label": "batch"}),
        (("--model", "tier-b/batch"), {"tier": "B", "label": "batch"}),
        (("--strict-json",), {"strict_json": True, "affinity": "B", "tier": "B"}),
    ],
)
def test_each_flag_of_explain_is_a_hint(flow: FlowShell, flags: tuple[str, ...], decided: dict[str, Any]) -> None:
    assert data(flow, "explain", "x", *flags).items() >= decided.items()


def test_external_and_closed_are_hints_too(flow: FlowShell) -> None:
    inside = data(flow, "explain", "x", "--external", "never")
    assert [attempt["tier"] for attempt in inside["attempts"]] == ["A", "B"]
    run(flow, "switch", "close", "express")
    assert data(flow, "explain", "x", "--label", "express", "--closed", "fall")["tier"] == "A"
    refused = data(flow, "explain", "x", "--complexity", "high", "--closed", "reject", status=1)
    assert (refused["outcome"], refused["code"]) == ("reject", "switch_closed")


def test_a_decision_that_refuses_is_exit_1_and_says_why(flow: FlowShell) -> None:
    run(flow, "switch", "close", "global")
    said = run(flow, "explain", "x", "--label", "express", status=1)
    assert said.startswith("it would be refused, 503 switch_closed: ")
    assert "lumbre switch open global" in said.splitlines()[0]
    assert "tried in this order" not in said


def test_a_hint_that_does_not_exist_lists_those_that_do(flow: FlowShell) -> None:
    said = complaint(flow, "explain", "x", "--tier", "D")
    assert "A, B, C" in said


def test_a_whole_body_is_explained_and_flags_lie_over_its_hints(flow: FlowShell) -> None:
    body = {"model": "auto", "messages": [{"role": "user", "content": "x"}], "lumbre": {"label": "batch"}}
    (flow.lumbre.home / "body.json").write_text(json.dumps(body))
    assert data(flow, "explain", "--body", "body.json")["label"] == "batch"
    told = data(flow, "explain", "--body", "-", "--label", "express", "--class", "background", stdin=json.dumps(body))
    assert (told["label"], told["class"]) == ("express", "background")


@pytest.mark.parametrize(
    ("raw", "said"), [("[\n{]", "stdin:2:2: no JSON"), ("[]", "stdin: a chat request is a JSON object")]
)
def test_a_body_that_is_none_is_exit_3_with_its_place(tmp_path: Path, raw: str, said: str) -> None:
    done = Lumbre(tmp_path).run("explain", "--body", "-", stdin=raw)
    assert (done.returncode, done.stdout) == (3, "")
    assert said in done.stderr


def test_the_nodes_are_shown_with_their_breakers_and_their_cost(flow: FlowShell) -> None:
    flow.chat(label="express")
    table = run(flow, "nodes")
    name, labels, state, breaker, in_flight, cost = row(table, "gpu-1")
    assert (name, labels, state, breaker, in_flight) == ("gpu-1", "express", "running", "closed (flowing)", "0")
    assert re.fullmatch(r"0\.\d{2,6} USD", cost)
    assert row(table, "gpu-2")[1:] == ["batch", "running", "closed (flowing)", "0", "0.00 USD"]
    assert [node["id"] for node in data(flow, "nodes")["nodes"]] == ["gpu-1", "gpu-2"]


def test_a_reply_is_found_in_the_ledger_by_its_decision(flow: FlowShell) -> None:
    _, decision = flow.chat(label="batch")
    said = run(flow, "ledger", decision)
    rows = [re.split(r"  +", line) for line in said.splitlines()]
    assert rows[0] == ["when", "kind", "tier", "node", "model", "status", "cost", "outcome"]
    assert ["request", "B", "gpu-2", "rogue", "200", "0.00 USD", "ok"] in [cells[1:] for cells in rows]
    assert "2 B take: the label batch was asked for" in said.splitlines()
    records = data(flow, "ledger", decision)["records"]
    assert {record["kind"] for record in records} == {"attempt", "request"}
    assert {record["decision"] for record in records} == {decision}


def test_the_last_records_are_shown_newest_first(flow: FlowShell) -> None:
    run(flow, "switch", "close", "express", "--reason", "the bill")
    _, decision = flow.chat()
    run(flow, "policy", "drain-batch", "--for", "1h")
    said = run(flow, "ledger")
    told = [line.split("  ")[-1].strip() for line in said.splitlines()]
    assert re.fullmatch(f"drain-batch until {MOMENT}, maria", told[1])
    assert decision in said
    assert told.index("express closed (stopped), maria, the bill") > 2


def test_a_decision_that_nobody_made_is_exit_1(flow: FlowShell) -> None:
    assert "X-Lumbre-Decision" in complaint(flow, "ledger", "d-000000000000000000000000")
    assert data(flow, "ledger", "d-?&limit=1", status=1)["error"]["code"] == "unknown_decision"


def test_status_shows_every_tier_the_policy_the_closed_switches_and_the_budget(flow: FlowShell) -> None:
    run(flow, "policy", "drain-batch", "--for", "1h")
    run(flow, "switch", "close", "C", "--reason", "the bill")
    said = run(flow, "status")
    assert row(said, "A")[:3] == ["A", "ready", "-"]
    assert row(said, "B")[:3] == ["B", "ready", "-"]
    assert row(said, "C")[1] == "stopped"
    assert "the switch C is closed (stopped)" in row(said, "C")[2]
    assert row(said, "house")[1:] == ["A", "ready", "closed (flowing)", "0", "0", "64"]
    assert row(said, "gpu-1")[1:4] == ["B", "ready", "closed (flowing)"]
    assert re.search(f"^policy: drain-batch until {MOMENT}, then balanced$", said, re.MULTILINE)
    assert re.search(rf"^switch C: closed \(stopped\), maria, {MOMENT}: the bill$", said, re.MULTILINE)
    assert re.search(r"^today: 0\.\d+ USD spent and 0\.00 USD reserved, of 5\.00 USD$", said, re.MULTILINE)
    flow_told = data(flow, "status")["flow"]
    assert flow_told.keys() >= {"policy", "switches", "tiers", "budget", "problems"}


def test_all_of_it_speaks_spanish(flow: FlowShell) -> None:
    run(flow, "switch", "close", "express")
    _, decision = flow.chat()
    spanish = {
        words: run(flow, *words, "--lang", "es")
        for words in (
            ("switch",),
            ("status",),
            ("nodes",),
            ("ledger", decision),
            ("explain", "x", "--complexity", "high"),
        )
    }
    assert row(spanish["switch",], "express")[:4] == ["express", "etiqueta", "cerrado (detenido)", "maria"]
    assert re.search(rf"^interruptor express: cerrado \(detenido\), maria, {MOMENT}$", spanish["status",], re.MULTILINE)
    assert row(spanish["status",], "house")[1:4] == ["A", "listo", "cerrado (deja pasar)"]
    assert row(spanish["nodes",], "gpu-1")[2] == "detenido"
    assert " petición " in spanish["ledger", decision]
    assert spanish["explain", "x", "--complexity", "high"].startswith("iría al nivel A: house\npolítica balanced, ")
    assert row(spanish["explain", "x", "--complexity", "high"], "1")[:4] == [
        "1",
        "B",
        "cae",
        "interruptor cerrado (detenido)",
    ]
    assert "se intentaría en este orden:" in spanish["explain", "x", "--complexity", "high"]
    said = complaint(flow, "switch", "shut", "B", "--lang", "es", status=2)
    assert "di `lumbre switch close NOMBRE`" in said


def test_a_closing_that_could_not_be_written_down_is_told_and_exit_1(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "flow.json").write_text("{")
    with flow_shell(tmp_path, state) as flow:
        said = run(flow, "status")
        assert re.search(r"^warning: .*flow\.json cannot be read", said, re.MULTILINE)
        assert re.search(r"^switch B: closed \(stopped\), lumbre, ", said, re.MULTILINE)
        run(flow, "switch", "open", "B")
        (state / "flow.new").mkdir()  # where the gateway would write first
        said = complaint(flow, "switch", "close", "express")
        assert "flow.json cannot be written" in said
        assert "the switch express is closed (stopped) all the same" in said
        said = complaint(flow, "switch", "open", "C")
        assert "the switch C is still closed (stopped)" in said
        assert data(flow, "switch", "open", "express", status=1)["error"]["code"] == "misconfigured"
        assert row(run(flow, "switch"), "express")[2] == "closed (stopped)"


COMMANDS = (("switch",), ("switch", "close", "B"), ("policy",), ("explain", "x"), ("nodes",), ("ledger",))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nobody_at_the_address_is_exit_4_with_the_way_out(tmp_path: Path, words: tuple[str, ...]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        done = Lumbre(tmp_path).run(*words, "--json", "--url", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["code"] == "gateway_unreachable"
    assert "lumbre up" in done.stderr


def test_a_missing_key_says_how_to_give_one(tmp_path: Path) -> None:
    refusal = {"error": {"message": "a key is needed", "code": "invalid_api_key"}}
    with gateway({"/v1/flow/switches": lambda exchange: exchange.reply(refusal, 401)}) as stub:
        done = Lumbre(tmp_path).run("switch", "--url", stub.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "LUMBRE_KEY" in done.stderr


def test_a_server_that_answers_something_else_is_said_to_be_no_lumbre(tmp_path: Path) -> None:
    with gateway({"/v1/flow/policy": lambda exchange: exchange.reply(["it works"])}) as stub:
        done = Lumbre(tmp_path).run("policy", "--url", stub.url)
    assert (done.returncode, done.stdout) == (4, "")
    assert "is no Lumbre" in done.stderr
