"""On which line each key of a TOML text stands."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from lumbre.runtime.toml_lines import key_lines

TRICKY = '''\
# [not.a.table]
top = 1
"quoted key" = 2
[a]
text = """
[b]
x = 1
"""
list = [
  "]", # ]
  'c = 1',
]
dotted.name = 1
inline = { one = 1, two = { three = 3 } }
[[a.rows]]
id = "first"
[a.rows.inner]
deep = 1
[[a.rows]]

id = "second"
[[a.rows.more]]
x = 1
[[a.rows.more]]
x = 2
'''


def test_every_key_of_a_tricky_text_is_found_on_its_line() -> None:
    assert key_lines(TRICKY) == {
        ("top",): 2,
        ("quoted key",): 3,
        ("a",): 4,
        ("a", "text"): 5,
        ("a", "list"): 9,
        ("a", "dotted"): 13,
        ("a", "dotted", "name"): 13,
        ("a", "inline"): 14,
        ("a", "inline", "one"): 14,
        ("a", "inline", "two"): 14,
        ("a", "inline", "two", "three"): 14,
        ("a", "rows", 0): 15,
        ("a", "rows", 0, "id"): 16,
        ("a", "rows", 0, "inner"): 17,
        ("a", "rows", 0, "inner", "deep"): 18,
        ("a", "rows", 1): 19,
        ("a", "rows", 1, "id"): 21,
        ("a", "rows", 1, "more", 0): 22,
        ("a", "rows", 1, "more", 0, "x"): 23,
        ("a", "rows", 1, "more", 1): 24,
        ("a", "rows", 1, "more", 1, "x"): 25,
    }


def test_windows_line_ends_count_as_one() -> None:
    assert key_lines("[a]\r\n\r\nx = 1\r\n") == {("a",): 1, ("a", "x"): 3}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["1", '"a\\nb"', '"""\n\n"""', "[\n1,\n]"])), max_size=8))
def test_the_line_of_a_key_begins_with_the_key(entries: list[tuple[int, str]]) -> None:
    text = "".join("\n" * blank + f"key{number} = {value}\n" for number, (blank, value) in enumerate(entries))
    found = key_lines(text)
    lines = text.split("\n")
    assert {key for (key,) in found} == tomllib.loads(text).keys()
    for (key,), number in found.items():
        assert lines[number - 1].startswith(f"{key} = ")
