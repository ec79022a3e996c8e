"""Decides what a model's name means: a registry entry, a file on a hub, a path. Pure; `store` asks."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias
from urllib.parse import quote

from lumbre.core.errors import OperatorError
from lumbre.runtime.models.registry import REGISTRY

HUB_FORM = "hf:owner/repo/path/file.gguf[@revision]"

_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB = re.compile(rf"hf:(?P<repo>{_WORD}/{_WORD})/(?P<path>[^@\\]+\.gguf)(?:@(?P<revision>[\w./+-]+))?", re.ASCII)
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")


@dataclass(frozen=True)
class RegistryRef:
    """A model that Lumbre knows by name."""

    name: str


@dataclass(frozen=True)
class HubRef:
    """One GGUF file of a Hugging Face repository; no `revision`: what `main` is when it is fetched."""

    repo: str
    path: str
    revision: str = ""

    @property
    def name(self) -> str:
        return f"hf:{self.repo}/{self.path}" + (f"@{self.revision}" if self.revision else "")

    @property
    def folder(self) -> str:
        """This repository's folder in the cache, at this revision; a hub forbids `--` in names."""
        folder = "hf--" + self.repo.replace("/", "--")
        return folder + (f"@{quote(self.revision, safe='')}" if self.revision else "")


@dataclass(frozen=True)
class PathRef:
    """A file of the user's own, as they wrote it: `~` is not yet expanded."""

    name: str


ModelRef: TypeAlias = RegistryRef | HubRef | PathRef


def parse(name: str, known: Collection[str] = REGISTRY) -> ModelRef:
    """Say what a model's name means; `OperatorError` if it means nothing."""
    if name in known:
        return RegistryRef(name)
    if name.startswith("hf:"):
        return _parse_hub(name)
    if "/" in name or name.startswith("~") or name.endswith(".gguf"):
        return PathRef(name)
    raise OperatorError(
        f"no model is called {name!r}; known are {', '.join(known)}; or write {HUB_FORM},"
        " or a path such as ./model.gguf",
        code="unknown_model",
        valid=tuple(known),
    )


def alias_of(name: str, known: Collection[str] = REGISTRY) -> str:
    """What the engine calls the model: the registry's name, or the file's name without `.gguf`."""
    match parse(name, known):
        case RegistryRef(name=word):
            return word
        case HubRef(path=path) | PathRef(name=path):
            return PurePosixPath(path).name.removesuffix(".gguf")


def _parse_hub(name: str) -> HubRef:
    found = _HUB.fullmatch(name)
    if found is None or not _stays_inside(found["path"]) or not _stays_inside(found["revision"] or "main"):
        raise OperatorError(f"{name!r} is no file on a hub: write {HUB_FORM}", code="unknown_model")
    if _SPLIT.search(found["path"]):
        raise OperatorError(
            f"{name!r} is one piece of a model in several, which Lumbre does not fetch: pick"
            " a repository with the model in one file, or fetch every piece and give the path of the first",
            code="unknown_model",
        )
    return HubRef(found["repo"], found["path"], found["revision"] or "")


def _stays_inside(path: str) -> bool:
    return path.isprintable() and all(part not in {"", ".", ".."} for part in path.split("/"))
