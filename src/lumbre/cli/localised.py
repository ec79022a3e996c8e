"""Decides how help pages and usage errors read in Spanish. Pure; `main` builds its commands from this."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import typer
from typer.core import TyperCommand, TyperGroup

# The command-line library speaks English only; these phrases of its pages are too short to be wrapped.
_PAGE: Mapping[str, str] = MappingProxyType(
    {
        r"^Usage: ": "Uso: ",
        r"^Options:$": "Opciones:",
        r"^Commands:$": "Órdenes:",
        r"^Arguments:$": "Argumentos:",
        r"\[OPTIONS\]": "[OPCIONES]",
        r"COMMAND \[ARGS\]\.\.\.": "ORDEN [ARGUMENTOS]...",
        r"Show this message and exit\.": "Muestra esta ayuda y termina.",
        r"\[default: ": "[por defecto: ",
        r"\[required\]": "[obligatorio]",
    }
)

_ERRORS: Mapping[str, str] = MappingProxyType(
    {
        r"No such option: (\S+)": r"no existe la opción \1",
        r"\(Possible options: (.+)\)": r"(quizá: \1)",
        r"No such command '(.+?)'\.": r"no existe la orden «\1».",
        r"Did you mean (.+)\?": r"¿Querías decir \1?",
        r"Missing command\.": "falta la orden.",
        r"Missing argument '(.+?)'\.": r"falta el argumento «\1».",
        r"Missing option '(.+?)'\.": r"falta la opción «\1».",
        r"Option '(.+?)' requires an argument\.": r"la opción «\1» pide un valor.",
        r"Option '(.+?)' does not take a value\.": r"la opción «\1» no admite valor.",
        r"Got unexpected extra argument(?:s|\(s\))? \((.+)\)": r"sobran argumentos: \1",
        r"Invalid value for '(.+?)': ": r"valor no válido para «\1»: ",
        r"Invalid value: ": "valor no válido: ",
        r"Input should be a valid integer.*": "tiene que ser un número entero",
        r"Input should be a valid number.*": "tiene que ser un número",
        r"Input should be greater than or equal to (\S+)": r"tiene que ser al menos \1",
        r"Input should be less than or equal to (\S+)": r"tiene que ser como mucho \1",
        r"'?(\S+?)'? is not a valid integer(?: range)?\.?": r"«\1» no es un número entero",
    }
)


class SpanishCommand(TyperCommand):
    """A command whose help page is Spanish."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return in_spanish(super().get_help(ctx), _PAGE)

    def get_usage(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return in_spanish(super().get_usage(ctx), _PAGE)


class SpanishGroup(TyperGroup):
    """A group of commands whose help page is Spanish."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return in_spanish(super().get_help(ctx), _PAGE)

    def get_usage(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return in_spanish(super().get_usage(ctx), _PAGE)


def usage_message(error: typer.TyperException, lang: str) -> str:
    """What is wrong with a command line, with the command's usage before it."""
    message = error.format_message()
    if lang == "es":
        message = in_spanish(message, _ERRORS)
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    hint = {"en": "Try '{path} --help'.", "es": "Prueba «{path} --help»."}[lang]
    return f"{message}\n{context.get_usage()}\n{hint.format(path=context.command_path)}"


def in_spanish(text: str, table: Mapping[str, str]) -> str:
    """A text with every known English phrase replaced; what is not known stays."""
    for english, spanish in table.items():
        text = re.sub(english, spanish, text, flags=re.MULTILINE)
    return text
