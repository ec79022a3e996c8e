"""The line before the slots, as properties over random comings and goings, and as told cases."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from lumbre.gateway.admission import Admission, Admitted, Queued, Refused

UPSTREAMS = {"a": 2, "b": 3}

arrival = st.tuples(st.just("arrive"), st.integers(1, 4), st.sets(st.sampled_from(["a", "b"]), min_size=1))
departure = st.tuples(st.just("leave"), st.integers(0, 40), st.just(frozenset[str]()))
resizing = st.tuples(st.just("resize"), st.integers(0, 4), st.sets(st.sampled_from(["a", "b"]), min_size=1, max_size=1))
happenings = st.lists(st.one_of(arrival, arrival, departure, resizing), max_size=60)


@settings(max_examples=300)
@given(happenings, st.integers(0, 5))
def test_slots_are_never_overfilled_and_nobody_is_lost(
    events: list[tuple[str, int, set[str]]], max_waiting: int
) -> None:
    admission = Admission(max_waiting)
    slots = dict.fromkeys(UPSTREAMS, 0)
    running: dict[str, tuple[str, int]] = {}
    line: list[str] = []
    weights: dict[str, dict[str, int]] = {}
    came = 0
    for what, number, names in events:
        started: list[Admitted] = []
        if what == "arrive":
            came += 1
            request = f"r{came}"
            candidates = {name: UPSTREAMS[name] for name in names}
            weights[request] = {name: min(number, full) for name, full in candidates.items()}
            answer = admission.arrive(request, number, candidates)
            if isinstance(answer, Admitted):
                line.append(request)
                started = [answer]
            elif isinstance(answer, Queued):
                assert len(line) < max_waiting
                line.append(request)
            else:
                assert isinstance(answer, Refused)
                assert len(line) >= max_waiting
        elif what == "leave":
            request = f"r{number}"
            line = [each for each in line if each != request]
            running.pop(request, None)
            started = admission.leave(request)
        else:
            (name,) = names
            slots[name] = number
            started = admission.resize(name, number)
        for each in started:
            assert each.request in line
            line.remove(each.request)
            running[each.request] = (each.upstream, weights[each.request][each.upstream])
        assert admission.waiting == len(line)
        for name in UPSTREAMS:
            held = sum(weight for upstream, weight in running.values() if upstream == name)
            assert admission.held(name) == held
            assert admission.in_flight(name) == sum(1 for upstream, _ in running.values() if upstream == name)
            if any(each.upstream == name for each in started):
                assert held <= slots[name]
        if line:
            assert all(admission.held(name) + weight > slots[name] for name, weight in weights[line[0]].items())
    for request in [*running, *line]:
        admission.leave(request)
    assert admission.waiting == 0
    assert all(admission.held(name) == 0 for name in UPSTREAMS)


@given(st.lists(st.integers(1, 2), min_size=1, max_size=30))
def test_on_one_upstream_the_first_to_come_is_the_first_to_start(weights: list[int]) -> None:
    admission = Admission(100)
    order: list[str] = []
    for number, weight in enumerate(weights):
        admission.arrive(f"r{number}", weight, {"a": 2})
    order += [each.request for each in admission.resize("a", 2)]
    done = 0
    while done < len(order):
        order += [each.request for each in admission.leave(order[done])]
        done += 1
    assert order == [f"r{number}" for number in range(len(weights))]


def test_a_request_that_wants_two_slots_is_not_starved_by_those_that_want_one() -> None:
    admission = Admission(10)
    admission.resize("a", 2)
    admission.arrive("one", 1, {"a": 2})
    assert isinstance(admission.arrive("two", 2, {"a": 2}), Queued)
    assert isinstance(admission.arrive("small", 1, {"a": 2}), Queued)
    assert admission.leave("one") == [Admitted("two", "a")]
    assert admission.leave("two") == [Admitted("small", "a")]


def test_waiting_for_one_upstream_holds_up_nobody_who_can_use_another() -> None:
    admission = Admission(10)
    admission.resize("a", 1)
    admission.resize("b", 1)
    admission.arrive("x", 1, {"a": 1})
    assert isinstance(admission.arrive("y", 1, {"a": 1}), Queued)
    assert admission.arrive("z", 1, {"a": 1, "b": 1}) == Admitted("z", "b")
    assert (admission.waiting_for("a"), admission.waiting_for("b")) == (1, 0)


def test_the_least_busy_upstream_is_taken() -> None:
    admission = Admission(10)
    admission.resize("a", 4)
    admission.resize("b", 4)
    taken = [admission.arrive(f"r{number}", 1, {"a": 4, "b": 4}) for number in range(4)]
    assert [each.upstream for each in taken if isinstance(each, Admitted)] == ["a", "b", "a", "b"]


def test_upstreams_that_are_equally_free_take_turns() -> None:
    admission = Admission(10)
    for name in ("a", "b", "c"):
        admission.resize(name, 1)
    taken = []
    for number in range(6):
        answer = admission.arrive(f"r{number}", 1, {"a": 1, "b": 1, "c": 1})
        assert isinstance(answer, Admitted)
        taken.append(answer.upstream)
        admission.leave(f"r{number}")
    assert taken == ["a", "b", "c", "a", "b", "c"]


def test_leaving_twice_or_without_having_come_changes_nothing() -> None:
    admission = Admission(10)
    admission.resize("a", 1)
    admission.arrive("x", 1, {"a": 1})
    admission.arrive("y", 1, {"a": 1})
    assert admission.leave("stranger") == []
    assert admission.leave("x") == [Admitted("y", "a")]
    assert admission.leave("x") == []
    assert admission.held("a") == 1


def test_without_room_to_wait_whoever_cannot_start_is_turned_away() -> None:
    admission = Admission(0)
    admission.resize("a", 1)
    assert admission.arrive("x", 1, {"a": 1}) == Admitted("x", "a")
    assert admission.arrive("y", 1, {"a": 1}) == Refused("y")
    assert admission.waiting == 0


def test_a_request_wider_than_an_upstream_that_is_up_does_not_wait_for_a_wider_one_that_is_down() -> None:
    admission = Admission(10)
    admission.resize("small", 2)
    admission.resize("wide", 0)
    assert admission.arrive("x", 3, {"small": 2, "wide": 64}) == Admitted("x", "small")
    assert isinstance(admission.arrive("y", 1, {"small": 2}), Queued)
    assert admission.leave("x") == [Admitted("y", "small")]


def test_a_request_wider_than_every_upstream_gets_all_of_one() -> None:
    admission = Admission(10)
    admission.resize("a", 2)
    assert admission.arrive("x", 99, {"a": 2}) == Admitted("x", "a")
    assert admission.held("a") == 2


class Naive:
    """The same line as lists, with everything counted anew each time it is asked for."""

    def __init__(self, max_waiting: int) -> None:
        self.max_waiting = max_waiting
        self.slots: dict[str, int] = {}
        self.trials: set[str] = set()
        self.doubtful: set[str] = set()
        self.tries: dict[str, str] = {}
        self.running: list[tuple[str, str, int]] = []
        self.line: list[tuple[str, dict[str, int]]] = []
        self.turns: list[str] = []

    def taken(self, upstream: str) -> int:
        return sum(weight for _, name, weight in self.running if name == upstream)

    def last_turn(self, upstream: str) -> int:
        return max((at for at, name in enumerate(self.turns) if name == upstream), default=-1)

    def choice(self, weights: dict[str, int], kept: set[str]) -> str | None:
        free = [
            name
            for name, weight in weights.items()
            if name not in kept
            and self.taken(name) + weight <= self.slots.get(name, 0)
            and not (name in self.trials and name in self.tries)
        ]
        order = [
            (name not in self.trials, name in self.doubtful, self.taken(name), self.last_turn(name), name)
            for name in free
        ]
        return min(order)[4] if order else None

    def settle(self) -> list[tuple[str, str]]:
        started, kept = [], set[str]()
        for request, weights in list(self.line):
            upstream = self.choice(weights, kept)
            if upstream is None:
                kept |= weights.keys()
                continue
            self.line.remove((request, weights))
            self.running.append((request, upstream, weights[upstream]))
            self.turns.append(upstream)
            if upstream in self.trials:
                self.tries[upstream] = request
            started.append((request, upstream))
        return started

    def arrive(self, request: str, weight: int, upstreams: dict[str, int]) -> tuple[str, str] | str:
        self.line.append((request, {name: min(weight, full) for name, full in upstreams.items()}))
        for started in self.settle():
            if started[0] == request:
                return started
        if len(self.line) > self.max_waiting:
            self.line.pop()
            return "refused"
        return "queued"

    def leave(self, request: str) -> list[tuple[str, str]]:
        self.running = [each for each in self.running if each[0] != request]
        self.line = [each for each in self.line if each[0] != request]
        self.tries = {name: who for name, who in self.tries.items() if who != request}
        return self.settle()

    def resize(self, upstream: str, slots: int, trial: bool, doubtful: bool) -> list[tuple[str, str]]:
        self.slots[upstream] = slots
        for names, holds in ((self.trials, trial), (self.doubtful, doubtful)):
            (names.add if holds else names.discard)(upstream)
        if not trial:
            self.tries.pop(upstream, None)
        return self.settle()


class AgainstTheNaiveLine(RuleBasedStateMachine):
    """Whatever comes, in whatever order: trials, doubts, departures twice, strangers."""

    requests = Bundle("requests")

    @initialize(max_waiting=st.integers(0, 5))
    def begin(self, max_waiting: int) -> None:
        self.real, self.naive = Admission(max_waiting), Naive(max_waiting)
        self.came = 0

    @rule(target=requests, weight=st.integers(1, 4), among=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1))
    def arrive(self, weight: int, among: set[str]) -> str:
        self.came += 1
        request, upstreams = f"r{self.came}", {name: FULL[name] for name in sorted(among)}
        answer = self.real.arrive(request, weight, upstreams)
        expected = self.naive.arrive(request, weight, upstreams)
        told = (answer.request, answer.upstream) if isinstance(answer, Admitted) else type(answer).__name__.lower()
        assert told == expected
        return request

    @rule(request=requests)
    def leave(self, request: str) -> None:
        assert as_pairs(self.real.leave(request)) == self.naive.leave(request)

    @rule(
        upstream=st.sampled_from(["a", "b", "c"]),
        up=st.booleans(),
        trial=st.booleans(),
        doubtful=st.booleans(),
    )
    def resize(self, upstream: str, up: bool, trial: bool, doubtful: bool) -> None:
        slots = FULL[upstream] if up else 0
        started = self.real.resize(upstream, slots, trial=trial, doubtful=doubtful)
        assert as_pairs(started) == self.naive.resize(upstream, slots, trial, doubtful)

    @invariant()
    def they_count_alike(self) -> None:
        if not hasattr(self, "real"):
            return
        assert self.real.waiting == len(self.naive.line)
        assert self.real.has_trials == bool(self.naive.trials)
        for name in FULL:
            assert self.real.held(name) == self.naive.taken(name)
            assert self.real.in_flight(name) == sum(1 for _, upstream, _ in self.naive.running if upstream == name)
            assert self.real.waiting_for(name) == sum(1 for _, weights in self.naive.line if name in weights)
            assert self.real.on_trial(name) == (name in self.naive.trials and name in self.naive.tries)
            for request, _, _ in self.naive.running:
                tries = name in self.naive.trials and self.naive.tries.get(name) == request
                assert self.real.tries(name, request) == tries


FULL = {"a": 1, "b": 2, "c": 3}


def as_pairs(started: list[Admitted]) -> list[tuple[str, str]]:
    return [(each.request, each.upstream) for each in started]


TestAgainstTheNaiveLine = AgainstTheNaiveLine.TestCase
TestAgainstTheNaiveLine.settings = settings(max_examples=150, stateful_step_count=40)


def on_trial(slots: int = 4) -> Admission:
    admission = Admission(10)
    admission.resize("a", slots, trial=True, doubtful=True)
    return admission


def test_on_trial_one_request_runs_however_many_slots_there_are() -> None:
    admission = on_trial()
    assert admission.arrive("first", 1, {"a": 4}) == Admitted("first", "a")
    for number in range(9):
        assert isinstance(admission.arrive(f"r{number}", 1, {"a": 4}), Queued)
    assert admission.tries("a", "first")
    assert admission.in_flight("a") == 1


def test_the_trial_is_the_next_ones_when_it_has_been_left() -> None:
    admission = on_trial()
    admission.arrive("first", 1, {"a": 4})
    admission.arrive("second", 1, {"a": 4})
    admission.arrive("third", 1, {"a": 4})
    assert admission.leave("first") == [Admitted("second", "a")]
    assert not admission.tries("a", "first")
    assert admission.tries("a", "second")
    assert admission.leave("second") == [Admitted("third", "a")]


def test_one_who_leaves_and_did_not_try_gives_no_trial_back() -> None:
    admission = Admission(10)
    admission.resize("a", 4)
    admission.arrive("before", 1, {"a": 4})
    admission.resize("a", 4, trial=True, doubtful=True)
    admission.arrive("tries", 1, {"a": 4})
    assert admission.leave("before") == []
    assert isinstance(admission.arrive("late", 1, {"a": 4}), Queued)
    assert admission.tries("a", "tries")


def test_all_who_wait_may_start_when_the_trial_went_well() -> None:
    admission = on_trial(slots=3)
    for request in ("first", "second", "third"):
        admission.arrive(request, 1, {"a": 3})
    assert admission.resize("a", 3) == [Admitted("second", "a"), Admitted("third", "a")]
    assert not admission.has_trials


def test_one_that_failed_last_comes_after_one_that_is_well_however_busy_that_is() -> None:
    admission = Admission(10)
    admission.resize("a", 4, doubtful=True)
    admission.resize("b", 3)
    among = {"a": 4, "b": 3}
    taken = [admission.arrive(f"r{number}", 1, among) for number in range(4)]
    assert [each.upstream for each in taken if isinstance(each, Admitted)] == ["b", "b", "b", "a"]


def test_a_trial_comes_before_a_neighbour_who_is_well() -> None:
    admission = Admission(10)
    admission.resize("a", 4)
    admission.resize("b", 4, trial=True)
    both = {"a": 4, "b": 4}
    assert admission.arrive("tries", 1, both) == Admitted("tries", "b")
    assert [admission.arrive(f"r{number}", 1, both) for number in range(3)] == [
        Admitted(f"r{number}", "a") for number in range(3)
    ]


def test_who_has_just_failed_comes_after_a_neighbour_who_is_busier() -> None:
    admission = Admission(10)
    admission.resize("a", 4)
    admission.resize("b", 4, doubtful=True)
    both = {"a": 4, "b": 4}
    taken = [admission.arrive(f"r{number}", 1, both) for number in range(5)]
    assert [each.upstream for each in taken if isinstance(each, Admitted)] == ["a"] * 4 + ["b"]
