"""The list of models, page by page: a client that follows the pages sees each model once, in order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.core.errors import CallerError
from lumbre.wire.anthropic.models import Entry, one, page

ENTRIES = [Entry(f"m{n}", 1_700_000_000) for n in range(25)]


def ids(found: dict[str, Any]) -> list[str]:
    return [each["id"] for each in found["data"]]


def test_a_model_tells_what_is_known_of_it() -> None:
    assert one(Entry("tiny", 1_700_000_000, 4096)) == {
        "type": "model",
        "id": "tiny",
        "display_name": "tiny",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
        "max_input_tokens": 4096,
    }
    assert "max_input_tokens" not in one(Entry("tiny", 0))


def test_a_page_has_twenty_models_unless_told_otherwise() -> None:
    found = page(ENTRIES, {})
    assert ids(found) == [f"m{n}" for n in range(20)]
    assert (found["has_more"], found["first_id"], found["last_id"]) == (True, "m0", "m19")


def test_a_page_before_an_entry_ends_just_before_it() -> None:
    found = page(ENTRIES, {"before_id": "m5", "limit": "3"})
    assert (ids(found), found["has_more"]) == (["m2", "m3", "m4"], True)
    assert page(ENTRIES, {"before_id": "m2", "limit": "3"})["has_more"] is False


def test_a_page_of_nothing_has_no_ends() -> None:
    assert page([], {}) == {"data": [], "has_more": False, "first_id": None, "last_id": None}
    assert page(ENTRIES, {"after_id": "m24"})["data"] == []


@given(st.integers(0, 12), st.integers(1, 5), st.booleans())
def test_following_the_pages_shows_each_model_once(count: int, limit: int, backwards: bool) -> None:
    entries = ENTRIES[:count]
    whole = [*(entry.id for entry in entries)]
    seen: list[str] = []
    query = {"limit": str(limit)}
    if backwards and entries:
        query["before_id"], seen = whole[-1], whole[-1:]
    more = True
    while more:
        found = page(entries, query)
        assert len(found["data"]) <= limit
        seen = ids(found) + seen if backwards else seen + ids(found)
        more = found["has_more"]
        end = "before_id" if backwards else "after_id"
        if more:
            query[end] = found["first_id" if backwards else "last_id"]
    assert seen == whole


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": "²"}, "limit"),
        ({"limit": "9" * 9999}, "limit"),
        ({"after_id": "nobody"}, "after_id"),
        ({"before_id": "nobody"}, "before_id"),
        ({"after_id": "m1", "before_id": "m3"}, "before_id"),
    ],
)
def test_what_asks_for_no_page_is_told_by_its_parameter(query: dict[str, str], param: str) -> None:
    with pytest.raises(CallerError) as caught:
        page(ENTRIES, query)
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, "invalid_value", 400)
