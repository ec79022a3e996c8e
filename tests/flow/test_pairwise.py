"""Every two things that decide, over HTTP and with real backends: which of them was hit, and what was told.

The expectation is the second reading's, which knows the texts and not the code.
"""

import json
from collections import Counter
from typing import Any

import pytest

from flow.flow_house import OUTSIDE, Answer, Backends, House, HouseOpener, Json, hint_headers, whisper
from flow.house_rows import (
    ASKS,
    CONTEXT_TOKENS,
    HOUSES,
    LABELS,
    LONG_TOKENS,
    MODELS,
    allowed,
    body,
    facts,
    hints,
    house_of,
    houses,
    is_served,
    layout,
    question,
    rows,
)
from flow.pairs import Row, all_pairs, pairs_of
from gateway.outcomes import Outcome, Place
from gateway.second_reading import nodes_of, read, why_not_node

TIERS = {"one": "A", "gpu-1": "B", "gpu-2": "B", OUTSIDE: "C"}


def test_the_rows_have_every_pair_and_each_value_is_served_in_many() -> None:
    every = rows()
    assert len(every) >= 200
    covered = {pair for row in every for pair in pairs_of(row)}
    assert [pair for pair in all_pairs({**HOUSES, **ASKS}, allowed) if pair not in covered] == []
    served = {pair for row in every if is_served(row) for pair in pairs_of(row)}
    for name, values in ASKS.items():
        for value in values:
            seen = [pair for pair in served if (name, value) in pair]
            assert len(seen) > len(HOUSES) + len(ASKS), f"{name} = {value} is hardly ever served"
    tiers = Counter(read(question(row), facts(row)).places[:1] for row in every)
    assert min(tiers[place,] for place in [("A", None), ("B", "express"), ("B", "batch"), ("C", None)]) >= 5


EVERY = 4
"""So many houses there are for one that is tried each time."""


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, id=", ".join(group.values()), marks=[pytest.mark.slow] if number % EVERY else [])
        for number, group in enumerate(houses())
    ],
)
def test_the_backend_that_the_texts_name_is_hit_and_no_other(
    group: Row, open_house: HouseOpener, backends: Backends
) -> None:
    disguise(group, backends)
    house = open_house(layout(group))
    wrong = [told for row in rows() if house_of(row) == group for told in run(row, house)]
    assert not wrong, "\n".join(wrong)


def disguise(group: Row, backends: Backends) -> None:
    """Have the backends list their own models; a short tier A looks like an engine that counts every prompt alike."""
    short = group["weak"] == "A is short"
    for name in ("one", *LABELS[group["b"]]):
        entries: list[Json] = [{"id": model, "owned_by": "rogue"} for model in MODELS[TIERS[name]]]
        if short and name == "one":
            entries = [{**entry, "owned_by": "vllm", "max_model_len": CONTEXT_TOKENS} for entry in entries]
            backends.lay(name, "/tokenize", {"count": LONG_TOKENS, "max_model_len": CONTEXT_TOKENS})
        backends.lay(name, "/v1/models", {"data": entries})


def run(row: Row, house: House) -> list[str]:
    """Put one row to the house; what is not as the texts say."""
    arrange(row, house)
    house.backends.forget()
    wish: Json = {"text": '{"a": 1}', "chunks": 2} if row["strict"] == "yes" else {}
    answer = house.ask({**body(row), **whisper(wish)}, headers=hint_headers(hints(row)))
    found = seen(answer, house)
    wanted = expected(row)
    said = {name: value for name, value in row.items() if value not in ("-", "no")}
    return [] if any(found == each for each in wanted) else [f"{said}\n  came {found}\n  not  {wanted}"]


def arrange(row: Row, house: House) -> None:
    """Bring switches, policy and backends to where a row wants them."""
    for switch in house.closed() - {row["switch"]}:
        house.open(switch)
    states = house.states()
    wanted = {"one": row["A"], **dict.fromkeys(house.layout.b, row["B"])}
    if any((states[name] == "ready") != (state == "up") for name, state in wanted.items()):
        for switch in house.closed():
            house.open(switch)  # nobody looks at a backend whose switch is closed
        for name, state in wanted.items():
            house.set_well(name, state == "up")
    if row["switch"] != "-":
        house.close(row["switch"])
    house.policy(row["policy"])


Seen = dict[str, Any]


def seen(answer: Answer, house: House) -> Seen:
    """What came back, whom it reached, and what the ledger says of it."""
    kinds: Counter[str] = Counter()
    last: dict[str, Any] = {}
    for record in house.ledger(answer.decision):
        kinds[record["kind"]] += 1
        last[record["kind"]] = record
    request = last.get("request", {})
    places = [last[kind] for kind in ("request", "attempt", "crossing") if kind in last]
    return {
        "status": answer.status,
        "code": answer.code,
        "switch": answer.switch,
        "tier": answer.tier,
        "node": answer.node,
        "hits": {name: len(hits) for name, hits in house.backends.hits().items()},
        "finished": answer.status != 200 or finished(answer),
        "ledger": dict(kinds),
        "ledger status": request.get("status"),
        "ledger outcome": request.get("outcome"),
        "ledger places": {(record["tier"], record["label"], record["node"]) for record in places},
    }


def finished(answer: Answer) -> bool:
    """Whether an answer is whole: of a stream, up to its mark."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return answer.body.endswith(b"data: [DONE]\n\n")
    return bool(json.loads(answer.body)["choices"])


def expected(row: Row) -> list[Seen]:
    """What may be seen: several where a label has several nodes that can take it."""
    asked, house = question(row), facts(row)
    outcome = read(asked, house)
    if outcome.kind == "reject":
        return [_refused(outcome)]
    place = outcome.places[0]
    able = [node.id for node in nodes_of(place, house) if not why_not_node(node, place, asked, house)]
    assert able, (row, outcome)
    return [_answered(place, node) for node in able]


def _refused(outcome: Outcome) -> Seen:
    return {
        "status": outcome.status,
        "code": outcome.code,
        "switch": outcome.switch,
        "tier": None,
        "node": None,
        "hits": {},
        "finished": True,
        "ledger": {"request": 1},
        "ledger status": outcome.status,
        "ledger outcome": outcome.code,
        "ledger places": {(None, None, None)},
    }


def _answered(place: Place, node: str) -> Seen:
    tier, label = place
    before = {"C": {"crossing": 1}, "B": {"hold": 1}}.get(tier, {})
    return {
        "status": 200,
        "code": None,
        "switch": None,
        "tier": tier,
        "node": node,
        "hits": {node: 1},
        "finished": True,
        "ledger": {"request": 1, "attempt": 1, **before},
        "ledger status": 200,
        "ledger outcome": "ok",
        "ledger places": {(tier, label, node)},
    }
