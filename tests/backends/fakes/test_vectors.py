"""The rogue's vectors tell which input they are of, in either encoding."""

import base64
import json
import struct
from typing import Any

import pytest

from lumbre.backends.fakes.rogue.vectors import vector_of, write_vectors
from lumbre.backends.fakes.rogue.wish import Wish


def written(wish: Wish | None = None, **asked: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(write_vectors(wish or Wish(), json.dumps(asked).encode()))
    return whole


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("ab", [[2, 97, 0.25]]),
        (["ab", "ñ"], [[2, 97, 0.25], [1, 241, 0.25]]),
        ([7, 8], [[2, 7, 0.25]]),
        ([[7], [8, 9]], [[1, 7, 0.25], [2, 8, 0.25]]),
    ],
)
def test_every_input_has_its_own_vector(given: Any, expected: list[list[float]]) -> None:
    whole = written(input=given)
    assert [entry["embedding"] for entry in whole["data"]] == expected
    assert whole["usage"]["prompt_tokens"] == 7 * len(expected)


def test_base64_is_float32_and_a_vendor_does_not_know_it() -> None:
    (entry,) = written(input="ab", encoding_format="base64")["data"]
    assert list(struct.unpack("<3f", base64.b64decode(entry["embedding"]))) == vector_of("ab")
    (entry,) = written(Wish(vendor=True), input="ab", encoding_format="base64")["data"]
    assert entry["embedding"] == vector_of("ab")
