"""Which of an operator's patterns are taken, and that those take no time with a hostile text."""

import re
import time

import pytest

from lumbre.gateway.own_patterns import MOST_STEPS, compiled
from lumbre.gateway.redaction import Finder

HOSTILE_LENGTH = 250_000
MOST_SECONDS = 2
"""Several times what the slowest takes; a search that grows with the square would take minutes."""


@pytest.mark.parametrize(
    ("pattern", "hostile"),
    [
        (r"[0-9]{1,60}X12", "1"),
        (r"(?:\d{1,3}\.){3}\d{1,3}", "1."),
        (r"(?:..|...){1,5}!", "a"),
        (r".{1,100}+XYZ", "a"),
        (r"(?:ab|a|b){2}[a-z]{0,4}!", "ab"),
        (r"\w{3}[a-z ]*", "a "),
        (r"(?i)acme-\d{2}(?:-\d+)?", "ACME-11-"),
    ],
)
def test_an_accepted_pattern_is_quick_with_a_hostile_text(pattern: str, hostile: str) -> None:
    search = compiled(pattern)
    text = hostile * (HOSTILE_LENGTH // len(hostile))
    begin = time.process_time()
    assert sum(1 for _ in search.finditer(text)) >= 0
    assert time.process_time() - begin < MOST_SECONDS


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a+)+b", "something after it"),
        (r"\d+-X", "something after it"),
        (r"ACME-\d+\b", "something after it"),
        (r"(?:abc*)d", "something after it"),
        (r"(?:abc+)+", "something after it"),
        (r"a{3,}b", "something after it"),
        (r"a{,}bcd", "something after it"),
        (r"[a-z]{1,64}@[a-z]{1,64}", f"more than {MOST_STEPS} steps"),
        (r"(?:a|b|ab){1,30}ccc", f"more than {MOST_STEPS} steps"),
        (r"(?:a{0,9}){0,9}bcd", f"more than {MOST_STEPS} steps"),
        (r"\d{1000}", f"more than {MOST_STEPS} steps"),
        ("(?=abc)abc", "not taken"),
        ("(?<!a)bcd", "not taken"),
        (r"(abc)\1", "not taken"),
        ("(?P<x>abc)", "not taken"),
        ("a*", "fewer than 3"),
        ("abc|d", "fewer than 3"),
        (r"\b\d{2}\b", "fewer than 3"),
        ("", "fewer than 3"),
        ("[a-z", "no regular expression"),
        ("a" * 300, "more than 256 characters"),
        ("(" * 120 + "abc" + ")" * 120, ""),
    ],
)
def test_a_pattern_without_a_bound_is_turned_down_by_its_name(pattern: str, why: str) -> None:
    if not why:
        assert Finder({"deep": pattern}).find("xabc")
        return
    with pytest.raises(ValueError, match=rf"the pattern 'mine' .*{re.escape(why)}"):
        Finder({"mine": pattern})


@pytest.mark.parametrize(
    "pattern",
    [
        r"ACME-\d+",
        r"\bACME-\d{1,9}\b",
        r"[A-Z]{2,5}-\d{1,6}",
        r"[a-z]{1,64}+@[a-z]{1,64}+\.local",
        r"(?:\d{4}[ -]){3}\d{4}",
        r"[]\]x-]{3}|[^]]{4}",
        r"(?i)projekt (?:adler|falke)",
        r"a{b}c\{\}|x{}y",
        r"ñandú\s?\d{3,}",
        r"(?>abcd|abc)+",
    ],
)
def test_what_people_write_is_accepted(pattern: str) -> None:
    assert Finder({"mine": pattern}).kinds[-1] == "mine"


@pytest.mark.parametrize("name", ["", "Project", "email", "literal", "a-b", "1st", "x" * 25, "né"])
def test_a_name_that_makes_no_placeholder_is_turned_down(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(name))):
        Finder({name: "ACME"})
