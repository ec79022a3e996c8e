"""How errors and costs of the Messages API are told in chat words."""

from typing import Any

import pytest

from lumbre.wire.anthropic.chat_words import chat_error, chat_usage, streamed_error

Json = dict[str, Any]


def test_what_is_no_count_counts_nothing() -> None:
    odd = {
        "input_tokens": -1,
        "cache_read_input_tokens": True,
        "cache_creation_input_tokens": "9",
        "output_tokens": 2.5,
    }
    details = {"cached_tokens": 0, "cache_write_tokens": 0}
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "prompt_tokens_details": details}
    assert chat_usage(odd) == chat_usage({}) == nothing


@pytest.mark.parametrize(
    ("error", "status", "blame", "code"),
    [
        ({"type": "invalid_request_error", "message": "x"}, 400, "invalid_request_error", None),
        (
            {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        ({"type": "authentication_error", "message": "x"}, 401, "invalid_request_error", "invalid_api_key"),
        ({"type": "billing_error", "message": "x"}, 402, "invalid_request_error", "insufficient_quota"),
        ({"type": "permission_error", "message": "x"}, 403, "invalid_request_error", "permission_error"),
        ({"type": "not_found_error", "message": "model: x"}, 404, "invalid_request_error", "model_not_found"),
        ({"type": "rate_limit_error", "message": "x"}, 429, "rate_limit_error", "rate_limit_exceeded"),
        ({"type": "api_error", "message": "x"}, 500, "server_error", "api_error"),
        ({"type": "overloaded_error", "message": "x"}, 529, "server_error", "overloaded_error"),
    ],
)
def test_an_error_is_told_as_the_chat_api_tells_it(error: Json, status: int, blame: str, code: str | None) -> None:
    wanted = {"message": error["message"], "type": blame, "param": None, "code": code}
    assert chat_error({"type": "error", "error": error, "request_id": "r"}, status) == {"error": wanted}
    assert streamed_error({"type": "error", "error": error}) == {"error": wanted}


@pytest.mark.parametrize("document", [{}, {"error": None}, {"error": []}, {"error": {"message": 7, "type": 7}}])
def test_an_error_of_no_known_shape_says_its_status(document: Json) -> None:
    wanted = {"message": "the upstream failed (502)", "type": "server_error", "param": None, "code": None}
    assert chat_error(document, 502) == {"error": wanted}


def test_an_error_in_plain_words_keeps_them() -> None:
    assert chat_error({"error": "b\ud800m"}, 500)["error"]["message"] == "b?m"
