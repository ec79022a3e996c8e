"""What a failed attempt means, row by row: who moves on, who counts against its node, who is left alone for a while."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lumbre.core.errors import (
    BrokenPromise,
    CallerError,
    CapacityError,
    ConnectExpired,
    DeadlineError,
    LumbreError,
    NoConnection,
    OperatorError,
    SwitchClosed,
    UpstreamCut,
    UpstreamError,
)
from lumbre.gateway.decision import Attempt
from lumbre.gateway.moving_on import LONGEST_REST_S, Failure, UpstreamRefusal, judge, next_attempt, retry_after

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)

STAYS = Failure(moves_on=False, counts=False)
NODE_FAILED = Failure(moves_on=True, counts=True)
NOBODYS_FAULT = Failure(moves_on=True, counts=False)


def refusal(status: int, after_s: int | None = None) -> UpstreamRefusal:
    return UpstreamRefusal("no", status=status, retry_after_s=after_s)


@pytest.mark.parametrize(
    ("error", "means"),
    [
        # Connection errors, 429, 5xx and time-outs move on
        (NoConnection("refused"), NODE_FAILED),
        (UpstreamCut("cut"), NODE_FAILED),
        (UpstreamError("nonsense"), NODE_FAILED),
        (ConnectExpired("connect", 1, "late"), NODE_FAILED),
        (DeadlineError("header", 1, "late"), NODE_FAILED),
        (DeadlineError("first_token", 1, "late"), NODE_FAILED),
        (DeadlineError("idle", 1, "late"), NODE_FAILED),
        *((refusal(status), NODE_FAILED) for status in (408, 500, 502, 503, 504, 529)),
        # `Retry-After` is honoured; a node that is busy is not broken
        (refusal(503, 20), Failure(moves_on=True, counts=True, rest_s=20)),
        (refusal(429, 7), Failure(moves_on=True, counts=False, rest_s=7)),
        (refusal(429), NOBODYS_FAULT),
        # the time of the whole request is over, wherever it was spent
        (DeadlineError("total", 1, "late"), STAYS),
        # the caller's own 4xx never moves on and never counts
        *((CallerError("yours", status=status), STAYS) for status in (400, 401, 404, 413, 422)),
        (UpstreamError("yours", status=400), STAYS),
        # the next engine would be asked for nothing else
        (BrokenPromise("no schema"), STAYS),
        # no place, a switch, no money: another tier may have one
        (CapacityError("down"), NOBODYS_FAULT),
        (CapacityError("full", status=429, code="saturated"), NOBODYS_FAULT),
        (CapacityError("spent", status=429, code="over_budget"), NOBODYS_FAULT),
        (SwitchClosed("closed", switch="B"), NOBODYS_FAULT),
        # the gateway is going
        (CapacityError("going", code="draining"), STAYS),
        (OperatorError("yours"), STAYS),
        (LumbreError("ours"), STAYS),
    ],
    ids=lambda value: f"{type(value).__name__}-{value.status}-{value.code}" if isinstance(value, LumbreError) else None,
)
def test_a_failure_means_what_the_row_says(error: LumbreError, means: Failure) -> None:
    assert judge(error) == means


A = Attempt("A", None, ("a1", "a2"), None)
B = Attempt("B", "express", ("b1",), None)
COLD = Attempt("B", "batch", ("b2",), None, starts=True)
C = Attempt("C", None, ("c",), None)


@pytest.mark.parametrize(
    ("attempts", "tried", "full", "expected"),
    [
        ([A, B, C], [], None, A),
        ([A, B, C], ["a1"], None, A),
        ([A, B, C], ["a1", "a2"], None, B),
        ([A, B, C], ["a1", "a2", "b1"], None, C),
        ([A, B, C], ["a1", "a2", "b1", "c"], None, None),
        ([], [], None, None),
        # a machine that has to be started is nobody to ask now
        ([COLD, A], [], None, A),
        ([COLD], [], None, None),
        # A saturated: then a B that runs, else 429; it does not leave the house
        ([A, B, C], ["a1", "a2"], "A", B),
        ([A, COLD, C], ["a1", "a2"], "A", None),
        ([A, C], ["a1", "a2"], "A", None),
        ([B, A, C], ["b1"], "B", A),
        ([B, C], ["b1"], "B", None),
        ([C, A], ["c"], "C", None),
    ],
)
def test_the_next_to_be_asked(
    attempts: list[Attempt], tried: list[str], full: str | None, expected: Attempt | None
) -> None:
    assert next_attempt(attempts, tried, full) is expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5),
        (" 5\t", 5),
        ("0", 1),
        ("86400", LONGEST_REST_S),
        ("999999999", LONGEST_REST_S),
        (format_datetime(NOON + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOON - timedelta(days=1), usegmt=True), 1),
        (format_datetime(NOON + timedelta(days=400), usegmt=True), LONGEST_REST_S),
        ("Sat, 01 Mar 2025 12:01:00 -0000", 60),
        ("Sat, 01 Mar 2025 14:01:00 +0200", 60),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("9" * 5000, None),
    ],
)
def test_retry_after_says_seconds_or_a_moment(value: str, seconds: int | None) -> None:
    assert retry_after(value, NOON) == seconds


DATES = st.builds(
    "Sat, {:02} {} {} {:02}:00:00 {}".format,
    st.integers(0, 40),
    st.sampled_from(["Mar", "Foo"]),
    st.integers(0, 10**6),
    st.integers(0, 30),
    st.from_regex(r"\A[+-][0-9]{4,30}\Z") | st.sampled_from(["GMT", "", "-0000", "EST"]),
)


@given(DATES | st.text() | st.integers().map(str))
@example("Sat, 01 Mar 2025 12:00:00 -3000000000000")
def test_no_header_that_an_upstream_may_send_is_more_than_a_day_or_a_fault(value: str) -> None:
    seconds = retry_after(value, NOON)
    assert seconds is None or 1 <= seconds <= LONGEST_REST_S
