"""Decides how settings are checked and shown. `main` drives it; secrets never reach the screen."""

import json as json_text
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumbre.cli.exits import OK
from lumbre.cli.options import Config, Json
from lumbre.cli.shell import shell_of
from lumbre.runtime import settings

if TYPE_CHECKING:
    from lumbre.runtime.settings import Loaded

HIDDEN = "***"

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_FLAG = re.compile(r"(?i)^(--?[\w-]*(?:key|token|secret|password)[\w-]*)(=.*)?$")


def check(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="config.file", metavar="FILE")] = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Exit 0 if the settings hold, 3 and the wrong line if not."""
    shell = shell_of(context)
    loaded = settings.load(config=file or config, overrides={}, lang=shell.words.lang)
    if json:
        shell.data({"ok": True, "file": loaded.path})
    elif loaded.path is None:
        shell.say("config.ok_no_file")
    else:
        shell.say("config.ok", file=loaded.path)
    return OK


def show(context: typer.Context, config: Config = None, json: Json = False) -> int:
    """Every setting that holds, with where it came from."""
    shell = shell_of(context)
    loaded = settings.load(config=config, overrides={}, lang=shell.words.lang)
    values = without_secrets(loaded)
    if json:
        pairs = {name: {"value": value, "source": loaded.sources[name]} for name, value in values.items()}
        shell.data({"file": loaded.path, "settings": pairs})
        return OK
    rows: list[Sequence[str]] = []
    for name, value in values.items():
        text = json_text.dumps(value, ensure_ascii=False)
        rows.append((f"{name} = {text}", f"# {loaded.sources[name]}"))
    shell.table(rows)
    return OK


def without_secrets(loaded: "Loaded") -> dict[str, Any]:
    """`tier_a.slots` and the others as JSON values; keys and passwords are not among them."""
    sections = loaded.settings.model_dump(mode="json")
    values = {f"{s}.{field}": value for s, fields in sections.items() for field, value in fields.items()}
    values["tier_a.command"] = _without_keys(values["tier_a.command"])
    for upstream in (*values["tier_a.upstreams"], *values["embeddings.upstreams"]):
        upstream["base_url"] = re.sub(r"//[^/@]+@", f"//{HIDDEN}@", upstream["base_url"])
        # Someone who pasted the key itself in place of the variable's name shall not see it on a screen.
        if upstream["api_key_env"] and not _ENV_NAME.fullmatch(upstream["api_key_env"]):
            upstream["api_key_env"] = HIDDEN
    return values


def _without_keys(command: Sequence[str]) -> list[str]:
    """A command line whose keys are hidden, whether they follow their flag or stand in it."""
    shown: list[str] = []
    hide_next = False
    for word in command:
        flag = _SECRET_FLAG.match(word)
        if hide_next:
            shown.append(HIDDEN)
        elif flag and flag[2]:
            shown.append(f"{flag[1]}={HIDDEN}")
        else:
            shown.append(word)
        hide_next = bool(flag and not flag[2]) and not hide_next
    return shown
