"""Decides what a message says in English and in Spanish. Pure; the cli asks by message id."""

from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "es"]


class Words:
    """The texts of one language; `words("up.help")`."""

    def __init__(self, lang: Language) -> None:
        self.lang = lang
        self._texts = texts_of(lang)

    def __call__(self, code: str, /, **values: object) -> str:
        return self._texts[code].format(**values)

    def __contains__(self, code: str) -> bool:
        return code in self._texts


def texts_of(lang: Language) -> Mapping[str, str]:
    """The whole table of a language; only the asked one is loaded."""
    if lang == "es":
        from lumbre.cli.words.spanish import TEXTS
    else:
        from lumbre.cli.words.english import TEXTS
    return TEXTS
