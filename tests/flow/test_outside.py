"""Tier C: when there is one, who may ask for it, what may never reach it, and what is written down of each crossing."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from flow.flow_house import KEY, OUTSIDE, Answer, Backends, Hit, House, HouseOpener, Layout
from flow.orders import DOORS, Orders, ask_at, records_of, said_at
from wire_client import poll

TEXT = "the quarterly figures of the mill"
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": TEXT}]}
TO_ALL = Layout(b={}, direct=("*",))
FAILS: dict[str, Any] = {"do": "refuse", "status": 503}


@pytest.fixture(scope="module")
def house(open_house_for_module: HouseOpener) -> House:
    """Tiers A and C; tier C may be asked for by the name `sonnet`, and takes what falls."""
    return open_house_for_module(Layout(b={}, direct=("sonnet",)))


def with_c(**settings: Any) -> Layout:
    return Layout(b={}, direct=("*",), sections={"tier_c": settings})


def crossed(backends: Backends) -> list[Hit]:
    return backends.hits().get(OUTSIDE, [])


def refused(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.code


def settings_without_key(folder: Path, case: str) -> tuple[dict[str, Any], str | None]:
    """Tier C's settings, and what its variable holds, for one way to have no key."""
    path = folder / "key"
    content = {"file empty": b"", "file blank": b" \r\n\n", "file of bytes": b"\xff\xfe\x00"}.get(case)
    if content is not None:
        path.write_bytes(content)
    if case.startswith("file"):
        return {"api_key_env": "", "api_key_file": str(path)}, None
    return {}, {"env unset": None, "env empty": "", "env blank": " \n"}[case]


@pytest.mark.parametrize(
    "case",
    [
        *("env unset", "env blank", "file blank"),
        *(pytest.param(case, marks=pytest.mark.slow) for case in ("env empty", "file missing", "file empty")),
        pytest.param("file of bytes", marks=pytest.mark.slow),
    ],
)
def test_without_a_key_there_is_no_tier_c(
    open_house: HouseOpener, backends: Backends, order: Orders, tmp_path: Path, case: str
) -> None:
    settings, key = settings_without_key(tmp_path, case)
    house = open_house(Layout(b={}, direct=("*",), key=key, sections={"tier_c": settings}))
    shown = house.flow()["tiers"]["C"]
    assert shown["available"] is False
    assert any("no key" in reason for reason in shown["reasons"])
    assert refused(house.ask(affinity="C")) == (503, "no_tier")
    order("one", **FAILS)
    assert house.ask().status == 503
    assert crossed(backends) == []


@pytest.mark.parametrize(
    "ending",
    ["", "\r\n", *(pytest.param(ending, marks=pytest.mark.slow) for ending in ("\n", "\n\n"))],
    ids=repr,
)
def test_a_key_in_a_file_is_sent_without_what_an_editor_adds(
    open_house: HouseOpener, backends: Backends, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(f"sk-of-the-file{ending}".encode())
    house = open_house(with_c(api_key_env="", api_key_file=str(path)))
    assert house.ask(tier="C").tier == "C"
    assert crossed(backends)[0].headers["authorization"] == "Bearer sk-of-the-file"


def test_the_key_is_told_to_nobody_else(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(TO_ALL)
    assert house.ask().tier == "A"
    order(OUTSIDE, do="refuse", status=401)
    said = house.ask(affinity="C")
    assert KEY.encode() not in said.body
    assert KEY not in str(backends.hits()["one"])
    for path in ("/v1/flow", "/v1/ledger", "/readyz", "/metrics", "/v1/models"):
        with house.get(path) as call:
            assert KEY.encode() not in call.read()
    assert KEY not in house.stderr


def test_direct_work_is_refused_where_nobody_is_designated(
    open_house: HouseOpener, backends: Backends, order: Orders
) -> None:
    house = open_house(Layout(b={}))
    wishes: list[dict[str, Any]] = [
        {"model": "tier-c"},
        {"model": "vast"},
        {"lumbre": {"tier": "C"}},
        {"lumbre": {"affinity": "C"}},
    ]
    for asked in wishes:
        assert refused(house.ask(asked)) == (403, "tier_c_not_designated"), asked
    assert refused(house.ask(tier="C")) == (403, "tier_c_not_designated")
    assert crossed(backends) == []
    order("one", **FAILS)
    assert house.ask().tier == "C"  # what falls need not be designated


def test_a_model_is_designated_by_its_name(house: House, backends: Backends) -> None:
    assert house.ask({"model": "sonnet"}).tier == "C"
    assert crossed(backends)[0].json()["model"] == "sonnet"
    for model in ("vast", "tier-c"):
        assert refused(house.ask({"model": model})) == (403, "tier_c_not_designated")


def test_a_clients_key_is_designated_by_its_digest(open_house: HouseOpener, backends: Backends) -> None:
    digest = hashlib.sha256(b"anas-own-key").hexdigest()
    house = open_house(Layout(b={}, direct=(f"sha256:{digest}",)))
    for headers in ({"Authorization": "Bearer anas-own-key"}, {"x-api-key": "anas-own-key"}):
        assert house.ask(headers=headers, tier="C").tier == "C"
    for headers in ({}, {"Authorization": "Bearer evas"}, {"Authorization": f"Bearer sha256:{digest}"}):
        assert refused(house.ask(headers=headers, tier="C")) == (403, "tier_c_not_designated")
    assert len(crossed(backends)) == 2
    assert "anas-own-key" not in str(crossed(backends))


def test_the_refusal_has_the_shape_of_each_door(house: House) -> None:
    for door in (*DOORS, "/v1/completions"):
        answer = ask_at(house, door, said_at(door, model="tier-c"))
        code = answer.lumbre["code"] if door == "/v1/messages" else answer.code
        assert (answer.status, code) == (403, "tier_c_not_designated"), answer.body


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("failure", ["refuse", "cut_before_head", "error_event", "html", "not_json"])
def test_work_that_must_not_leave_does_not_when_the_house_fails(
    house: House, backends: Backends, order: Orders, failure: str, stream: bool
) -> None:
    order("one", do=failure, status=503, bare=True)
    for answer in (
        house.ask({"stream": stream, "lumbre": {"external": "never"}}),
        house.ask({"stream": stream}, external="never"),
    ):
        assert answer.tier != "C"
        assert answer.status >= 500
    assert len(backends.hits()["one"]) == 2
    assert crossed(backends) == []


def test_work_that_must_not_leave_does_not_by_any_name(house: House, backends: Backends) -> None:
    wishes: list[dict[str, Any]] = [
        {"model": "sonnet"},
        {"model": "sonnet", "lumbre": {"affinity": "C"}},
        {"model": "sonnet", "lumbre": {"tier": "C", "closed": "fall"}},
    ]
    for asked in wishes:
        assert house.ask(asked, external="never").tier != "C", asked
    assert crossed(backends) == []


@pytest.mark.parametrize("door", [*DOORS, "/v1/completions"])
def test_work_that_must_not_leave_does_not_by_any_door(
    house: House, backends: Backends, order: Orders, door: str
) -> None:
    order("one", **FAILS)
    assert ask_at(house, door, said_at(door, lumbre={"external": "never"})).status == 503
    assert crossed(backends) == []
    free = ask_at(house, door, said_at(door))
    if door == "/v1/completions":  # the outside API has no such endpoint
        assert (free.status, crossed(backends)) == (503, [])
    else:
        assert (free.status, free.tier) == (200, "C")


def test_texts_for_embeddings_never_leave(house: House, backends: Backends, order: Orders) -> None:
    order("one", **FAILS)
    assert ask_at(house, "/v1/embeddings", {"model": "auto", "input": TEXT}).status == 503
    assert crossed(backends) == []


def test_a_prompt_does_not_leave_to_be_counted(house: House, backends: Backends, order: Orders) -> None:
    order("one", **FAILS)
    for model in ("auto", "sonnet"):
        answer = ask_at(house, "/v1/messages/count_tokens", said_at("/v1/messages", model=model) | {"max_tokens": 1})
        assert answer.status in (200, 400, 503), answer.body
    assert crossed(backends) == []


def test_under_local_only_unlabelled_work_never_leaves(house: House, backends: Backends, order: Orders) -> None:
    order("one", **FAILS)
    house.policy("local-only")
    try:
        for said in ({}, {"complexity": "high"}, {"external": "allow"}, {"class": "background"}):
            answer = house.ask({**ASKED, "lumbre": said})
            assert (answer.status, answer.tier) == (503, "A"), said
    finally:
        house.policy("balanced")
    assert crossed(backends) == []


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_crossing_has_the_size_and_the_digest_of_the_very_bytes(
    house: House, backends: Backends, order: Orders, stream: bool
) -> None:
    order("one", **FAILS)
    answer = house.ask({"stream": stream, "messages": [{"role": "user", "content": f"{TEXT} ñ"}] * 3})
    (received,) = crossed(backends)
    (crossing,) = records_of(house, answer.decision, "crossing")
    assert (crossing["tier"], crossing["node"], crossing["model"]) == ("C", OUTSIDE, "vast")
    assert crossing["sha256"] == digest(received.body)
    assert crossing["bytes"] == len(received.body.encode())
    assert crossing["host"] == f"127.0.0.1:{backends[OUTSIDE].port}"
    assert crossing["messages"] == 3
    assert crossing["reserved_microusd"] > 0
    assert crossing["redactions"] == {}
    assert crossing["reasons"]


def digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def test_one_query_tells_the_story_of_a_request(house: House, order: Orders) -> None:
    order("one", **FAILS)
    records = records_of(house, house.ask(ASKED).decision)
    assert [record["kind"] for record in records] == ["attempt", "crossing", "attempt", "request"]
    assert [(record["tier"], record["node"]) for record in records] == [("A", "one"), *[("C", OUTSIDE)] * 3]
    refused, _, answered, ended = records
    assert [(each["attempt"], each["status"], each["outcome"]) for each in (refused, answered)] == [
        (1, 503, "upstream_refused"),
        (2, 200, "ok"),
    ]
    assert (ended["status"], ended["attempts"], ended["outcome"]) == (200, 2, "ok")
    assert ended["cost_microusd"] == answered["cost_microusd"] > 0


def test_the_ledger_holds_no_text(house: House, order: Orders) -> None:
    order("one", **FAILS)
    said = {**ASKED, "user": "ana-of-the-mill", "metadata": {"note": "mill"}}
    answers = [house.ask({**said, "stream": stream}) for stream in (False, True)]
    assert [len(records_of(house, answer.decision)) for answer in answers] == [4, 4]
    kept = b"".join(path.read_bytes() for path in (house.state_dir / "ledger").iterdir())
    assert answers[0].decision.encode() in kept
    for word in (b"quarterly", b"mill", b"word0", KEY.encode()):
        assert word not in kept, word


@pytest.mark.parametrize(
    "failure",
    [{"do": "refuse", "status": 500}, {"do": "refuse", "status": 400}, {"do": "cut_before_head"}, {"do": "not_json"}],
    ids=str,
)
def test_a_crossing_is_written_down_though_nothing_comes_of_it(
    house: House, backends: Backends, order: Orders, failure: dict[str, Any]
) -> None:
    order("one", **FAILS)
    order(OUTSIDE, **failure)
    answer = house.ask(ASKED)
    assert answer.status >= 400
    crossings = records_of(house, answer.decision, "crossing")
    assert [crossing["sha256"] for crossing in crossings] == [digest(hit.body) for hit in crossed(backends)]
    assert len(crossings) == 1
    outcomes = [each["outcome"] for each in records_of(house, answer.decision, "attempt") if each["tier"] == "C"]
    assert len(outcomes) == 1
    assert outcomes != ["ok"]


def test_what_cannot_be_written_down_does_not_cross(open_house: HouseOpener, backends: Backends, order: Orders) -> None:
    house = open_house(TO_ALL)
    records_of(house, house.ask().decision)
    folder = house.state_dir / "ledger"
    in_the_way(folder)
    assert house.ask(affinity="C").status == 503
    assert house.ask(tier="C").tier == "A"
    assert house.ask().tier == "A"
    order("one", do="refuse", status=500)
    assert house.ask().status in (500, 503)
    assert crossed(backends) == []
    out_of_the_way(folder)
    poll(lambda: house.ask(affinity="C").status == 200, what="it does not cross though the ledger can be written")


def in_the_way(folder: Path) -> None:
    """A file stands where the folder was: nobody can write there, not even root."""
    folder.rename(folder.with_name("aside"))
    folder.touch()


def out_of_the_way(folder: Path) -> None:
    folder.unlink()
    folder.with_name("aside").rename(folder)


@pytest.mark.parametrize("switch", ["C", "global"])
def test_a_closed_switch_keeps_everything_in(house: House, backends: Backends, order: Orders, switch: str) -> None:
    order("one", **FAILS)
    house.close(switch)
    try:
        assert house.ask().status == 503
        answer = house.ask({"model": "sonnet"})
        assert (*refused(answer), answer.switch) == (503, "switch_closed", switch)
        assert crossed(backends) == []
    finally:
        house.open(switch)
    assert house.ask().tier == "C"


@pytest.mark.parametrize(
    "more", [{"n": 2}, {"response_format": {"type": "json_object"}}, {"logit_bias": {"5": 1}}], ids=str
)
def test_what_the_outside_has_no_words_for_stays_in_and_is_no_fault_of_the_callers(
    open_house: HouseOpener, backends: Backends, order: Orders, more: dict[str, Any]
) -> None:
    house = open_house(Layout(b={}, c="anthropic", direct=("*",)))
    order("one", **FAILS)
    assert refused(house.ask(more)) == (503, "rogue_503")  # what the house said, and no 400
    told = house.explain(more, tier="C")
    assert [(step["tier"], step["reason"]) for step in told["steps"] if step["step"] == 4] == [
        ("C", "unsupported_field"),
        ("A", "available"),
    ]
    bound = house.ask(more, affinity="C")
    assert refused(bound) == (400, "unsupported_field")
    assert crossed(backends) == []
