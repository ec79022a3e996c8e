"""Decides what a file of JSON says, or in which line it says none. `nodes_file` and `explain` ask."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any

from lumbre.cli.json_place import JsonFaultError, Path, parse
from lumbre.cli.localised import in_spanish
from lumbre.cli.screen import printable
from lumbre.cli.words import Language, Words
from lumbre.core.errors import OperatorError
from lumbre.core.quoting import quoted

MOST_BYTES = 16 * 2**20
STDIN = "-"

_SYNTAX: Mapping[str, str] = MappingProxyType(
    {
        r"\AExpecting value\Z": "aquí tiene que ir un valor",
        r"\AExpecting property name enclosed in double quotes\Z": "aquí tiene que ir una clave entre comillas dobles",
        r"\AExpecting '(.)' delimiter\Z": r"aquí tiene que ir un «\1»",
        r"\AExtra data\Z": "sobra lo que sigue",
        r"\AUnterminated string starting at\Z": "aquí empieza un texto que no termina",
        r"\AInvalid control character at\Z": "aquí hay un carácter de control",
        r"\AInvalid \\escape.*\Z": "aquí hay una barra inversa que no vale",
        r"\AInvalid \\uXXXX escape\Z": r"aquí hay un \\uXXXX que no vale",
        r"\AIllegal trailing comma before end of (?:object|array)\Z": "sobra esta coma",
    }
)


class BadFileError(OperatorError):
    """The file cannot be read, or is not what it has to be."""

    code = "bad_file"
    exit_code = 3


@dataclass(frozen=True)
class JsonFile:
    """A file that is JSON.

    Attributes:
        shown: its name for a message.
        value: what the text says.
    """

    shown: str
    text: str
    value: Any


def read_json(name: str, words: Words, error: type[BadFileError] = BadFileError) -> JsonFile:
    """Read a file, or standard input where the name is `-`.

    Raises:
        BadFileError: of the type `error`, with the line.
    """
    shown = "stdin" if name == STDIN else printable(name)
    text = _text(name, shown, words, error)
    try:
        return JsonFile(shown, text, parse(text))
    except JsonFaultError as fault:
        raise error(_fault(fault, shown, words)) from None


def field_of(path: Path) -> str:
    """A path as messages write it."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return quoted(written.removeprefix("."))[1:-1]


def _text(name: str, shown: str, words: Words, wrong: type[BadFileError]) -> str:
    try:
        if name == STDIN:
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with FilePath(name).open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        file_name = quoted(shown if name == STDIN else name)
        raise wrong(words("file.unreadable", file=file_name, reason=reason)) from None
    if len(raw) > MOST_BYTES:
        raise wrong(words("file.too_large", file=shown, most=MOST_BYTES // 2**20))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise wrong(f"{shown}:{line}: {words('file.not_utf8')}") from None


def _fault(fault: JsonFaultError, shown: str, words: Words) -> str:
    place = f"{shown}:{fault.line}:{fault.column}: "
    match fault.code:
        case "syntax":
            return place + _syntax_text(fault.detail, words.lang)
        case "repeated":
            return place + words("file.repeated", field=field_of(fault.path), key=quoted(fault.detail))
        case "digits":
            return place + words("file.digits", field=field_of(fault.path))
        case _:
            return place + words("file.deep")


def _syntax_text(detail: str, lang: Language) -> str:
    """What is wrong with a JSON text, in the parser's words."""
    return in_spanish(detail, _SYNTAX) if lang == "es" else f"no JSON: {detail}"
