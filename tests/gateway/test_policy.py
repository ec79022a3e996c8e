"""The routing policies: which label each sends work to, how long a drain holds, and how one is asked for."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.core.errors import CallerError
from lumbre.gateway.policy import DRAINS, LONGEST_DRAIN, POLICIES, Policy, PolicyName, chosen, duration, label_for

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("policy", "complexity", "klass", "label"),
    [
        # balanced: complejidad baja y media → Nivel A; alta → Nivel B.
        ("balanced", "low", "interactive", None),
        ("balanced", "medium", "background", None),
        ("balanced", "high", "interactive", "express"),
        ("balanced", "high", "background", "batch"),
        # drain-batch: todo el trabajo no-express va al nodo batch.
        ("drain-batch", "low", "interactive", "batch"),
        ("drain-batch", "high", "background", "batch"),
        # drain-express: todo el trabajo va al nodo express
        ("drain-express", "low", "background", "express"),
        ("drain-express", "high", "interactive", "express"),
        # local-only: todo el trabajo va al Nivel A independientemente de la complejidad.
        ("local-only", "high", "interactive", None),
        ("local-only", "high", "background", None),
    ],
)
def test_a_policy_sends_work_where_the_text_says(
    policy: PolicyName, complexity: str, klass: str, label: str | None
) -> None:
    assert label_for(policy, complexity, klass) == label


def test_a_drain_holds_until_its_moment_and_not_in_it() -> None:
    drain = Policy("drain-express", NOON)
    assert drain.at(NOON - timedelta(microseconds=1), "local-only") is drain
    assert drain.at(NOON, "local-only") == Policy("local-only")
    assert drain.at(NOON + timedelta(days=400), "local-only") == Policy("local-only")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_without_a_time_stays(policy: PolicyName) -> None:
    asked = chosen(policy, None, NOON)
    assert asked == Policy(policy)
    assert asked.at(NOON + timedelta(days=4000), "balanced") is asked


@pytest.mark.parametrize("drain", DRAINS)
@pytest.mark.parametrize(("said", "seconds"), [("1s", 1), ("90s", 90), ("30m", 1800), ("2h", 7200), ("30d", 2592000)])
def test_a_drain_lasts_as_long_as_it_was_asked_for(drain: str, said: str, seconds: int) -> None:
    assert chosen(drain, said, NOON) == Policy(drain, NOON + timedelta(seconds=seconds))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["Balanced", "drain", "", " balanced", None, 1, ["balanced"], {"balanced": 1}])
def test_a_policy_that_there_is_not_is_refused_with_those_there_are(name: object) -> None:
    with pytest.raises(CallerError, match=r"^policy: ") as caught:
        chosen(name, None, NOON)
    error = caught.value
    assert (error.status, error.param, error.code, error.valid) == (400, "policy", "unknown_policy", POLICIES)


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy not in DRAINS])
def test_only_a_drain_takes_a_time(policy: str) -> None:
    with pytest.raises(CallerError, match=f"^for: only drain-batch and drain-express .*{policy}") as caught:
        chosen(policy, "2h", NOON)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, "for", "invalid_duration")


@pytest.mark.parametrize(
    "said",
    [
        *("", "h", "2", "2 h", "-2h", "+2h", "1.5h", "2H", "2w", "0s", "0d", "31d", "721h", "99999999999s", "²h"),
        *("1h30m", 2, 2.5, True, ["2h"], {"h": 2}),
    ],
)
def test_what_is_no_length_of_time_is_refused_by_its_field(said: object) -> None:
    with pytest.raises(CallerError, match=r"^for: ") as caught:
        chosen("drain-batch", said, NOON)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, "for", "invalid_duration")


@given(
    st.one_of(st.text(), st.integers(0, 10**12).map(str).flatmap(lambda n: st.sampled_from([n + u for u in "smhd"])))
)
def test_every_text_is_a_length_between_a_second_and_a_month_or_a_mistake(said: str) -> None:
    length = length_of(said)
    assert length is None or timedelta(seconds=1) <= length <= LONGEST_DRAIN


def length_of(said: str) -> timedelta | None:
    try:
        return duration(said)
    except CallerError:
        return None
