"""Hides what is nobody's business outside the house, and puts it back into what returns. Pure; the passage to an
outside API drives it, with one `Redaction` for each request.

A hidden value becomes a placeholder such as `<EMAIL_1>`, the same one wherever it stands. A text that has such words of
its own keeps them: they are hidden too, as literals, so every placeholder on the way out is one of ours.
"""

import re
from collections.abc import Mapping, Sequence

from lumbre.gateway.sensitive import LITERAL, Finder, Found

__all__ = ["Finder", "Redaction", "Restoring"]

_WORD = re.compile(r"[\w+/](?:[\w~+/@%.-]*\w)?=*")
"""A hidden value is hidden again where it is a word by itself, such as a bearer's token without `Bearer` before it."""


class Redaction:
    """Remembers what one request has hidden.

    Args:
        finder: what to look for; made once, of the settings.
    """

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._placeholders: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many different values of each kind are hidden; kinds with none are left out."""
        return {kind: count for kind, count in self._counts.items() if kind != LITERAL}

    def hide(self, text: str) -> str:
        """Put placeholders where something is found, and where a value stands that was hidden before."""
        return self.hide_all((text,))[0]

    def hide_all(self, texts: Sequence[str]) -> list[str]:
        """The same for texts that leave together: what is found in one is hidden in those before it too."""
        found = [self._finder.find(text) for text in texts]
        for text, places in zip(texts, found, strict=True):
            for each in places:
                self._remember(text[each.start : each.end], each.kind)
        return [self._hidden(text, places) for text, places in zip(texts, found, strict=True)]

    def restore(self, text: str) -> str:
        """Put the values back. A placeholder that was never given out stays as it is."""
        if not self._values:
            return text
        return self._finder.placeholder.sub(lambda match: self._values.get(match[0], match[0]), text)

    def restoring(self) -> "Restoring":
        """Restore a text that comes in pieces; one for each text."""
        return Restoring(self)

    def could_become(self, tail: str) -> bool:
        """Whether a text that begins like this could go on to be a placeholder that was given out."""
        for kind, count in self._counts.items():
            head = f"<{kind.upper()}_"
            if head.startswith(tail):
                return True
            number = tail.removeprefix(head)
            if number != tail and _is_number(number) and int(number) <= count:
                return True
        return False

    def _remember(self, value: str, kind: str) -> None:
        if value not in self._placeholders:
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            placeholder = f"<{kind.upper()}_{count}>"
            self._placeholders[value] = placeholder
            self._values[placeholder] = value

    def _hidden(self, text: str, found: Sequence[Found]) -> str:
        if not self._placeholders:
            return text
        pieces: list[str] = []
        at = 0
        for each in found:
            pieces += (self._known_words_hidden(text[at : each.start]), self._placeholders[text[each.start : each.end]])
            at = each.end
        return "".join((*pieces, self._known_words_hidden(text[at:])))

    def _known_words_hidden(self, text: str) -> str:
        return _WORD.sub(lambda match: self._placeholders.get(match[0], match[0]), text)


class Restoring:
    """Restores one text that comes in pieces. It holds back no more than what could still become a placeholder."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain by now."""
        text = self._held + piece
        at = text.rfind("<")  # a placeholder has but one
        if at >= 0 and self._redaction.could_become(text[at:]):
            self._held = text[at:]
            return self._redaction.restore(text[:at])
        self._held = ""
        return self._redaction.restore(text)

    def end(self) -> str:
        """Say that there are no more pieces; return what was held back."""
        held, self._held = self._held, ""
        return held


def _is_number(text: str) -> bool:
    return len(text) <= 9 and text.isascii() and text.isdigit() and text[0] != "0"
