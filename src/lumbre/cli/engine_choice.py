"""Which engine tier A runs on: the settings' choice, or one that already runs on this machine and is offered.
Driver.
"""

import asyncio
import re
import sys

import typer

from lumbre.cli.options import UpOptions
from lumbre.cli.shell import Shell
from lumbre.core.errors import OperatorError
from lumbre.runtime.discovery import PORTS, Found, find_engines
from lumbre.runtime.schema import Settings, TierASection, UpstreamSection
from lumbre.runtime.settings import Loaded

EMBEDDED = "embedded"
_EMBEDS = re.compile(r"embed|bge|minilm|rerank|whisper|clip", re.IGNORECASE)
"""Names of models that do not answer; engines list them among the others."""


def choose_engine(loaded: Loaded, options: UpOptions, shell: Shell) -> Settings:
    """The settings, changed if an engine that already runs is to be used.

    Nobody's choice is overridden: engines are looked for only where the backend was left open, or `--use` asks.

    Raises:
        OperatorError: the engine of `--use` does not run, or has no model.
    """
    settings = loaded.settings
    if options.use == EMBEDDED:
        return _with_tier_a(settings, settings.tier_a.model_copy(update={"backend": EMBEDDED}))
    if options.use is not None:
        return _used(settings, _named(options.use, shell), options, shell)
    if loaded.sources.get("tier_a.backend", "default") != "default" or options.model is not None:
        return settings
    found = asyncio.run(find_engines())
    for engine in (each for each in found if each.models):
        if _accepted(engine, shell, options):
            return _used(settings, engine, options, shell)
    return settings


def _named(kind: str, shell: Shell) -> Found:
    if kind not in PORTS:
        raise typer.BadParameter(shell.words("serve.bad_use", kinds=", ".join((EMBEDDED, *PORTS)), kind=kind))
    found = {each.kind: each for each in asyncio.run(find_engines())}
    if kind not in found:
        where = f"127.0.0.1:{PORTS[kind]}"
        raise OperatorError(shell.words("serve.no_engine", kind=kind, where=where), code="engine_not_found")
    return found[kind]


def _accepted(engine: Found, shell: Shell, options: UpOptions) -> bool:
    if shell.json:
        shell.data({"event": "engine_found", "kind": engine.kind, "base_url": engine.base_url})
        return False
    shell.say("serve.engine_found", name=engine.name, url=engine.base_url, models=", ".join(engine.models[:5]))
    if options.yes or not sys.stdin.isatty() or not sys.stdout.isatty():
        shell.say("serve.engine_hint", kind=engine.kind)
        return False
    answer = input(shell.words("serve.engine_question", name=engine.name)).strip().lower()
    return answer in ("y", "yes", "s", "si", "sí")


def _used(settings: Settings, engine: Found, options: UpOptions, shell: Shell) -> Settings:
    model = options.model or next((name for name in engine.models if not _EMBEDS.search(name)), "")
    if not model:
        raise OperatorError(shell.words("serve.no_model", name=engine.name), code="engine_has_no_model")
    upstream = UpstreamSection.model_validate({"id": engine.kind, "base_url": engine.base_url, "model": model})
    tier_a = TierASection(backend="openai", upstreams=(upstream,), strict_json=settings.tier_a.strict_json)
    return _with_tier_a(settings, tier_a)


def _with_tier_a(settings: Settings, tier_a: TierASection) -> Settings:
    return settings.model_copy(update={"tier_a": tier_a})
