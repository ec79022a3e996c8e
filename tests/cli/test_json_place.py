"""Where a value stands in a JSON text, against a writer that knows where it put it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.cli.json_place import MOST_DIGITS, JsonFaultError, Path, line_of, parse, spots

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.sampled_from(['a"\\b', "{[,:", "\n"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4)),
    max_leaves=20,
)


class Writer:
    """Writes a value with whitespace that varies, and keeps the place of every part."""

    def __init__(self, gaps: Iterator[str]) -> None:
        self.text = ""
        self.places: dict[Path, int] = {}
        self._gaps = gaps

    def put(self, piece: str) -> None:
        self.text += piece + next(self._gaps)

    def write(self, value: Any, path: Path = ()) -> None:
        self.places[path] = len(self.text)
        if isinstance(value, list | dict):
            pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
            self.put("{" if isinstance(value, dict) else "[")
            for number, (key, inner) in enumerate(pairs):
                if number:
                    self.put(",")
                if isinstance(value, dict):
                    self.put(json.dumps(key, ensure_ascii=number % 2 == 0))
                    self.put(":")
                self.write(inner, (*path, key))
            self.put("}" if isinstance(value, dict) else "]")
        else:
            self.put(json.dumps(value))


def written(value: Any, gaps: list[str]) -> Writer:
    def forever() -> Iterator[str]:
        while True:
            yield from gaps or [""]

    writer = Writer(forever())
    writer.write(value)
    return writer


@given(VALUES, st.lists(st.sampled_from(["", " ", "\n", "\r\n\t"]), max_size=7))
def test_every_value_is_found_where_it_was_written(value: Any, gaps: list[str]) -> None:
    writer = written(value, gaps)
    assert parse(writer.text) == value
    assert {spot.path: spot.offset for spot in spots(writer.text) if not spot.is_key} == writer.places
    for path, offset in writer.places.items():
        assert line_of(writer.text, path) == writer.text[:offset].count("\n") + 1


@given(VALUES)
def test_a_value_that_is_missing_is_told_by_what_would_hold_it(value: Any) -> None:
    writer = written(value, ["\n"])
    for path in writer.places:
        assert line_of(writer.text, (*path, "no such key")) == line_of(writer.text, path)


@given(st.text())
def test_any_text_is_a_value_or_a_fault_with_its_place(text: str) -> None:
    fault = None
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(JsonFaultError) as caught:
            parse(text)
        fault = caught.value
    if fault is not None:
        assert 1 <= fault.line <= text.count("\n") + 1
        assert 1 <= fault.column <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "path"),
    [
        ('{\n "a": 1,\n "a": 2}', "repeated", 3, 2, ("a",)),
        ('[{"b": {"c": 1}},\n {"b": {"c": 1, "\\u0063": 2}}]', "repeated", 2, 17, (1, "b", "c")),
        ('[{"a": {"a": {}}, "b": [{"a": 1}, {"a": 2}]},\n{"a": 1, "a": 1}]', "repeated", 2, 10, (1, "a")),
        (f'{{"a": "{"9" * 700}",\n "b": [1, -{"9" * MOST_DIGITS}]}}', "digits", 2, 11, ("b", 1)),
        ("[1,\n 2 3]", "syntax", 2, 4, ()),
        ("", "syntax", 1, 1, ()),
        ("\n" * 3 + "[" * 100_000, "deep", 4, 102, ()),
        ('{"a":\n' * 100_000, "deep", 101, 2, ()),
    ],
)
def test_what_no_careful_reader_takes_is_refused_with_its_place(
    text: str, code: str, line: int, column: int, path: Path
) -> None:
    with pytest.raises(JsonFaultError) as caught:
        parse(text)
    fault = caught.value
    assert (fault.code, fault.line, fault.column, fault.path) == (code, line, column, path)


def test_the_longest_number_that_is_read_is_read() -> None:
    assert parse("9" * MOST_DIGITS) == int("9" * MOST_DIGITS)


def test_a_long_string_full_of_escapes_is_passed_over() -> None:
    text = json.dumps(["\n" * 1_000_000, {"x": 1}])
    assert line_of(f"\n{text}", (1, "x")) == 2
