"""Decides which settings hold: file, environment, flags. Alone in reading the environment; cli drives it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from lumbre.core.errors import SettingsError
from lumbre.runtime import complaints

if TYPE_CHECKING:
    from lumbre.runtime.schema import Settings

Environ = Mapping[str, str]


@dataclass(frozen=True)
class Loaded:
    """The settings that hold.

    Attributes:
        sources: where `tier_a.slots` etc. came from: `lumbre.toml:12`, a variable, a flag, or `default`.
        path: the file that was read, if there was one.
    """

    settings: "Settings"
    sources: Mapping[str, str]
    path: Path | None


@dataclass(frozen=True)
class ClientPlace:
    """What the environment tells a client command: the gateway's address and the key, empty if not said."""

    url: str
    key: str


def load(
    *, config: Path | None, overrides: Mapping[str, Any], environ: Environ | None = None, lang: str = "en"
) -> Loaded:
    """Read and check everything.

    Args:
        config: the file of `--config`; None looks in the usual places, and finding none is fine.
        overrides: flags by setting, `{"gateway.port": 9000}`; a None was not given.
        environ: another environment than this process's.
        lang: the language of complaints, `en` or `es`.

    Raises:
        SettingsError: all that is wrong at once, one line each.
    """
    from lumbre.runtime.draft import Draft  # brings pydantic: 0.1 s that most commands need not pay

    draft = Draft(os.environ if environ is None else environ, lang)
    path = draft.find_file(config)
    if path is not None:
        draft.read_file(path)
    draft.read_environment()
    for name, value in overrides.items():
        if value is not None:
            draft.put(name, _flag(name), value)
    draft.settle_folders(path)
    settings = draft.validated()
    return Loaded(settings, MappingProxyType(draft.sources()), path)


def language(chosen: str | None = None, environ: Environ | None = None) -> Literal["en", "es"]:
    """The language of texts: what `--lang` said, else the environment's, else English."""
    env = os.environ if environ is None else environ
    said = (chosen, *(env.get(name) for name in ("LUMBRE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")))
    first = next((word for word in said if word), "en")
    return "es" if re.match(r"es($|[_.@-])", first, re.IGNORECASE) else "en"


def client_place(environ: Environ | None = None) -> ClientPlace:
    """LUMBRE_URL and LUMBRE_KEY."""
    env = os.environ if environ is None else environ
    return ClientPlace(url=env.get("LUMBRE_URL", ""), key=env.get("LUMBRE_KEY", ""))


def secret(env_name: str, environ: Environ | None = None, lang: str = "en") -> str:
    """The key that `api_key_env` points at.

    Raises:
        SettingsError: the variable is unset or empty, or holds what cannot stand in a header.
    """
    value = (os.environ if environ is None else environ).get(env_name, "").strip()
    if not value:
        raise SettingsError(complaints.say(lang, "no_secret", name=env_name))
    if not (value.isascii() and value.isprintable()):
        raise SettingsError(complaints.say(lang, "bad_secret", name=env_name))
    return value


def process_environment() -> Environ:
    """This process's environment, for those who start others."""
    return os.environ


def _flag(name: str) -> str:
    return "--" + name.rpartition(".")[2].replace("_", "-")
