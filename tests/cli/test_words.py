"""Both languages say the same things."""

import ast
import re
from pathlib import Path
from string import Formatter

import lumbre.cli
from lumbre.cli.words import texts_of
from lumbre.runtime import complaints

CLI = Path(lumbre.cli.__file__).parent


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_message_is_there_in_both_languages_with_the_same_placeholders() -> None:
    english, spanish = texts_of("en"), texts_of("es")
    assert english.keys() == spanish.keys()
    assert {code: placeholders(text) for code, text in english.items()} == {
        code: placeholders(text) for code, text in spanish.items()
    }


def test_every_complaint_is_there_in_both_languages_with_the_same_placeholders() -> None:
    english, spanish = complaints.TEXTS["en"], complaints.TEXTS["es"]
    assert {code: placeholders(text) for code, text in english.items()} == {
        code: placeholders(text) for code, text in spanish.items()
    }


def test_no_text_was_left_untranslated() -> None:
    same = {code for code, text in texts_of("en").items() if text == texts_of("es")[code]}
    assert same <= {"doctor.python", "doctor.platform", "doctor.gpu", "models.absent"}


def test_every_message_that_a_command_names_exists() -> None:
    known = texts_of("en")
    named = {
        node.value
        for path in CLI.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    prefixes = "|".join({code.partition(".")[0] for code in known})
    like_codes = {word for word in named if re.fullmatch(rf"({prefixes})\.[a-z_.]*[a-z]", word)}
    assert len(like_codes) > 50
    assert like_codes <= known.keys()
