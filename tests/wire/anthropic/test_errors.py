"""How each error looks to a client of Anthropic's API."""

import orjson
import pytest

from lumbre.core.errors import CallerError, DeadlineError, LumbreError
from lumbre.wire.anthropic.errors import engine_error_event, error_body, error_event


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_each_status_has_its_word(status: int, kind: str) -> None:
    assert orjson.loads(error_body(LumbreError("x", status=status), None))["error"]["type"] == kind


def test_a_prompt_that_is_too_long_is_told_in_the_words_by_which_clients_know_it() -> None:
    error = CallerError("messages has 9 tokens", code="context_length_exceeded", param="messages")
    assert orjson.loads(error_body(error, None))["error"]["message"] == "prompt is too long: messages has 9 tokens"


def test_an_error_tells_all_that_the_gateway_knows() -> None:
    error = CallerError("no such tier", code="unknown_tier", param="lumbre.tier", valid=["A", "B"])
    assert orjson.loads(error_body(error, "d-1")) == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "no such tier",
            "lumbre": {
                "code": "unknown_tier",
                "decision": "d-1",
                "switch": None,
                "valid": ["A", "B"],
                "param": "lumbre.tier",
            },
        },
        "request_id": "d-1",
    }


def test_a_conversation_that_cannot_be_kept_is_refused_by_the_code_that_the_sdk_knows() -> None:
    error = CallerError("no threads", code="unsupported_field", param="thread")
    assert orjson.loads(error_body(error, "d"))["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_inside_a_stream_it_is_an_event_of_its_own_name() -> None:
    error = DeadlineError("idle", 60, "silence")
    assert error_event(error, "d") == b"event: error\ndata: " + error_body(error, "d") + b"\n\n"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"message": "out of memory"}, "out of memory"),
        ("out of memory", "out of memory"),
        ({"message": 5}, "the engine failed"),
        ({"message": "a\ud800"}, "a?"),
        (True, "the engine failed"),
    ],
)
def test_an_engines_error_is_told_again(error: object, message: str) -> None:
    head, data = engine_error_event(error).split(b"\ndata: ")
    assert (head, data[-2:]) == (b"event: error", b"\n\n")
    assert orjson.loads(data) == {"type": "error", "error": {"type": "api_error", "message": message}}
