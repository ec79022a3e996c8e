"""The day's money: nothing is reserved that is not there, against a model that only adds up; and a machine's hours."""

from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from lumbre.gateway.budget import ALL, Budget, Meter, TokenPrice

DAY = date(2025, 3, 1)
TIERS = ("B", "C")

amounts = st.integers(0, 60)
keys = st.sampled_from(["B:1", "B:2", "C:1", "C:2", "C:3"])
acts = st.one_of(
    st.tuples(st.just("reserve"), keys, amounts),
    st.tuples(st.just("reserve"), keys, amounts),
    st.tuples(st.just("settle"), keys, amounts),
    st.tuples(st.just("keep"), keys, amounts),
    st.tuples(st.just("day"), keys, st.integers(-1, 1)),
)
limits = st.dictionaries(st.sampled_from([*TIERS, ALL]), st.integers(0, 100))


@settings(max_examples=400)
@given(limits, st.lists(acts, max_size=40))
def test_no_reservation_ever_goes_over_a_limit(limits: dict[str, int], happened: list[tuple[str, str, int]]) -> None:
    budget = Budget(limits)
    budget.begin(DAY)
    today, spent, reserved = DAY, dict.fromkeys(TIERS, 0), dict[str, int]()

    def committed(tier: str) -> int:
        held = sum(amount for key, amount in reserved.items() if tier in (ALL, key[0]))
        return held + (sum(spent.values()) if tier == ALL else spent[tier])

    for act, key, number in happened:
        tier = key[0]
        if act == "reserve":
            after = {**reserved, key: number}
            grows = number - reserved.get(key, 0)
            fits = all(committed(each) + grows <= limits[each] for each in (tier, ALL) if each in limits)
            assert budget.reserve(key, tier, number) is (fits or grows <= 0)
            if fits or grows <= 0:
                reserved = after
            if grows > 0 and fits:
                assert all(committed(each) <= limits[each] for each in (tier, ALL) if each in limits)
        elif act == "day":
            told = today + timedelta(days=number)
            budget.begin(told)
            if told > today:  # a clock that is set back gives nothing back
                today, spent = told, dict.fromkeys(TIERS, 0)
        else:
            kept = reserved.get(key, 0) // 2 if act == "keep" else 0
            budget.settle(key, tier, number, keep=kept)
            spent[tier] += number
            reserved[key] = kept
        for each in (*TIERS, ALL):
            assert budget.spent(each) + budget.reserved(each) == committed(each)
        for each in TIERS:
            rests = [limits[name] - committed(name) for name in (each, ALL) if name in limits]
            assert budget.left(each) == (min(rests) if rests else None)
            idle = [limits[name] - committed(name) + budget.reserved(name) for name in (each, ALL) if name in limits]
            assert budget.unspent(each) == (min(idle) if idle else None)


def test_without_limits_everything_may_be_reserved_and_is_counted() -> None:
    budget = Budget({})
    assert budget.reserve("x", "C", 10**15)
    assert (budget.left("C"), budget.limit(), budget.reserved(), budget.reserved("B")) == (None, None, 10**15, 0)


def test_what_is_asked_for_again_takes_the_place_of_what_was_asked_for_before() -> None:
    budget = Budget({"B": 100})
    assert budget.reserve("node", "B", 80)
    assert budget.reserve("node", "B", 90)
    assert budget.reserved("B") == 90
    assert not budget.reserve("node", "B", 101)
    assert budget.reserved("B") == 90


def test_what_was_spent_before_a_restart_counts() -> None:
    budget = Budget({ALL: 100})
    budget.begin(DAY)
    budget.restore("B", 70)
    assert not budget.reserve("x", "C", 31)
    assert budget.reserve("x", "C", 30)


def test_a_new_day_forgets_what_was_spent_and_keeps_what_is_reserved() -> None:
    budget = Budget({"C": 100})
    budget.begin(DAY)
    budget.restore("C", 60)
    assert budget.reserve("late", "C", 40)
    budget.begin(DAY + timedelta(days=1))
    assert (budget.spent("C"), budget.left("C")) == (0, 60)
    budget.settle("late", "C", 25)
    assert (budget.spent("C"), budget.left("C")) == (25, 75)


@given(st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 10**7), st.integers(0, 10**7))
def test_tokens_are_never_priced_below_what_they_cost(prompt: int, completion: int, dear: int, dearer: int) -> None:
    price = TokenPrice(dear, dearer).of(prompt, completion)
    exact = prompt * dear + completion * dearer  # in millionths of a micro-dollar
    assert exact <= price * 1_000_000 < exact + 1_000_000


times = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8)


@given(times, st.integers(1, 10**7))
def test_a_machines_time_counts_once_however_many_share_it(spans: list[tuple[int, int]], rate: int) -> None:
    """In seconds; the oracle counts each second in which anybody runs."""
    meter = Meter(rate)
    ends = [(start, start + length) for start, length in spans]
    happened = sorted([(start, 0) for start, _ in ends] + [(end, 1) for _, end in ends])
    total = 0
    for at, what in happened:
        if what == 0:
            meter.begin(float(at))
        else:
            total += meter.end(float(at))
    assert not meter.is_running
    seconds = len({second for start, end in ends for second in range(start, end)})
    exact = rate * seconds / 3600
    assert exact - 1e-6 <= total <= exact + len(spans)


def test_what_a_machine_may_still_add_runs_down_with_its_time_and_up_with_who_joins_in() -> None:
    meter = Meter(3600)
    assert meter.rest(100.0, 20) == 0
    meter.begin(100.0)
    assert meter.rest(105.0, 20) == 15
    meter.begin(110.0)
    assert meter.end(112.0) == 12
    assert meter.rest(112.0, 20) == 18
    assert meter.rest(140.0, 20) == 0
    meter.end(113.0)
    assert meter.rest(113.0, 20) == 0


def test_a_clock_that_runs_back_costs_nothing() -> None:
    meter = Meter(3600)
    meter.begin(100.0)
    assert meter.end(90.0) == 0
    meter.begin(100.0)
    meter.begin(101.0)
    assert meter.end(104.0) == 4
    assert meter.end(103.0) == 0
