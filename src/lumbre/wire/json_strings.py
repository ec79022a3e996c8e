"""Changes the strings within a JSON text, and nothing else of it. Pure; whatever hides or restores the arguments of
tool calls asks it.

Arguments are JSON inside a string of JSON, and come in pieces that end anywhere. A placeholder may come in them as
`\\u003cEMAIL_1\\u003e`, since some engines write `<` so; and a value that holds a quote or a line's end must be escaped
when it takes a placeholder's place.
"""

import json
import re
from collections.abc import Callable
from typing import Protocol

from lumbre.wire.json_text import parse


class Restorer(Protocol):
    """Changes one text that comes in pieces. What it looks for is printable ASCII, without quotes and backslashes."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain by now."""
        ...

    def end(self) -> str:
        """Say that there are no more pieces; return what was held back."""
        ...


_INSIDE = re.compile(
    r'(?P<plain>[^"\\]+)'
    r"|(?P<unfinished>\\(?:u[0-9a-fA-F]{0,3})?\Z)"
    r"|\\u00(?P<code>[2-7][0-9a-fA-F])"
    r"|(?P<escape>\\(?:u[0-9a-fA-F]{4}|.))"
    r'|"',
    re.DOTALL,
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonStrings:
    """Restores one JSON text that comes in pieces; what is no JSON is restored as it stands.

    Args:
        make: makes a restorer for each string.
    """

    def __init__(self, make: Callable[[], Restorer]) -> None:
        self._make = make
        self._restorer = make()
        self._inside = False
        self._unfinished = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain by now."""
        text = self._unfinished + piece
        self._unfinished = ""
        out: list[str] = []
        at = 0
        while at < len(text):
            at = self._in_string(text, at, out) if self._inside else self._outside(text, at, out)
        return "".join(out)

    def end(self) -> str:
        """Say that there are no more pieces; return what was held back."""
        held = self._restorer.end()
        unfinished, self._unfinished = self._unfinished, ""
        return (escaped(held) if self._inside else held) + unfinished

    def _outside(self, text: str, at: int, out: list[str]) -> int:
        quote = text.find('"', at)
        end = len(text) if quote < 0 else quote
        out.append(self._restorer.feed(text[at:end]))
        if quote < 0:
            return end
        self._turn(out, '"')
        self._inside = True
        return quote + 1

    def _in_string(self, text: str, at: int, out: list[str]) -> int:
        for token in _INSIDE.finditer(text, at):
            match token.lastgroup:
                case "plain":
                    out.append(escaped(self._restorer.feed(token[0])))
                case "code":
                    out.append(escaped(self._restorer.feed(chr(int(token["code"], 16)))))
                case "escape":
                    self._turn(out, token[0])
                case "unfinished":
                    self._unfinished = token[0]
                case _:
                    self._turn(out, token[0])
                    self._inside = False
                    return token.end()
        return len(text)

    def _turn(self, out: list[str], kept: str) -> None:
        """Pass what no placeholder can have in it."""
        held = self._restorer.end()
        out += (escaped(held) if self._inside else held, kept)
        self._restorer = self._make()


_STRING_OR_NUMBER = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+')


def hidden_in_json(text: str, hide: Callable[[str], str]) -> str:
    """Hide in the strings of a JSON text, keys included, and in its numbers, of which a hidden one becomes a string.

    What stays is not written anew. A text that is no JSON is hidden as it stands.
    """
    try:
        parse(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return hide(text)
    return _STRING_OR_NUMBER.sub(lambda match: _token_hidden(match[0], hide), text)


def _token_hidden(token: str, hide: Callable[[str], str]) -> str:
    said = json.loads(token) if token[0] == '"' else token
    hidden = hide(said)
    return token if hidden == said else f'"{escaped(hidden)}"'


def escaped(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)
