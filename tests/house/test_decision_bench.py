"""`bench/decision`: what counts as an answer, the three books, the mix of questions, the report as a pure function, and
a short soak of a real gateway. Nothing here depends on a time.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from bench.decision.accounts import Death, NodeBook, faults, node_book, request_faults
from bench.decision.chaos import PIECES, TEXT
from bench.decision.clients import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Ask, Heard
from bench.decision.deciding import NODE_COUNTS, OUTCOMES, LedgerTimes, Times, decided, mix, recorded
from bench.decision.moves import Moves, _Move, measured
from bench.decision.overhead import CASES, GATEWAYS, RELAY, Overhead
from bench.decision.report import GOALS, Figures, report
from bench.decision.run import MARK, PAGE
from bench.decision.soak import NODES, soak
from bench.decision.soaked import Soaked, leaks
from bench.decision.soaked import report as soak_report
from bench.decision.verdicts import Verdict, verdict
from bench.decision.watch import Look
from bench.gateway.figures import Sample
from bench.gateway.processes import BenchError
from bench.page import put_into

ABOUT = {"date": "today", "machine": "this one", "software": "what there is", "command": "it"}
OPENAI_ERROR = {"error": {"message": "it broke", "type": "server_error", "param": None, "code": "engine_failed"}}
ANTHROPIC_ERROR = {
    "type": "error",
    "error": {"type": "api_error", "message": "it broke", "lumbre": {"code": "engine_failed"}},
}
END = {"finish_reason": "stop", "index": 0}


def whole(door: str, document: object, status: int = 200) -> Verdict:
    return verdict(door, stream=False, status=status, content_type="application/json", body=orjson.dumps(document))


def streamed(door: str, *events: object, ending: str = "\n\n") -> Verdict:
    told = [event if isinstance(event, str) else orjson.dumps(event).decode() for event in events]
    body = "\n\n".join(f"data: {event}" for event in told) + ending
    return verdict(door, stream=True, status=200, content_type="text/event-stream", body=body.encode())


def chunks(*pieces: str) -> list[Mapping[str, Any]]:
    return [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]


@pytest.mark.parametrize(
    ("door", "document"),
    [
        (CHAT, {"choices": [END | {"message": {"content": TEXT}}]}),
        (COMPLETIONS, {"choices": [END | {"text": TEXT}]}),
        (MESSAGES, {"stop_reason": "end_turn", "content": [{"type": "text", "text": TEXT}]}),
        (RESPONSES, {"status": "completed"}),
    ],
)
def test_a_whole_answer_is_one_and_half_of_it_is_not(door: str, document: Mapping[str, Any]) -> None:
    assert whole(door, document) == Verdict("answer")
    for key in document:
        assert whole(door, {name: value for name, value in document.items() if name != key}).kind == "wrong"


@pytest.mark.parametrize(
    ("door", "body"), [(CHAT, OPENAI_ERROR), (RESPONSES, OPENAI_ERROR), (MESSAGES, ANTHROPIC_ERROR)]
)
def test_an_error_counts_in_the_shape_of_its_api_only(door: str, body: Mapping[str, Any]) -> None:
    assert whole(door, body, 502) == Verdict("error", "engine_failed")
    assert whole(door, {"detail": "it broke"}, 502).kind == "wrong"
    assert whole(MESSAGES if door == CHAT else CHAT, {"error": "it broke"}, 502).kind == "wrong"


def test_an_internal_error_is_typed_and_still_wrong() -> None:
    body = {"error": OPENAI_ERROR["error"] | {"code": "internal"}}
    assert whole(CHAT, body, 500).kind == "wrong"


def test_a_stream_has_to_be_whole_or_end_in_an_error() -> None:
    assert streamed(CHAT, *chunks(*PIECES), "[DONE]") == Verdict("answer")
    assert streamed(CHAT, *chunks(*PIECES[:2]), "[DONE]").kind == "wrong"
    assert streamed(CHAT, *chunks(*PIECES)).kind == "wrong"
    assert streamed(CHAT, *chunks(*PIECES[:2]), OPENAI_ERROR) == Verdict("error", "engine_failed")
    assert streamed(CHAT, OPENAI_ERROR, *chunks(*PIECES[:2])).kind == "wrong"
    assert streamed(CHAT, *chunks(*PIECES), "[DONE]", ending="\n").kind == "wrong"
    assert streamed(MESSAGES, {"type": "message_stop"}) == Verdict("answer")
    assert streamed(MESSAGES, {"type": "content_block_delta"}).kind == "wrong"
    assert streamed(RESPONSES, {"type": "response.completed", "response": {}}) == Verdict("answer")


def attempt(end_s: float, seconds: float, outcome: str, decision: str = "d") -> dict[str, Any]:
    at = datetime.fromtimestamp(end_s, UTC).isoformat()
    return {"kind": "attempt", "decision": decision, "node": "n", "at": at, "seconds": seconds, "outcome": outcome}


def test_an_attempt_is_certain_unless_its_engine_died_or_nothing_was_sent() -> None:
    deaths = [Death(killed=100.0, back=102.0)]
    entries = [
        attempt(99.0, 0.5, "ok"),
        attempt(99.0, 0.5, "upstream_cut"),
        attempt(100.1, 0.5, "ok"),
        attempt(100.1, 0.5, "upstream_cut"),  # under way when it was killed
        attempt(101.0, 0.1, "engine_failed"),  # nobody was there
        attempt(102.5, 0.51, "upstream_refused"),  # it came back just then
        attempt(110.0, 0.1, "switch_closed"),
        attempt(110.0, 0.001, "client_gone"),
        attempt(110.0, 0.5, "client_gone"),
    ]
    book = node_book("n", [*entries, {**entries[0], "node": "another"}], 5, deaths)
    assert (book.attempts, book.certain, book.unsent, book.open) == (9, 4, 2, 3)
    assert [NodeBook("n", 9, 4, 2, 3, seen).agrees for seen in (3, 4, 7, 8)] == [False, True, True, False]


def heard(kind: Any, decision: str = "d", code: str = "") -> Heard:
    return Heard(Ask("tag-1", CHAT, b"{}", {}, stream=False), Verdict(kind, code), decision, 200, 0.1)


def request(attempts: int) -> dict[str, Any]:
    return {"kind": "request", "decision": "d", "attempts": attempts, "outcome": "ok"}


def test_each_fault_is_found_and_a_clean_run_has_none() -> None:
    entries = [request(1), attempt(1.0, 0.1, "ok")]
    good, bad = NodeBook("n", 1, 1, 0, 0, 1), NodeBook("n", 1, 1, 0, 0, 2)
    assert faults([heard("answer"), heard("left", "")], entries, [good]) == []
    assert len(faults([heard("wrong", code="no end within 16 s")], entries, [good])) == 1
    assert len(faults([heard("answer")], entries, [bad])) == 1
    assert "0 request records" in faults([heard("answer", "another")], entries, [good])[0]
    assert "2 request records" in faults([heard("answer")], [*entries, request(1)], [good])[0]
    assert "1 attempts on record, not 2" in faults([heard("answer")], [request(2), entries[1]], [good])[0]


def test_an_engine_has_seen_each_request_as_often_as_the_ledger_says() -> None:
    deaths: dict[str, list[Death]] = {"n": [], "m": []}
    entries = [request(2), attempt(1.0, 0.1, "upstream_cut"), attempt(1.2, 0.1, "ok") | {"node": "m"}]
    asked = [heard("answer")]
    assert request_faults(asked, entries, {("tag-1", "n"): 1, ("tag-1", "m"): 1}, deaths) == []
    assert len(request_faults(asked, entries, {("tag-1", "n"): 2}, deaths)) == 2
    assert request_faults([heard("left", "")], entries, {}, deaths) == []
    deaths["n"].append(Death(0.95, 2.0))
    assert request_faults(asked, entries, {("tag-1", "m"): 1}, deaths) == []


def test_what_reaches_an_engine_after_the_order_is_counted_until_it_is_opened_again() -> None:
    ms = 1_000_000
    move = _Move(opened_ns=0, ordered_ns=100 * ms, replied_ns=104 * ms, reopened_ns=200 * ms)
    none = measured([move], [50 * ms, 99 * ms, 201 * ms])
    assert (none.replied_ms, none.held_ms, none.late_ms, none.before) == ([4], [0], [0], [2])
    late = measured([move], [50 * ms, 103 * ms, 106 * ms])
    assert (late.held_ms, late.late_ms) == ([6], [2])
    with pytest.raises(BenchError, match="does not reach"):
        measured([move], [150 * ms])


@pytest.mark.parametrize("count", NODE_COUNTS)
def test_the_mix_has_a_question_for_every_outcome_and_is_decided_so(count: int) -> None:
    assert mix(count).keys() == OUTCOMES.keys()
    times = decided(1, 1)
    assert {name for name, nodes in times if nodes == count} == OUTCOMES.keys()


def test_the_ledger_is_timed_whole() -> None:
    times = recorded(40, 1)
    assert [len(calls) for calls in times.taken.rounds] == [40]
    assert len(times.write_us) == 1


def figures(cpu_ms: float = 0.03, us: float = 10.0, held_ms: float = 1.0) -> Figures:
    """A run in which everything is alike; the relay takes 0.1 ms a request."""
    samples = {
        (case, name): [Sample(100, 1.0, 1.0, 2.0, 0.1 if name == RELAY else 0.1 + cpu_ms)]
        for case in CASES
        for name in GATEWAYS
    }
    times = {(name, count): Times([[round(us * 1000)] * 3]) for name in OUTCOMES for count in NODE_COUNTS}
    ledger = LedgerTimes(Times([[9000] * 3]), [4.0])
    return Figures(times, ledger, Moves([2.0], [held_ms], [0.0], [8]), Overhead(samples))


def goal_lines(run: Figures) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in report(run, ABOUT).splitlines() if line.startswith("| ")]
    return {words[0]: words[-1:] for words in lines if words[0] in {goal.what for goal in GOALS}}


def test_every_goal_is_told_as_it_was_reached() -> None:
    assert set(map(tuple, goal_lines(figures()).values())) == {("yes",), ("not measured",)}
    slow = goal_lines(figures(cpu_ms=0.05, us=21.0, held_ms=6.0))
    assert sum(words == ["**no**"] for words in slow.values()) == len(NODE_COUNTS) + 2


def test_the_report_has_a_row_for_every_question_and_load() -> None:
    text = report(figures(), ABOUT)
    assert all(f"| {name} |" in text for name in OUTCOMES)
    assert all(f"| {case.name} | 0.1000 | 0.1300 | 0.1300 | +0.0300 | +0.0300 | 0% |" in text for case in CASES)


def test_what_is_held_at_rest_is_a_leak_and_a_thread_is_none() -> None:
    base = Look(4, 1, 0, 5, 0, 0, 0, 58.0)
    assert leaks(base, replace(base, sockets=3, threads=9, resident_mb=99.0)) == []
    for name in ("sockets", "tasks", "children", "in_flight", "waiting", "reserved"):
        assert len(leaks(base, replace(base, **{name: 6}))) == 1


def test_a_soak_that_lost_something_says_what() -> None:
    look = Look(4, 1, 0, 5, 0, 0, 0, 58.0)
    clean = Soaked(1.0, 16.0, look, rest=look, heard=[heard("answer")])
    assert "Nothing was lost" in soak_report(clean)
    clean.faults.append("in_flight: 1 at rest")
    assert "**1 faults:**" in soak_report(clean)
    assert "- in_flight: 1 at rest" in soak_report(clean)


def test_the_page_has_its_place_for_the_tables() -> None:
    assert "new words" in put_into(PAGE.read_text(encoding="utf-8"), MARK, "new words")


@pytest.mark.parametrize("minutes", [0.05, pytest.param(0.2, marks=pytest.mark.slow)])
def test_a_short_soak_loses_nothing_leaks_nothing_and_its_books_agree(minutes: float) -> None:
    soaked = soak(minutes, rate=50)
    assert soaked.faults == [], soaked.log
    assert {book.node for book in soaked.books} == set(NODES)
    assert all(book.seen for book in soaked.books)
    assert soaked.deaths or minutes < 0.2  # engines live for seconds
    assert {each.verdict.kind for each in soaked.heard} >= {"answer", "error", "left"}
