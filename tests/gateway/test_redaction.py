"""What is found in a text and what is not, that it all comes back, and that no text takes long."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumbre.gateway.redaction import Finder, Redaction
from lumbre.wire.openai.hidden import hide_request

FINDER = Finder({"project": r"ACME-\d+", "badge": r"(?i)\bB-[0-9a-f]{6}\b"})
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
BASE_64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = (
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{BASE_64}\n{BASE_64}==\n-----END RSA PRIVATE KEY-----"
)

NAMES = ("type", "required", "pattern", "properties", "name", "id", "model", "content", "seed", "$ref", "data")
HOSTILE_LENGTH = 250_000
MOST_SECONDS = 2
"""Several times what the slowest takes; a search that grows with the square would take minutes."""


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, text[each.start : each.end]) for each in FINDER.find(text)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("email", "ana@example.com"),
        ("email", "ana.de-la_cruz+facturas@mail.example.co.uk"),
        ("email", "O'Brien@example.ie"),
        ("email", "JOSÉ.NUÑEZ@correo.es"),
        ("email", "x@xn--e1afmkfd.xn--p1ai"),
        ("email", "иван@пример.рф"),
        ("email", "_ana@example.com"),
        ("email", "ana%40example.com"),
        ("email", "a" * 90 + "@example.com"),
        ("phone", "+34 612 345 678"),
        ("phone", "+34612345678"),
        ("phone", "+1 (555) 234-5678"),
        ("phone", "+44 (0)20 7946 0958"),
        ("phone", "+49-30-901820"),
        ("phone", "0034 912 345 678"),
        ("phone", "(212) 555-0123"),
        ("phone", "212-555-0123"),
        ("phone", "212.555.0123"),
        ("phone", "1-800-555-0199"),
        ("phone", "555-123-4567"),
        ("phone", "(555) 123-4567"),
        ("phone", "(555)123-4567"),
        ("phone", "1 (555) 123-4567"),
        ("phone", "612345678"),
        ("phone", "912345678"),
        ("phone", "612.345.678"),
        ("phone", "612.34.56.78"),
        ("phone", "91 123 45 67"),
        ("phone", "91-123-45-67"),
        ("phone", "91 123 4567"),
        ("phone", "985 12 34 56"),
        ("phone", "612 34 56 78"),
        ("phone", "912-345-678"),
        ("phone", "020 7946 0958"),
        ("phone", "01 23 45 67 89"),
        ("phone", "030/9018200"),
        ("card", "4111111111111111"),
        ("card", "4111 1111 1111 1111"),
        ("card", "5500-0055-5555-5559"),
        ("card", "378282246310005"),
        ("card", "3782 822463 10005"),
        ("card", "3056 930902 5904"),
        ("card", "6011000990139424"),
        ("card", "4222222222222"),
        ("card", "6304 0000 0000 0000 000"),
        ("iban", "ES9121000418450200051332"),
        ("iban", "ES91 2100 0418 4502 0005 1332"),
        ("iban", "GB29 NWBK 6016 1331 9268 19"),
        ("iban", "de89 3704 0044 0532 0130 00"),
        ("iban", "NO93-8601-1117-947"),
        ("iban", "MT84MALT011000012345MTLCAST001S"),
        ("iban", "ZZ50ABCDEFGHIJKLMNO"),  # a country that is not in the list, written without spaces
        ("key", "sk-proj-4fTq8ZpLmN0aBcDeFgHiJkLmNoPqRsTuVwXyZ"),
        ("key", "sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7"),
        ("key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
        ("key", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
        ("key", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz"),
        ("key", "AKIAIOSFODNN7EXAMPLE"),
        ("key", "xoxb-123456789012-abcdefABCDEF"),
        ("key", "glpat-1a2b3c4d5e6f7g8h9i0j"),
        ("key", "AIzaSyA1234567890abcdefghijklmnopqrstuv"),
        ("key", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"),
        ("key", "lumbre-" + "Ab3_-" * 8 + "xyz"),
        ("key", JWT),
        ("key", PEM),
        ("key", PEM.replace("\n", r"\n")),
        ("key", f"-----BEGIN PRIVATE KEY-----\n{BASE_64}\n{BASE_64}"),
        ("project", "ACME-42"),
        ("badge", "b-00FFaa"),
        ("literal", "<EMAIL_1>"),
        ("literal", "<PROJECT_12>"),
    ],
)
def test_it_is_found_whatever_stands_around_it(kind: str, value: str) -> None:
    for before, after in (
        ("", ""),
        ("is ", " now"),
        ("(", ")"),
        ('"', '"'),
        ("是：", "。"),
        ("x=", ", y"),
        ("\n", ".\n"),
    ):
        assert found(before + value + after) == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "ana@localhost",
        "@ana said it",
        "npm i left-pad@1.3.0",
        "logo@2x.png",
        "a @ b.com",
        "2024-01-15 10:30:00",
        "01-02-2024 10:30",
        "01.02.2024",
        "192.168.100.200",
        "91.123.45.67",
        "612.345.678.90",
        "612345678.25",
        "0.612345678",
        "300 150 2000",
        "v1.23.456.7890",
        "3.14159265358979",
        "order 123456789",
        "550e8400-e29b-41d4-a716-446655440000",
        "1700000000000",
        "from 1990 to 2024, 1 234 567 890 in all",
        "4111 1111 1111 1112",
        "0000 0000 0000 0000",
        "41111111111111111111",
        "a4111111111111111",
        "ES91 2100 0418 4502 0005 1333",
        "ES91 2100 0418 4502 0005 13",
        "GB29 is a fine number for a house",
        "AB12 CD34 EF56 GH78 IJ90 KL12",
        "sk-learn-has-many-estimators",
        "the task-0123456789abcdef0123",
        "a bearer of authentication",
        "Bearer short1",
        "AKIAIOSFODNN7EXAMPL",
        "eyJhbGciOiJIUzI1NiJ9",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN PRIVATE KEY----- is how a key begins",
        "lumbre-example-settings",
        "ACME-x",
        "B-00FFaa0",
        "<EMAIL_0>",
        "<EMAIL_>",
        "<email_1>",
        "<PERSON_1>",
    ],
)
def test_it_is_not_found(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef.12345=", [("key", "abcdef.12345=")]),
        ("user=ana@example.com&x", [("email", "ana@example.com")]),
        ("<ana@example.com>", [("email", "ana@example.com")]),
        ("'ana@example.com'", [("email", "ana@example.com")]),
        ("https://bob:pass@example.com/x", [("email", "pass@example.com")]),
        ("12 4111 1111 1111 1111 12", [("card", "4111 1111 1111 1111")]),
        ("5678 4111 1111 1111 1111", [("card", "4111 1111 1111 1111")]),
        ("ES91 2100 0418 4502 0005 1332 and so on", [("iban", "ES91 2100 0418 4502 0005 1332")]),
        ("AB12 ES9121000418450200051332", [("iban", "ES9121000418450200051332")]),
        (
            "mail=ana%40example.com&to=%20bob%40example.com",
            [("email", "ana%40example.com"), ("email", "20bob%40example.com")],
        ),
        ("Tel.912345678 or -612345678", [("phone", "912345678"), ("phone", "612345678")]),
        ("612345678,612345679", [("phone", "612345678"), ("phone", "612345679")]),
        ("212-555-0123x45", [("phone", "212-555-0123")]),
        ("ACME-1ACME-2", [("project", "ACME-1"), ("project", "ACME-2")]),
        ("ACME-1@example.com", [("email", "ACME-1@example.com")]),  # the longer of two that overlap
        (PEM + PEM, [("key", PEM), ("key", PEM)]),
    ],
)
def test_no_more_and_no_less_is_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


def test_a_value_has_one_placeholder_wherever_it_stands() -> None:
    redaction = Redaction(FINDER)
    assert redaction.hide("ana@x.com, bob@x.com, ana@x.com") == "<EMAIL_1>, <EMAIL_2>, <EMAIL_1>"
    assert redaction.hide("ACME-7 of bob@x.com") == "<PROJECT_1> of <EMAIL_2>"
    assert redaction.counts == {"email": 2, "project": 1}


def test_a_value_is_hidden_where_it_stands_alone_as_well() -> None:
    redaction = Redaction(FINDER)
    assert redaction.hide("abcdef123 or Bearer abcdef123.") == "<KEY_1> or Bearer <KEY_1>."
    assert redaction.hide("abcdef123 abcdef1234") == "<KEY_1> abcdef1234"


def test_what_is_found_in_a_text_is_hidden_in_those_before_it() -> None:
    redaction = Redaction(FINDER)
    said = ["the token is abcdef123", "Bearer abcdef123", "of ana@x.com"]
    hidden = ["the token is <KEY_1>", "Bearer <KEY_1>", "of <EMAIL_1>"]
    assert redaction.hide_all(said) == hidden
    assert [redaction.restore(text) for text in hidden] == said
    assert redaction.hide_all([]) == []


def test_words_that_look_like_placeholders_come_back_as_they_were() -> None:
    redaction = Redaction(FINDER)
    hidden = redaction.hide("<EMAIL_1> is ana@x.com, <EMAIL_<EMAIL_2>>")
    assert hidden == "<LITERAL_1> is <EMAIL_1>, <EMAIL_<LITERAL_2>>"
    assert redaction.restore(hidden) == "<EMAIL_1> is ana@x.com, <EMAIL_<EMAIL_2>>"
    assert redaction.counts == {"email": 1}


def test_a_placeholder_that_was_never_given_out_stays() -> None:
    redaction = Redaction(FINDER)
    redaction.hide("ana@x.com")
    assert redaction.restore("<EMAIL_1> <EMAIL_2> <CARD_1>") == "ana@x.com <EMAIL_2> <CARD_1>"


@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        (["a <", "EMAIL_", "1> b"], ["a ", "", "ana@x.com b"]),
        (["1 < 2", " <b"], ["1 < 2", " <b"]),
        (["<", "b>"], ["", "<b>"]),
        (["<E", "X"], ["", "<EX"]),
        (["<EMAIL_2", ">"], ["<EMAIL_2", ">"]),  # only one was given out
        (["<EMAIL_01"], ["<EMAIL_01"]),
        (["<CARD_"], ["<CARD_"]),
        (["<EMAIL_1", "<EMAIL_1>"], ["", "<EMAIL_1ana@x.com"]),
    ],
)
def test_no_more_is_held_back_than_could_be_a_placeholder(pieces: list[str], given: list[str]) -> None:
    redaction = Redaction(FINDER)
    redaction.hide("ana@x.com")
    restoring = redaction.restoring()
    assert [restoring.feed(piece) for piece in pieces] == given
    assert restoring.end() == ""


def test_what_is_held_back_comes_at_the_end() -> None:
    redaction = Redaction(FINDER)
    redaction.hide("ana@x.com")
    restoring = redaction.restoring()
    assert (restoring.feed("see <EMAIL_1"), restoring.end(), restoring.end()) == ("see ", "<EMAIL_1", "")


values = st.sampled_from(
    [
        "ana@x.com",
        "+34 612 345 678",
        "4111 1111 1111 1111",
        "ES9121000418450200051332",
        "AKIAIOSFODNN7EXAMPLE",
        "ACME-7",
    ]
)
parts_of_marks = st.sampled_from(
    ["<", ">", "<EMAIL_", "1", "2>", "<EMAIL_1>", "<LITERAL_1>", "_", "@", "-", " ", "Bearer "]
)
texts = st.lists(values | parts_of_marks | st.text(max_size=6), max_size=14).map("".join)


@given(st.lists(texts, max_size=3))
def test_everything_that_was_hidden_comes_back(said: list[str]) -> None:
    redaction = Redaction(FINDER)
    hidden = [redaction.hide(text) for text in said]
    assert [redaction.restore(text) for text in hidden] == said


@given(texts, st.lists(st.integers(1, 9), min_size=1))
def test_it_comes_back_however_the_text_is_cut(text: str, sizes: list[int]) -> None:
    redaction = Redaction(FINDER)
    left = redaction.hide(text)
    restoring = redaction.restoring()
    given_back = ""
    while left:
        for size in sizes:
            given_back += restoring.feed(left[:size])
            left = left[size:]
    assert given_back + restoring.end() == text


@given(st.lists(values | st.text(alphabet="abc ,;()\n", max_size=5), max_size=12))
def test_nothing_of_a_hidden_value_is_left(words: list[str]) -> None:
    text = " ; ".join(words)
    redaction = Redaction(FINDER)
    left = FINDER.placeholder.sub("|", redaction.hide(text))
    assert not any(text[each.start : each.end] in left for each in FINDER.find(text))
    assert FINDER.find(left) == []


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "1", "1 ", "4444 ", "444 ", "612 345 ", "@", "a@", "a@a.", "'.%+-", "+1", "+((1", "00 1", "01 "),
        *("sk-", "-sk-a", "-eyJaaaaaaaa.", "eyJ.", "Bearer ", "Bearer.a", "ES00 ", "AA00 ", "ghp_", "xoxb-", "ACME-"),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n" + "A" * 20 + "\n", "-", "B-"),
        *("%40", "a%40", "a%40a.", "91 123 ", "612.", "(555) ", "555-"),
        *("<EMAIL_", "<EMAIL_1>", "ana@example.com, ", "words of a plain text. ", "\\", "abc123.../"),
    ],
)
def test_a_hostile_text_takes_no_time_to_speak_of(unit: str) -> None:
    text = unit * (HOSTILE_LENGTH // len(unit))
    redaction = Redaction(FINDER)
    begin = time.process_time()
    redaction.restore(redaction.hide("ana@example.com " + text))
    assert time.process_time() - begin < MOST_SECONDS


hidden_numbers = st.sampled_from([4111111111111111, 612345678, 912345678.0])
sentences = st.lists(values | st.text(alphabet="abc ,;()\n<", max_size=5), max_size=5).map(" ; ".join)
leaves = sentences | hidden_numbers | st.integers(0, 99) | st.booleans() | st.none()
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(sentences | st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)
"""Any JSON, also with names that mean something at other places."""
parts = st.fixed_dictionaries(
    {}, optional={"text": anything, "image_url": anything, "file": st.fixed_dictionaries({"filename": anything})}
)
turns = st.fixed_dictionaries(
    {"role": st.just("user")},
    optional={"content": sentences | st.lists(parts, max_size=2), "refusal": anything, "annotations": anything},
)
schemas = st.fixed_dictionaries({}, optional=dict.fromkeys(("default", "const", "x-of", "enum"), anything))
bodies = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(turns, max_size=3)},
    optional={
        "tools": schemas.map(lambda schema: [{"function": {"name": "t", "parameters": {"properties": {"x": schema}}}}]),
        "metadata": anything,
        "user": sentences,
        "stop": anything,
        "documents": anything,
        "guided_json": anything,
    },
)


def words_of(value: Any) -> Iterator[str]:
    """Every string and every key of a JSON value, and its numbers as they are written."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += [*each, *each.values()]
        elif isinstance(each, list):
            left += each
        elif each is not None and not isinstance(each, bool):
            yield each if isinstance(each, str) else json.dumps(each)


def with_words(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {change(key): with_words(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [with_words(each, change) for each in value]
    if value is None or isinstance(value, bool):
        return value
    return change(value if isinstance(value, str) else json.dumps(value))


@given(bodies)
def test_nothing_of_any_request_is_left_and_all_of_it_comes_back(body: dict[str, Any]) -> None:
    redaction = Redaction(FINDER)
    hidden = hide_request(body, redaction.hide_all)
    left = [FINDER.placeholder.sub("|", word) for word in words_of(hidden)]
    said = {word[each.start : each.end] for word in words_of(body) for each in FINDER.find(word)}
    assert not any(value in word for value in said for word in left)
    assert [word for word in left if FINDER.find(word)] == []
    assert with_words(hidden, redaction.restore) == with_words(body, str)
