"""Decides what is well, doubtful or bad on this machine, and the way out. `main` drives it; no gateway runs."""

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from lumbre.cli.exits import FAILED, OK
from lumbre.cli.options import Config, Json
from lumbre.cli.shell import Shell, human_bytes, shell_of
from lumbre.cli.words import Words
from lumbre.core.errors import OperatorError, SettingsError
from lumbre.runtime import machine, settings

if TYPE_CHECKING:
    from lumbre.runtime.settings import Loaded

PROVEN_PYTHONS = ((3, 11), (3, 13))
# What the engine takes besides the file: compute buffers and the cache of a few thousand tokens.
ENGINE_BYTES = 400_000_000
STATE_BYTES = 200_000_000

Verdict = Literal["ok", "warn", "bad"]


@dataclass(frozen=True)
class Check:
    """One finding; `way_out` says what to do, empty if nothing."""

    id: str
    verdict: Verdict
    text: str
    way_out: str = ""


def doctor(context: typer.Context, config: Config = None, json: Json = False) -> int:
    """Exit 1 if anything is bad."""
    shell = shell_of(context)
    checks = list(_checks(shell.words, config))
    sound = all(check.verdict != "bad" for check in checks)
    if json:
        shell.data({"ok": sound, "checks": [asdict(check) for check in checks]})
    else:
        _show(shell, checks)
    return OK if sound else FAILED


def _show(shell: Shell, checks: list[Check]) -> None:
    verdicts = {verdict: shell.words(f"doctor.{verdict}") for verdict in ("ok", "warn", "bad")}
    width = max(map(len, verdicts.values()))
    for check in checks:
        shell.line(f"{verdicts[check.verdict].ljust(width)}  {check.text}")
        if check.way_out:
            shell.line(f"{' ' * width}  → {check.way_out}")


def _checks(words: Words, config: Path | None) -> Iterator[Check]:
    yield _python(words)
    yield _platform(words)
    yield _processor(words)
    try:
        loaded = settings.load(config=config, overrides={}, lang=words.lang)
    except SettingsError as error:
        yield Check("settings", "bad", error.message, words("doctor.settings_mend"))
        yield from _graphics(words, embedded=False)
        return
    yield _settings(words, loaded)
    yield from _graphics(words, embedded=loaded.settings.tier_a.backend == "embedded")
    yield from _backend(words, loaded)
    yield from _folders(words, loaded)
    yield _port(words, loaded)
    yield from _engines(words)


def _python(words: Words) -> Check:
    version = platform.python_version()
    low, high = PROVEN_PYTHONS
    if low <= sys.version_info[:2] <= high:
        return Check("python", "ok", words("doctor.python", version=version))
    return Check("python", "warn", words("doctor.python", version=version), words("doctor.python_unproven"))


def _platform(words: Words) -> Check:
    name = f"{platform.system()} {platform.machine()}"
    proven = name in {"Linux x86_64", "Linux AMD64"}
    text = words("doctor.platform", name=name)
    return Check("platform", "ok", text) if proven else Check("platform", "warn", text, words("doctor.unproven"))


def _processor(words: Words) -> Check:
    cpu = machine.processor()
    sets = ", ".join(cpu.instruction_sets) or "-"
    text = words("doctor.cpu", physical=cpu.physical, usable=f"{cpu.usable:g}", sets=sets)
    if cpu.architecture in {"x86_64", "AMD64"} and "avx2" not in cpu.instruction_sets:
        return Check("cpu", "warn", text, words("doctor.cpu_slow"))
    return Check("cpu", "ok", text)


def _settings(words: Words, loaded: "Loaded") -> Check:
    if loaded.path is None:
        return Check("settings", "ok", words("doctor.settings_none"))
    return Check("settings", "ok", words("doctor.settings", file=loaded.path))


def _graphics(words: Words, *, embedded: bool) -> Iterator[Check]:
    found = machine.gpus()
    if not found:
        yield Check("gpu", "ok", words("doctor.no_gpu"))
    for gpu in found:
        text = words("doctor.gpu", name=gpu.name, state=_gpu_state(words, gpu))
        if embedded:
            yield Check("gpu", "warn", text, words("doctor.gpu_idle"))
        else:
            yield Check("gpu", "ok", text)


def _gpu_state(words: Words, gpu: machine.Gpu) -> str:
    if gpu.memory_bytes is None or gpu.used_bytes is None:
        return words("doctor.gpu_untold")
    busy = "-" if gpu.busy_percent is None else gpu.busy_percent
    used, total = human_bytes(gpu.used_bytes), human_bytes(gpu.memory_bytes)
    return words("doctor.gpu_state", used=used, total=total, busy=busy)


def _backend(words: Words, loaded: "Loaded") -> Iterator[Check]:
    tier = loaded.settings.tier_a
    match tier.backend:
        case "embedded":
            yield from _model(words, tier.model, loaded.settings.models.cache_dir)
        case "command":
            program = tier.command[0]
            if shutil.which(program):
                yield Check("command", "ok", words("doctor.command", program=program))
            else:
                text = words("doctor.command_missing", program=program)
                yield Check("command", "bad", text, words("doctor.command_mend"))
        case "openai":
            for upstream in tier.upstreams:
                yield _upstream_key(words, upstream.id, upstream.api_key_env)


def _upstream_key(words: Words, upstream: str, env_name: str) -> Check:
    try:
        if env_name:
            settings.secret(env_name, lang=words.lang)
    except SettingsError as error:
        return Check("upstream", "bad", words("doctor.upstream", id=upstream), error.message)
    return Check("upstream", "ok", words("doctor.upstream", id=upstream))


def _model(words: Words, name: str, cache_dir: Path) -> Iterator[Check]:
    from lumbre.runtime.models import ModelStore

    store = ModelStore(cache_dir)
    try:
        path = store.path_of(name)
    except OperatorError as error:
        yield Check("model", "bad", error.message, words("doctor.model_mend"))
        return
    known = next((entry.size_bytes for entry in store.list() if entry.name == name), 0)
    size_bytes = path.stat().st_size if path else known
    size = human_bytes(size_bytes) if size_bytes else "?"
    if path:
        yield Check("model", "ok", words("doctor.model", name=name, size=size, path=path))
    else:
        text = words("doctor.model_absent", name=name, size=size)
        yield Check("model", "warn", text, words("doctor.model_pull", name=name))
    yield _memory(words, size_bytes)
    if not path:
        yield _disk(words, "cache", cache_dir, size_bytes * 2)


def _memory(words: Words, model_bytes: int) -> Check:
    seen, needed = machine.memory(), model_bytes + ENGINE_BYTES
    values = {"available": human_bytes(seen.available_bytes), "total": human_bytes(seen.total_bytes)}
    text = words("doctor.memory", needed=human_bytes(needed), **values)
    if seen.total_bytes < needed:
        return Check("memory", "bad", text, words("doctor.memory_small"))
    if seen.available_bytes < needed:
        return Check("memory", "warn", text, words("doctor.memory_tight"))
    return Check("memory", "ok", text)


def _folders(words: Words, loaded: "Loaded") -> Iterator[Check]:
    yield _disk(words, "state", loaded.settings.gateway.state_dir, STATE_BYTES)


def _disk(words: Words, what: str, folder: Path, needed_bytes: int) -> Check:
    free = machine.free_disk_bytes(folder)
    text = words(f"doctor.disk_{what}", folder=folder, free=human_bytes(free))
    name = f"disk_{what}"
    if not machine.writable(folder):
        return Check(name, "bad", text, words("doctor.disk_locked", folder=folder))
    if free < needed_bytes:
        return Check(name, "bad", text, words("doctor.disk_full", needed=human_bytes(needed_bytes)))
    return Check(name, "ok", text)


def _port(words: Words, loaded: "Loaded") -> Check:
    host, port = loaded.settings.gateway.host, loaded.settings.gateway.port
    holder = machine.port_holder(host, port)
    text = words(f"doctor.port_{holder}", host=host, port=port)
    if holder == "other":
        return Check("port", "bad", text, words("doctor.port_mend"))
    return Check("port", "ok", text)


def _engines(words: Words) -> Iterator[Check]:
    import asyncio

    from lumbre.runtime.discovery import find_engines

    found = asyncio.run(find_engines())
    if not found:
        yield Check("engines", "ok", words("doctor.no_engines"))
    for engine in found:
        models = ", ".join(engine.models[:5]) or "-"
        text = words("doctor.engine", name=engine.name, url=engine.base_url, models=models)
        yield Check("engines", "ok", text, words("doctor.engine_use", kind=engine.kind))
