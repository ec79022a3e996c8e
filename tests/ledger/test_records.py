"""What a record says: the nine keys always, times in UTC, the callers' words cut, and nothing of what was asked."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from lumbre.gateway.policy import Policy
from lumbre.gateway.switches import Switch
from lumbre.ledger import records
from lumbre.ledger.records import KEYS, KINDS, Asked, Ended, Entry, Parcel, Place, Tried
from lumbre.wire.openai.story import Usage

AT = datetime(2026, 12, 1, 10, 30, tzinfo=UTC)
PLACE = Place("C", None, "tier-c", "big-model")


def request(
    *, place: Place = PLACE, at: datetime = AT, model: str | None = "gpt-4o", param: str | None = None
) -> Entry:
    ended = Ended(200, "ok", 2, Usage(10, 20, estimated=True), param, 31, {"admitted": 0.1, "end": 1.5})
    return records.request("d-1", at, place, Asked("/chat/completions", True, model), ended, ["a_down", "external"])


def crossing() -> Entry:
    parcel = Parcel("api.example.com", 512, "ab" * 32, 3, {"email": 2}, 900)
    return records.crossing("d-1", AT, PLACE, parcel, ["a_down"])


ALL = (
    request(),
    records.attempt("d-1", AT, Place("B", "express", "gpu-1", "m"), Tried(2, "engine_failed", 500, 0.25, 7, idle=True)),
    crossing(),
    records.hold("d-1", AT, "gpu-1", 1800),
    records.switch(Switch("gpu-1", is_closed=True, reason="bill", by="operator"), AT),
    records.policy(Policy("drain-batch", AT + timedelta(hours=2)), AT, by="operator", reason="backlog"),
)


def written(entry: Entry) -> dict[str, Any]:
    told: dict[str, Any] = orjson.loads(orjson.dumps(entry))
    return told


def test_there_is_a_record_of_each_kind_and_each_has_the_nine_keys_first() -> None:
    assert tuple(entry["kind"] for entry in ALL) == KINDS
    assert all(tuple(entry)[:9] == KEYS for entry in ALL)


def test_a_request_says_how_it_ended_and_what_it_took() -> None:
    assert written(request(param="messages[0]")) == {
        "kind": "request",
        "decision": "d-1",
        "at": "2026-12-01T10:30:00+00:00",
        "tier": "C",
        "node": "tier-c",
        "model": "big-model",
        "status": 200,
        "reasons": ["a_down", "external"],
        "cost_microusd": 31,
        "label": None,
        "endpoint": "/chat/completions",
        "stream": True,
        "model_asked": "gpt-4o",
        "outcome": "ok",
        "param": "messages[0]",
        "attempts": 2,
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "tokens_estimated": True,
        "times_s": {"admitted": 0.1, "end": 1.5},
    }


def test_an_attempt_says_which_it_was_and_what_came_of_it() -> None:
    told = written(ALL[1])
    assert (told["tier"], told["label"], told["node"]) == ("B", "express", "gpu-1")
    assert (told["attempt"], told["outcome"], told["status"]) == (2, "engine_failed", 500)
    assert (told["seconds"], told["cost_microusd"], told["idle"]) == (0.25, 7, True)


def test_a_hold_says_which_machine_begins_to_work_and_what_is_set_aside_for_it() -> None:
    told = written(ALL[3])
    assert (told["decision"], told["tier"], told["node"]) == ("d-1", "B", "gpu-1")
    assert (told["reserved_microusd"], told["cost_microusd"]) == (1800, None)


def test_a_crossing_says_how_much_left_for_where_and_not_what() -> None:
    told = written(crossing())
    assert {name: value for name, value in told.items() if name not in (*KEYS, "label")} == {
        "host": "api.example.com",
        "bytes": 512,
        "sha256": "ab" * 32,
        "messages": 3,
        "redactions": {"email": 2},
        "reserved_microusd": 900,
    }
    assert told["cost_microusd"] is None


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("A", ("tier", "A", None, None)),
        ("express", ("label", "B", "express", None)),
        ("gpu-1", ("node", "B", None, "gpu-1")),
        ("global", ("global", None, None, None)),
    ],
)
def test_a_switch_says_what_it_covers_and_is_never_shown_by_the_bare_word(name: str, place: tuple[str, ...]) -> None:
    told = written(records.switch(Switch(name, is_closed=True, reason="bill", by="operator"), AT))
    assert (told["covers"], told["tier"], told["label"], told["node"]) == place
    assert (told["switch"], told["state"], told["shown"]) == (name, "closed", "closed (stopped)")
    assert (told["by"], told["reasons"]) == ("operator", ["bill"])


def test_a_policy_says_until_when_it_holds() -> None:
    told = written(ALL[5])
    assert (told["policy"], told["until"]) == ("drain-batch", "2026-12-01T12:30:00+00:00")
    assert (told["by"], told["reasons"]) == ("operator", ["backlog"])
    assert written(records.policy(Policy("balanced"), AT))["until"] is None


def test_every_moment_is_told_in_utc() -> None:
    east = datetime(2026, 12, 2, 1, 30, tzinfo=timezone(timedelta(hours=5)))
    assert written(request(at=east))["at"] == "2026-12-01T20:30:00+00:00"


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        request(at=AT.replace(tzinfo=None))


def test_what_a_caller_may_write_into_a_record_is_bounded() -> None:
    long = "x" * 1_000_000
    entries = [
        request(place=Place(model=long), model=long, param=long),
        records.policy(Policy("balanced"), AT, reason=long),
    ]
    assert all(len(orjson.dumps(entry)) < 2000 for entry in entries)
