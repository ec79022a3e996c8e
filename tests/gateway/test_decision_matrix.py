"""The decision over whole products of requests and houses beside a second reading, and what holds of every decision."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from gateway.outcomes import Outcome, decided
from gateway.second_reading import read
from lumbre.core.errors import CallerError
from lumbre.gateway.aliases import Asked
from lumbre.gateway.decision import decide
from lumbre.gateway.facts import AVAILABLE, Facts, Node, NodeState, Question
from lumbre.gateway.hints import VALUES, Hints
from lumbre.gateway.policy import POLICIES
from lumbre.gateway.switches import RESERVED

TOO_LONG = CallerError("the context of this model is too short", code="context_length_exceeded")
LABELS = ("batch", "express")
READY, STOPPED, DOWN, TRIPPED = NodeState.READY, NodeState.STOPPED, NodeState.DOWN, NodeState.TRIPPED

DOORS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("auto", {}),
    *(("auto", {"tier": tier}) for tier in "ABC"),
    *(("auto", {"label": label}) for label in LABELS),
    *((model, {}) for model in ("tier-b", "tier-c", "ma", "mb", "mc", "mu", "mx")),
)
"""The ways to ask for a place, or for none."""


def requests() -> list[Question]:
    """Every way to ask, in every complexity, class and strictness, and with every affinity that tells them apart."""
    affinities = {True: (None, "A", "B", "C"), False: (None, "B")}
    return [
        Question(model, Hints(**door, complexity=complexity, klass=klass, affinity=affinity), strict)
        for (model, door), complexity, klass, strict in product(
            DOORS, (None, "high"), (None, "background"), (False, True)
        )
        for affinity in affinities[(model, door) == ("auto", {})]
    ]


def house(
    a: NodeState = READY,
    batch: NodeState | None = READY,
    express: NodeState | None = READY,
    c: NodeState | None = READY,
) -> Facts:
    """One node a place, None for no node."""
    burst = (("b1", "batch", batch), ("e1", "express", express))
    return Facts(
        a=(Node("a", a, models=("ma", "mu")),),
        b=tuple(Node(id_, state, None, (label,), ("mb", "mu")) for id_, label, state in burst if state),
        c=(Node("c", c, models=("mc", "mu")),) if c else (),
        c_has_key=True,
    )


def agree(question: Question, facts: Facts) -> Outcome:
    """What both readings say."""
    meant, said = read(question, facts), decided(question, facts)
    assert meant == said, (question, facts)
    return meant


def compared(questions: list[Question], houses: list[Facts]) -> Counter[str]:
    """How often each outcome came; every request was put to every house, and both readings agreed."""
    came: Counter[str] = Counter()
    for facts in houses:
        for question in questions:
            outcome = agree(question, facts)
            came[outcome.code or outcome.kind] += 1
    return came


def test_every_request_beside_every_switch() -> None:
    switches = sorted({*RESERVED, "b1", "e1"})
    some = [frozenset(names) for size in (0, 1, 2) for names in combinations(switches, size)]
    modes = product(POLICIES, some, VALUES["closed"], (False, True))
    houses = [
        replace(house(), policy=policy, closed=closed, on_closed=mode, holds_work=holds, c_direct=frozenset({"mc"}))
        for policy, closed, mode, holds in modes
    ]
    came = compared(requests(), houses)
    assert came.total() > 190_000
    often = ("dispatch", "wait", "switch_closed", "affinity_conflict", "strict_json_needs_b", "model_not_found")
    assert min(came[each] for each in often) > 2_000, came


def test_every_request_beside_every_state_of_the_tiers() -> None:
    states = product((READY, DOWN), (None, READY, STOPPED, TRIPPED), (None, READY, STOPPED, DOWN), (None, READY, DOWN))
    houses = [
        replace(house(*each), policy=policy, c_direct=direct, a_does_strict_json=able)
        for each, policy, direct, able in product(states, POLICIES, (frozenset(), frozenset("*")), (False, True))
    ]
    came = compared(requests(), houses)
    assert came.total() > 300_000
    often = ("dispatch", "start", "no_tier", "tier_c_not_designated", "affinity_conflict", "strict_json_needs_b")
    assert min(came[each] for each in often) > 5_000, came


def test_every_request_beside_what_its_tiers_lack_and_what_is_spent() -> None:
    lacking = [frozenset(names) for size in range(4) for names in combinations(("a", "e1", "c"), size)]
    spent = [frozenset(names) for names in ("", "B", "C", "BC")]
    questions = [
        replace(question, lacks=dict.fromkeys(lacks, TOO_LONG), hints=replace(question.hints, external=external))
        for question, lacks, external in product(requests(), lacking, (None, "never"))
    ]
    houses = [
        replace(house(batch=STOPPED, express=express), c_has_key=has_key, over_budget=over, c_direct=frozenset("*"))
        for over, has_key, express in product(spent, (False, True), (None, READY))
    ]
    came = compared(questions, houses)
    assert came.total() > 50_000
    assert min(came[each] for each in ("dispatch", "over_budget", "no_tier", "context_length_exceeded")) > 500, came


SOME_STATE = st.sampled_from((READY, READY, *NodeState))
OUTSIDE_B = st.sampled_from((READY, READY, NodeState.STARTING, DOWN, TRIPPED, NodeState.COOLING))
A_NODES = st.lists(OUTSIDE_B, min_size=1, max_size=2)
B_NODES = st.lists(
    st.tuples(SOME_STATE, st.sampled_from((("batch",), ("express",), LABELS)), st.booleans()), max_size=3
)
SWITCHES = st.frozensets(st.sampled_from(sorted({*RESERVED, "b0", "b1", "b2"})), max_size=4)
MODELS = st.sampled_from(
    ("auto", "auto", "auto", "tier-a", "tier-b", "tier-b/batch", "tier-c", "ma", "mb", "mc", "mu", "mx")
)


@st.composite
def houses(draw: st.DrawFn) -> Facts:
    """Any house: up to two nodes of A and three of B, which may have both labels and serve `mu` or not."""
    burst = enumerate(draw(B_NODES))
    return Facts(
        a=tuple(Node(f"a{at}", state, models=("ma", "mu")) for at, state in enumerate(draw(A_NODES))),
        b=tuple(Node(f"b{at}", each[0], None, each[1], ("mb", "mu") if each[2] else ("mb",)) for at, each in burst),
        c=tuple(Node("c", state, models=("mc", "mu")) for state in draw(st.lists(OUTSIDE_B, max_size=1))),
        a_does_strict_json=draw(st.booleans()),
        policy=draw(st.sampled_from(POLICIES)),
        closed=draw(SWITCHES),
        on_closed=draw(st.sampled_from(VALUES["closed"])),
        c_has_key=draw(st.booleans()),
        c_direct=draw(st.frozensets(st.sampled_from(("mc", "tier-c", "sha256:k", "*")), max_size=2)),
        over_budget=draw(st.frozensets(st.sampled_from("BC"))),
        holds_work=draw(st.booleans()),
    )


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Any request that does not contradict itself about its tier, with a table of models at times."""
    said = {name: draw(st.sampled_from((None, None, *values))) for name, values in VALUES.items()}
    model = draw(MODELS)
    if model.startswith("tier-"):
        said |= {"tier": None, "label": None}
    if said["label"]:
        said["tier"] = None
    table = draw(st.sampled_from(({}, {}, {"A": "ma", "B": "auto"}, {"A": "mu", "C": "mc"}, {"B": "mu"})))
    return Question(
        "alias" if table else model,
        Hints(klass=said.pop("class"), **said),
        draw(st.booleans()),
        Asked("alias", "alias", table, "ali*") if table else None,
        draw(st.sampled_from(("", "sha256:k"))),
        dict.fromkeys(draw(st.frozensets(st.sampled_from(("a0", "b0", "b1", "c")), max_size=2)), TOO_LONG),
    )


@given(questions(), houses())
def test_any_request_beside_any_house(question: Question, facts: Facts) -> None:
    agree(question, facts)


def covers(place: tuple[str, str | None], node: Node) -> Iterator[str]:
    """The switches that stop a node for a place."""
    tier, label = place
    yield tier
    if tier != "A":
        yield "global"
    if label:
        yield label
        yield node.id
        yield from () if label in node.labels else node.labels


@given(questions(), houses())
def test_nothing_is_sent_past_a_closed_switch_or_to_a_node_that_cannot(question: Question, facts: Facts) -> None:
    for attempt in decide(question, facts).attempts:
        nodes = {node.id: node for node in facts.nodes(attempt.tier)}
        states = {nodes[id_].state for id_ in attempt.nodes}
        assert attempt.starts == (attempt.tier == "B" and READY not in states)
        assert attempt.tier == "A" or states == {READY} or READY not in states
        for node in (nodes[id_] for id_ in attempt.nodes):
            assert facts.closed.isdisjoint(covers((attempt.tier, attempt.label), node))
            assert node.state in AVAILABLE
            assert node.id not in question.lacks
            assert attempt.model is None or attempt.model in node.models
        assert attempt.tier not in facts.over_budget


@given(questions(), houses())
def test_a_bound_request_has_no_second_tier(question: Question, facts: Facts) -> None:
    decision = decide(question, facts)
    if decision.bound is not None:
        assert {attempt.tier for attempt in decision.attempts} <= {decision.bound}
    if affinity := question.hints.affinity:
        assert {attempt.tier for attempt in decision.attempts} <= {affinity}
    if question.strict_json and not facts.a_does_strict_json:
        assert "A" not in {attempt.tier for attempt in decision.attempts}
        assert len({attempt.tier for attempt in decision.attempts}) <= 1


@given(questions(), houses())
def test_nothing_goes_outside_without_a_key_or_against_the_callers_word(question: Question, facts: Facts) -> None:
    if not facts.c_has_key or question.hints.external == "never":
        assert "C" not in {attempt.tier for attempt in decide(question, facts).attempts}


@given(questions(), houses(), st.sampled_from((None, "A", "B")))
def test_under_local_only_unlabelled_work_never_leaves_a(
    question: Question, facts: Facts, affinity: str | None
) -> None:
    question.model, question.asked = "auto", None
    question.hints = replace(question.hints, tier=None, label=None, affinity=affinity)
    decision = decide(question, replace(facts, policy="local-only"))
    assert {attempt.tier for attempt in decision.attempts} <= {"A"}


@given(questions(), houses())
def test_a_decision_tells_its_steps_and_is_the_same_each_time(question: Question, facts: Facts) -> None:
    decision = decide(question, facts)
    again = decide(question, facts)
    assert (decision.outcome, decision.attempts, decision.steps) == (again.outcome, again.attempts, again.steps)
    numbers = [step.step for step in decision.steps]
    assert numbers == sorted(numbers)
    assert set(numbers) <= {1, 2, 3, 4}
    taken = [step.tier for step in decision.steps if (step.step, step.verdict) == (4, "take")]
    assert taken == [attempt.tier for attempt in decision.attempts]
    assert bool(taken) == (decision.outcome in ("dispatch", "start"))
    assert (decision.refusal is not None) == (decision.outcome == "reject")
    assert all(step.text and step.reason for step in decision.steps)


@given(questions(), houses())
def test_a_request_that_is_refused_has_a_step_that_says_so(question: Question, facts: Facts) -> None:
    decision = decide(question, facts)
    assert (decision.outcome == "reject") == any(step.verdict == "refuse" for step in decision.steps)


def test_the_order_in_which_nodes_are_listed_changes_no_answer() -> None:
    facts = replace(house(DOWN, None, READY), closed=frozenset({"e1"}), c_has_key=False)
    nodes = (*facts.b, replace(facts.b[0], id="e2", state=DOWN))
    asked = Question("tier-b", Hints())
    assert decided(asked, replace(facts, b=nodes)) == decided(asked, replace(facts, b=nodes[::-1]))


def test_a_running_node_is_asked_before_one_is_started() -> None:
    facts = house(express=STOPPED)
    nodes = (*facts.b, replace(facts.b[1], id="e2", state=READY))
    attempt = decide(Question("tier-b", Hints()), replace(facts, b=nodes)).attempts[0]
    assert (attempt.nodes, attempt.starts) == (("e2",), False)
