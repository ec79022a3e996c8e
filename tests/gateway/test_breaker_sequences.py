"""The breaker under any sequence, against a witness that keeps what was seen and counts anew each time."""

import operator
from collections import Counter
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from lumbre.gateway.breaker import CLOSED, HALF_OPEN, OPEN, Breaker, BreakerLimits, Seen, step


class Witness:
    """What a breaker must be, told from everything that was seen since it last closed."""

    def __init__(self, limits: BreakerLimits) -> None:
        self.limits = limits
        self.state = CLOSED
        self.trips = 0
        self.quiet_since = 0.0
        self.requests: list[bool] = []
        self.probes: list[bool] = []

    @property
    def failures(self) -> int:
        return len(list(takewhile(operator.not_, reversed(self.requests))))

    @property
    def silences(self) -> int:
        return len(list(takewhile(operator.not_, reversed(self.probes))))

    def watch(self, seen: Seen, now: float, until: float) -> None:
        """`until` is what the breaker says itself; a look at its length tests that."""
        if seen is Seen.RESTARTED or (self.state is HALF_OPEN and seen is Seen.SUCCEEDED):
            self.state, self.quiet_since, self.requests, self.probes = CLOSED, now, [], []
            return
        silences = self.silences
        if seen in (Seen.PROBED_WELL, Seen.PROBE_FAILED):
            self.probes.append(seen is Seen.PROBED_WELL)
        elif seen is not Seen.TIME_PASSED and self.state is not OPEN:
            self.requests.append(seen is Seen.SUCCEEDED)
        bad = seen in (Seen.PROBE_FAILED, Seen.FAILED)
        if self.state is OPEN:
            answered = seen is Seen.PROBED_WELL and silences >= self.limits.failures
            if answered or (seen is Seen.TIME_PASSED and now >= until):
                self.state = HALF_OPEN
            return
        if self.state is CLOSED:
            # A success is the one thing that does not look at the clock: it happens with every request.
            if now - self.quiet_since >= self.limits.calm_s and seen is not Seen.SUCCEEDED:
                self.trips = 0
            self.quiet_since = now if bad else self.quiet_since
        if bad and (self.state is HALF_OPEN or max(self.failures, self.silences) >= self.limits.failures):
            self.state = OPEN
            self.trips += 1

    def longest_s(self) -> float:
        nominal_s = self.limits.open_s
        for _ in range(self.trips - 1):
            nominal_s += nominal_s
        return min(nominal_s, self.limits.most_open_s)


limits_drawn = st.builds(
    BreakerLimits,
    failures=st.integers(1, 4),
    open_s=st.integers(1, 20),
    most_open_s=st.integers(1, 100),
    jitter=st.floats(0, 1),
    calm_s=st.integers(1, 100),
)
happenings_drawn = st.lists(
    st.tuples(st.sampled_from(Seen), st.sampled_from([0, 0, 1, 10, 100]), st.floats(0, 1)), max_size=80
)


@given(limits_drawn, happenings_drawn)
def test_whatever_happens_it_is_what_the_witness_says(
    limits: BreakerLimits, happenings: list[tuple[Seen, int, float]]
) -> None:
    breaker, witness, now = Breaker(), Witness(limits), 0
    for seen, passed_s, dice in happenings:
        now += passed_s
        before = breaker
        witness.watch(seen, now, before.until)
        breaker = step(before, seen, now=now, dice=dice, limits=limits, reason=f"{seen} at {now}")
        assert breaker.state is witness.state
        assert (breaker.failures, breaker.probe_failures) == (witness.failures, witness.silences)
        assert breaker.trips == witness.trips
        if breaker.trips > before.trips or (breaker.state is OPEN and before.state is not OPEN):
            longest_s = witness.longest_s()
            assert (1 - limits.jitter) * longest_s <= breaker.until - now + 1e-9
            assert breaker.until - now <= longest_s + 1e-9
            assert breaker.reason == f"{seen} at {now}"
        if before.state is OPEN and breaker.state is CLOSED:
            assert seen is Seen.RESTARTED
        if breaker.is_clean:
            assert breaker.reason is None
            assert step(breaker, Seen.SUCCEEDED, now=now, dice=dice, limits=limits) is breaker
        if breaker == before and seen is not Seen.RESTARTED:
            assert breaker is before


@given(limits_drawn, st.lists(st.sampled_from(Seen), max_size=40), st.floats(0, 1))
def test_from_anywhere_it_closes_once_the_upstream_is_well(
    limits: BreakerLimits, happenings: list[Seen], dice: float
) -> None:
    breaker = Breaker()
    for now, seen in enumerate(happenings):
        breaker = step(breaker, seen, now=now, dice=dice, limits=limits)
    later = len(happenings) + limits.most_open_s
    for seen in (Seen.TIME_PASSED, Seen.PROBED_WELL, Seen.SUCCEEDED):
        breaker = step(breaker, seen, now=later, dice=dice, limits=limits)
    assert breaker.is_clean


@given(limits_drawn, st.lists(st.sampled_from([Seen.PROBE_FAILED, Seen.FAILED]), max_size=6))
def test_one_failure_of_a_kind_less_than_it_takes_never_opens_it(limits: BreakerLimits, failures: list[Seen]) -> None:
    breaker = Breaker()
    for seen in failures:
        breaker = step(breaker, seen, now=0, dice=0, limits=limits)
        if breaker.state is OPEN:
            break
    counts = Counter(failures)
    assert (breaker.state is OPEN) == (max(counts.values(), default=0) >= limits.failures)
