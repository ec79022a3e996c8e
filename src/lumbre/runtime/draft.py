"""Decides what the layers of settings say together, and what is wrong. `runtime.settings` drives it."""

import functools
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from lumbre.core.errors import SettingsError
from lumbre.runtime import complaints
from lumbre.runtime.schema import Settings
from lumbre.runtime.toml_lines import KeyPath, key_lines

FILE_NAME = "lumbre.toml"
PREFIX = "LUMBRE_"
NOT_SETTINGS = frozenset({"LUMBRE_CONFIG", "LUMBRE_URL", "LUMBRE_KEY", "LUMBRE_LANG"})


class Draft:
    """Gathers values and where each came from, and everything that is wrong with them."""

    def __init__(self, environ: Mapping[str, str], lang: str) -> None:
        self._environ = environ
        self._lang = lang
        self._data: dict[str, Any] = {}
        self._places: dict[KeyPath, str] = {}
        self._wrong: list[str] = []

    def find_file(self, config: Path | None) -> Path | None:
        for source, named in (("--config", config), ("LUMBRE_CONFIG", self._environ.get("LUMBRE_CONFIG"))):
            if named:
                path = self._expanded(str(named))
                if not path.is_file():
                    raise SettingsError(complaints.say(self._lang, "no_file", source=source, file=path))
                return path
        usual = (Path(FILE_NAME), self._xdg("XDG_CONFIG_HOME", ".config") / "lumbre" / FILE_NAME)
        return next((path for path in usual if path.is_file()), None)

    def read_file(self, path: Path) -> None:
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise SettingsError(complaints.say(self._lang, "no_read", file=path, reason=error.strerror)) from error
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line, byte = raw.count(b"\n", 0, error.start) + 1, raw[error.start]
            raise SettingsError(complaints.say(self._lang, "no_utf8", file=path, line=line, byte=byte)) from error
        try:
            self._data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(_syntax_complaint(self._lang, path, text, str(error))) from error
        self._places = {key: f"{path}:{line}" for key, line in key_lines(text).items()}

    def read_environment(self) -> None:
        for name in sorted(self._environ):
            if name.startswith(PREFIX) and name not in NOT_SETTINGS:
                self._read_variable(name, self._environ[name])

    def _read_variable(self, name: str, text: str) -> None:
        known = {_variable(section, field): (section, field) for section, field in self._fields()}
        if name in known:
            section, field = known[name]
            annotation = _model_at(Settings, (section,)).model_fields[field].annotation
            self.put(f"{section}.{field}", name, _literal(text, annotation))
            return
        word = name.removeprefix(PREFIX).lower()
        later = next((s for s in sorted(complaints.NOT_YET) if word.startswith(s.replace(".", "_"))), None)
        if later:
            self._wrong.append(f"{name}: {complaints.say(self._lang, 'not_yet', section=later)}")
        else:
            candidates = {*known, *NOT_SETTINGS}
            complaint = complaints.unknown(self._lang, "unknown_variable", name, candidates)
            self._wrong.append(f"{name}: {complaint}")

    def put(self, name: str, source: str, value: Any) -> None:
        """Set one `section.field`, in place of what an earlier layer said."""
        section, _, field = name.partition(".")
        path: KeyPath = (section, field)
        table = self._data.setdefault(section, {})
        if isinstance(table, dict):  # else the file is wrong there, and validation will say so
            table[field] = value
            self._places = {known: place for known, place in self._places.items() if known[:2] != path}
            self._places[path] = source

    def settle_folders(self, path: Path | None) -> None:
        """`~`, XDG defaults, relative folders: a file's stand beside it, others in the working folder."""
        self._settle("gateway", "state_dir", self._xdg("XDG_STATE_HOME", ".local/state") / "lumbre", path)
        self._settle("models", "cache_dir", self._xdg("XDG_CACHE_HOME", ".cache") / "lumbre" / "models", path)

    def _settle(self, section: str, field: str, default: Path, path: Path | None) -> None:
        table = self._data.setdefault(section, {})
        if not isinstance(table, dict):
            return
        value = table.get(field, default)
        place = self._places.get((section, field), "")
        if value == "":
            self._wrong.append(f"{place}: {section}.{field}: {complaints.say(self._lang, 'empty')}")
        elif isinstance(value, str | Path):
            from_file = path is not None and place.startswith(f"{path}:")
            beside = path.absolute().parent if path is not None and from_file else Path.cwd()
            table[field] = str(beside / self._expanded(str(value)))

    def validated(self) -> Settings:
        """The settings.

        Raises:
            SettingsError: everything that is wrong, in the order of the file's lines.
        """
        try:
            # Strict: `slots = true` is not 1. As JSON: text and lists may still stand for paths and tuples.
            settings = Settings.model_validate_json(json.dumps(self._data, default=str), strict=True)
        except ValidationError as error:
            self._wrong += [line for _, line in sorted(map(self._told, error.errors()))]
        else:
            if not self._wrong:
                return settings
        count = len(self._wrong)
        head = [complaints.say(self._lang, "several", count=count)] if count > 1 else []
        raise SettingsError("\n".join((*head, *self._wrong)))

    def _told(self, error: Mapping[str, Any]) -> tuple[int, str]:
        """One of pydantic's errors as a line of text, with the number it is sorted by."""
        # A rule between the entries of a list is broken by one of them, and says which.
        within = error.get("ctx", {}).get("within", ())
        loc = error["loc"]
        if loc[-1:] == ("[key]",):  # pydantic's mark for a fault of the key itself
            loc = loc[:-1]
        location: KeyPath = (*loc, *within)
        error = {**error, "input": functools.reduce(lambda value, step: value[step], within, error["input"])}
        place = self._place(location, str(error["msg"]))
        number = place.rpartition(":")[2]
        text = f"{place}: {complaints.dotted(location)}: {self._complaint(location, error)}"
        return int(number) if number.isdigit() else 0, text

    def sources(self) -> dict[str, str]:
        """Where each setting came from; an array of tables, where its first one stands."""
        first = {key[:2]: place for key, place in reversed(self._places.items())}
        return {f"{s}.{f}": first.get((s, f), "default") for s, f in self._fields()}

    def _complaint(self, location: KeyPath, error: Mapping[str, Any]) -> str:
        if error["type"] != "extra_forbidden":
            return complaints.judged(self._lang, error)
        if (name := complaints.dotted(location)) in complaints.NOT_YET:
            return complaints.say(self._lang, "not_yet", section=name)
        last = str(location[-1])
        elsewhere = next((f"[{s}] {f}" for s, f in self._fields() if f == last), None)
        known = _model_at(Settings, location[:-1]).model_fields
        return complaints.unknown(self._lang, "unknown", last, known, elsewhere)

    def _place(self, location: KeyPath, reason: str) -> str:
        """Where a wrong value came from: its own place, the nearest above it, or the first below.

        A rule between the fields of a section is broken where the field is set that it speaks of.
        """
        if len(location) == 1:
            named = (
                place
                for key, place in self._places.items()
                if len(key) == 2 and key[0] == location[0] and f"{key[1]} = " in reason
            )
            if place := next(named, None):
                return place
        for length in range(len(location), 0, -1):
            if location[:length] in self._places:
                return self._places[location[:length]]
        below = (place for key, place in self._places.items() if key[: len(location)] == location)
        return next(below, "default")

    def _fields(self) -> list[tuple[str, str]]:
        sections = Settings.model_fields
        return [(s, f) for s in sections for f in _model_at(Settings, (s,)).model_fields]

    def _xdg(self, variable: str, fallback: str) -> Path:
        said = self._environ.get(variable, "")
        return Path(said) if said.startswith("/") else self._expanded(f"~/{fallback}")

    def _expanded(self, text: str) -> Path:
        home = self._environ.get("HOME")
        if home and (text == "~" or text.startswith("~/")):
            return Path(home + text[1:])
        return Path(text).expanduser()


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    """The section that stands at a path, through arrays of sections."""
    for part in path:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            model = get_args(annotation)[0] if get_origin(annotation) is tuple else annotation  # type: ignore[assignment]
    return model


def _literal(text: str, annotation: Any) -> Any:
    """A variable's value as TOML or JSON would read it; a field that takes text gets the text as it is."""
    if annotation in (str, Path) or get_origin(annotation) is Literal:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        try:
            return json.loads(text)
        except ValueError:
            return text


def _variable(section: str, field: str) -> str:
    return f"{PREFIX}{section}_{field}".upper()


def _syntax_complaint(lang: str, path: Path, text: str, reason: str) -> str:
    if found := re.search(r" \(at line (\d+), column (\d+)\)$", reason):
        line, column = found.groups()
        return complaints.say(lang, "syntax", file=path, line=line, column=column, reason=reason[: found.start()])
    reason = re.sub(r" \(at end of document\)$", "", reason)
    return complaints.say(lang, "syntax_end", file=path, line=text.rstrip().count("\n") + 1, reason=reason)
