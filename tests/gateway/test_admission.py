"""The line before the slots, as properties over random comings and goings, and as told cases."""

from hypothesis import given, settings
from hypothesis import strategies as st

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
