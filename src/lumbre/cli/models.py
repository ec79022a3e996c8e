"""Decides how model files are listed, fetched and removed at the shell. `main` drives it."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lumbre.cli.exits import FAILED, OK
from lumbre.cli.options import Config, Json, Yes
from lumbre.cli.shell import Shell, human_bytes, shell_of
from lumbre.runtime import settings

if TYPE_CHECKING:
    from lumbre.runtime.models import ModelStore

Name = Annotated[str, typer.Argument(help="models.name", metavar="NAME")]


def list_models(context: typer.Context, config: Config = None, json: Json = False) -> int:
    """What there is and what is here."""
    shell = shell_of(context)
    entries = _store(shell, config).list()
    if json:
        shell.data(
            {
                "models": [
                    {
                        "name": entry.name,
                        "size_bytes": entry.size_bytes,
                        "license": entry.license,
                        "terms_url": entry.terms_url,
                        "present": entry.present,
                        "path": entry.path,
                    }
                    for entry in entries
                ]
            }
        )
        return OK
    head = tuple(shell.words(f"models.column_{column}") for column in ("name", "size", "license", "here"))
    rows = [
        (
            entry.name,
            human_bytes(entry.size_bytes),
            entry.license or "-",
            str(entry.path) if entry.present else shell.words("models.absent"),
        )
        for entry in entries
    ]
    shell.table([head, *rows])
    return OK


def pull(context: typer.Context, name: Name, config: Config = None, json: Json = False) -> int:
    """Fetch a model that is not here whole, and say where it lies."""
    from lumbre.cli.progress import model_progress

    shell = shell_of(context)
    store = _store(shell, config)
    with model_progress(shell.words.lang) as report:
        path = store.ensure(name, report)
    if json:
        shell.data({"name": name, "path": path, "size_bytes": path.stat().st_size})
    else:
        shell.say("models.pulled", name=name, path=path)
    return OK


def remove(context: typer.Context, name: Name, yes: Yes = False, config: Config = None, json: Json = False) -> int:
    """Take a model out of the cache, after a question if a person is there."""
    shell = shell_of(context)
    store = _store(shell, config)
    if not yes and not _agreed(shell, name):
        shell.fail("not_confirmed", shell.words("models.kept", name=name))
        return FAILED
    freed = store.remove(name)
    if json:
        shell.data({"name": name, "freed_bytes": freed})
    else:
        shell.say("models.removed", name=name, size=human_bytes(freed))
    return OK


def _agreed(shell: Shell, name: str) -> bool:
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(shell.words("models.sure", name=name) + " ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes", "s", "si", "sí"}


def _store(shell: Shell, config: "Config") -> "ModelStore":
    from lumbre.runtime.models import ModelStore

    loaded = settings.load(config=config, overrides={}, lang=shell.words.lang)
    return ModelStore(loaded.settings.models.cache_dir)
