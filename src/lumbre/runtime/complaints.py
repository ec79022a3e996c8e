"""Decides how a wrong setting is told: what was found and what is right. Pure; `runtime.draft` asks."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

NOT_YET = frozenset({"memory", "mesh", "queue"})
"""Sections that the documents speak of and this version does not have."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A key that TOML takes without quotes."""

_KINDS = {
    "int_type": "whole",
    "int_parsing": "whole",
    "int_from_float": "whole",
    "float_type": "number",
    "float_parsing": "number",
    "bool_type": "boolean",
    "bool_parsing": "boolean",
    "string_type": "text",
    "path_type": "text",
    "tuple_type": "list",
    "list_type": "list",
    "model_type": "section",
    "model_attributes_type": "section",
    "dict_type": "section",
    "literal_error": "one_of",
    "greater_than_equal": "at_least",
    "less_than_equal": "at_most",
    "greater_than": "more_than",
    "less_than": "less_than",
    "string_pattern_mismatch": "pattern",
    "string_too_short": "not_empty",
    "alias_target": "alias",
    "alias_tier_name": "alias_tier_name",
    "alias_tier": "alias_tier",
    "alias_model": "alias_model",
    "url_type": "url",
    "url_parsing": "url",
    "url_scheme": "url",
    "url_syntax_violation": "url",
}

TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "whole": "found {found}, but it must be a whole number",
        "number": "found {found}, but it must be a number",
        "boolean": "found {found}, but it must be true or false",
        "text": "found {found}, but it must be text in quotes",
        "list": 'found {found}, but it must be a list, such as ["a", "b"]',
        "section": "found {found}, but it must be a section with keys of its own",
        "one_of": "found {found}, but it must be one of {expected}",
        "at_least": "found {found}, but it must be at least {ge}",
        "at_most": "found {found}, but it must be at most {le}",
        "more_than": "found {found}, but it must be more than {gt}",
        "less_than": "found {found}, but it must be less than {lt}",
        "pattern": "found {found}, but it must match {pattern}",
        "url": 'found {found}, but it must be an address such as "http://127.0.0.1:8000/v1"',
        "not_empty": "found {found}, but it must not be empty",
        "alias": 'found {found}, but it must be a model, "auto", a tier, or a table such as {{ A = "a-model" }}',
        "alias_tier_name": "found {found}, but there is no such tier; there are {names}",
        "alias_tier": "there is no such tier; there are {tiers}",
        "alias_model": 'found {found}, but it must be the name of a model, or "auto"',
        "missing": "is missing",
        "empty": "is empty; say a folder or leave it out",
        "other": "found {found}: {reason}",
        "unknown": "there is no such setting",
        "unknown_variable": "there is no such variable",
        "not_yet": "this version does not have [{section}] yet; take it out",
        "meant": "{text}; did you mean {candidate}?",
        "known": "{text}; known here: {names}",
        "several": "{count} settings are wrong:",
        "syntax": "{file}:{line}:{column}: not valid TOML: {reason}",
        "syntax_end": "{file}:{line}: not valid TOML: {reason}",
        "no_file": "{source}: there is no settings file {file}",
        "no_read": "{file}: cannot be read: {reason}",
        "no_utf8": "{file}:{line}: not UTF-8 text: byte {byte:#04x}",
        "no_secret": "the variable {name} holds no key; set it in the environment of Lumbre",
        "bad_secret": "the key in the variable {name} must be one line of printable ASCII; set it again",
    },
    "es": {
        "whole": "hay {found}, pero tiene que ser un número entero",
        "number": "hay {found}, pero tiene que ser un número",
        "boolean": "hay {found}, pero tiene que ser true o false",
        "text": "hay {found}, pero tiene que ser un texto entre comillas",
        "list": 'hay {found}, pero tiene que ser una lista, como ["a", "b"]',
        "section": "hay {found}, pero tiene que ser una sección con sus propias claves",
        "one_of": "hay {found}, pero tiene que ser uno de {expected}",
        "at_least": "hay {found}, pero tiene que ser al menos {ge}",
        "at_most": "hay {found}, pero tiene que ser como mucho {le}",
        "more_than": "hay {found}, pero tiene que ser mayor que {gt}",
        "less_than": "hay {found}, pero tiene que ser menor que {lt}",
        "pattern": "hay {found}, pero tiene que cumplir {pattern}",
        "url": 'hay {found}, pero tiene que ser una dirección como "http://127.0.0.1:8000/v1"',
        "not_empty": "hay {found}, pero no puede estar vacío",
        "alias": 'hay {found}, pero tiene que ser un modelo, "auto", un nivel o una tabla como {{ A = "un-modelo" }}',
        "alias_tier_name": "hay {found}, pero no existe ese nivel; existen {names}",
        "alias_tier": "no existe ese nivel; existen {tiers}",
        "alias_model": 'hay {found}, pero tiene que ser el nombre de un modelo, o "auto"',
        "missing": "falta",
        "empty": "está vacío; di una carpeta o quítalo",
        "other": "hay {found}: {reason}",
        "unknown": "no existe ese ajuste",
        "unknown_variable": "no existe esa variable",
        "not_yet": "esta versión aún no tiene [{section}]; quítalo",
        "meant": "{text}; ¿querías decir {candidate}?",
        "known": "{text}; aquí se conocen: {names}",
        "several": "hay {count} ajustes mal:",
        "syntax": "{file}:{line}:{column}: no es TOML válido: {reason}",
        "syntax_end": "{file}:{line}: no es TOML válido: {reason}",
        "no_file": "{source}: no existe el archivo de ajustes {file}",
        "no_read": "{file}: no se puede leer: {reason}",
        "no_utf8": "{file}:{line}: no es texto UTF-8: byte {byte:#04x}",
        "no_secret": "la variable {name} no tiene ninguna clave; ponla en el entorno de Lumbre",
        "bad_secret": "la clave de la variable {name} tiene que ser una línea de ASCII imprimible; ponla otra vez",
    },
}


def say(lang: str, code: str, **values: object) -> str:
    """One text in one language."""
    return TEXTS[lang][code].format(**values)


def judged(lang: str, error: Mapping[str, Any]) -> str:
    """What is wrong with one value, from one entry of pydantic's `errors()`."""
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind == "missing":
        return say(lang, "missing")
    if kind == "value_error":
        return str(context["error"])
    found = shown(error["input"])
    code = _KINDS.get(kind)
    if code is None:
        return say(lang, "other", found=found, reason=error["msg"])
    # pydantic joins alternatives with its own English word
    said = {name: str(value).replace(" or ", " o ") if lang == "es" else value for name, value in context.items()}
    return say(lang, code, found=found, **said)


def unknown(lang: str, code: str, name: str, known: Iterable[str], elsewhere: str | None = None) -> str:
    """An unknown name with the nearest known one, or the place that knows that very name, or all names."""
    names = sorted(known)
    text = say(lang, code)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    candidate = near[0] if near else elsewhere
    if candidate:
        return say(lang, "meant", text=text, candidate=candidate)
    return say(lang, "known", text=text, names=", ".join(names))


def shown(value: object) -> str:
    """A value as TOML would write it, cut at 60 characters, without the password of an address."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = re.sub(r"//[^/@\s\"]+@", "//…@", text)
    return text if len(text) <= 60 else text[:59] + "…"


def dotted(path: Iterable[str | int]) -> str:
    """A path as a person writes it: `tier_a.upstreams[0].id`, `models.alias."gpt-4*"`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            text += f".{name}" if text else name
    return text
