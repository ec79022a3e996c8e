"""The headers of an error reply, in each API's voice."""

import pytest

from lumbre.api.voices import ANTHROPIC, OPENAI, RESPONSES, Voice
from lumbre.core.errors import CallerError, LumbreError


@pytest.mark.parametrize("voice", [OPENAI, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize(("status", "told"), [(401, "false"), (403, None), (429, None), (503, None)])
def test_a_client_is_told_not_to_come_again_with_a_wrong_key(voice: Voice, status: int, told: str | None) -> None:
    assert dict(voice.headers(LumbreError("x", status=status), None)).get("x-should-retry") == told


def test_an_error_brings_its_own_headers_and_when_to_come_again() -> None:
    error = CallerError("x", status=429, headers={"allow": "GET"}, retry_after_s=7)
    assert dict(OPENAI.headers(error, None)) == {"content-type": "application/json", "allow": "GET", "retry-after": "7"}
