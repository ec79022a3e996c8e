"""What is due when, told as transcripts with a clock of one's own."""

import pytest

from lumbre.core.errors import DeadlineError
from lumbre.gateway.deadlines import Countdown, Deadlines, expired

LIMITS = Deadlines(connect_s=1, header_s=20, first_token_s=30, idle_s=5, total_s=100, keepalive_s=10)


def code(error: DeadlineError | None) -> str | None:
    return None if error is None else error.code


def test_before_the_first_token_keepalives_come_and_then_its_deadline() -> None:
    countdown = Countdown(LIMITS, 1000, keepalive=True)
    assert countdown.next_at() == 1010
    assert countdown.due(1010) is None
    countdown.sent(1010)
    assert countdown.next_at() == 1020
    countdown.sent(1025)
    assert countdown.next_at() == 1030
    assert code(countdown.due(1030)) == "deadline_first_token"


def test_a_role_or_a_report_is_no_token() -> None:
    countdown = Countdown(LIMITS, 0, keepalive=False)
    countdown.said(29, token=False)
    assert code(countdown.due(30)) == "deadline_first_token"


def test_after_the_first_token_every_event_puts_off_the_idle_deadline() -> None:
    countdown = Countdown(LIMITS, 0, keepalive=False)
    countdown.said(28, token=True)
    assert countdown.next_at() == 33
    countdown.said(32, token=False)
    assert countdown.due(36) is None
    assert code(countdown.due(37)) == "deadline_idle"


def test_a_drip_that_never_ends_meets_the_total_deadline() -> None:
    countdown = Countdown(LIMITS, 0, keepalive=True)
    for now in range(0, 100, 4):
        countdown.said(now, token=True)
        countdown.sent(now)
        assert countdown.due(now) is None
    assert code(countdown.due(100)) == "deadline_total"


@pytest.mark.parametrize("name", ["connect", "header", "first_token", "idle", "total"])
def test_each_deadline_has_its_own_code_and_names_its_setting(name: str) -> None:
    error = expired(name, LIMITS)
    assert (error.status, error.code) == (504, f"deadline_{name}")
    assert f"{name}_s" in error.message
