"""`lumbre up`: the composition root. Reads settings, takes the state folder, fetches the model, starts the gateway
and serves.
"""

import asyncio
import gc
import logging
import logging.handlers
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from lumbre.api.access import is_loopback
from lumbre.api.app import bounds_of, build_front
from lumbre.api.server import Server
from lumbre.cli.engine_choice import choose_engine
from lumbre.cli.exits import INTERRUPTED, OK
from lumbre.cli.first_question import FirstQuestion
from lumbre.cli.options import UpOptions
from lumbre.cli.progress import model_progress
from lumbre.cli.server import Running, bind, url_of
from lumbre.cli.shell import Shell
from lumbre.cli.words import Words
from lumbre.core.errors import OperatorError
from lumbre.runtime import settings as settings_file
from lumbre.runtime.gateway import Gateway
from lumbre.runtime.keys import Keys
from lumbre.runtime.models import ModelStore, alias_of
from lumbre.runtime.schema import Settings
from lumbre.runtime.state_dir import StateDir, StateHeld
from lumbre.runtime.tasks import TaskRoom

_LOG_BYTES = 10 * 1024 * 1024
_COLLECT_AFTER = 20_000
"""New containers that outlive the old ones; Python's own 700 is about ten requests."""


def up(options: UpOptions) -> int:
    """Serve until a signal.

    Raises:
        LumbreError: it could not start; the message has the way out.
    """
    words = Words("es" if options.lang == "es" else "en")
    shell = Shell(words, options.json)
    loaded = settings_file.load(config=options.config, overrides=options.overrides(), lang=words.lang)
    try:
        with StateDir(loaded.settings.gateway.state_dir) as state:
            _log_to(state.path / "logs" / "gateway.log", verbose=options.verbose)
            settings = choose_engine(loaded, options, shell)
            keys = _keys(settings, state, options, shell)
            paths = _model_paths(settings, words)
            session = _Session(settings, state, keys, options, shell)
            return uvloop.run(session.run(*paths))
    except StateHeld as error:
        text = words("serve.state_held", which=error.which, path=error.path)
        raise OperatorError(text, code=error.code) from error


def _log_to(path: Path, *, verbose: bool) -> None:
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    file = logging.handlers.RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root.addHandler(file)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.INFO if verbose else logging.WARNING)
    terminal.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    root.addHandler(terminal)
    for noisy in ("asyncio", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if not verbose:  # they have a file of their own
        logging.getLogger("lumbre.requests").setLevel(logging.WARNING)


def _settle_memory() -> None:
    """What is here now is here to stay, so the collector need not look through it after every few requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def _keys(settings: Settings, state: StateDir, options: UpOptions, shell: Shell) -> Keys | None:
    """The keys, where they are demanded: beyond loopback, and wherever somebody made one in this folder."""
    keys = Keys(state.path)
    beyond = not is_loopback(settings.gateway.host)
    if options.new_key or (beyond and not keys):
        key = keys.make()
        if shell.json:
            shell.data({"event": "key", "key": key})
        else:
            shell.say("serve.key", key=key)
    return keys if keys else None


def _model_paths(settings: Settings, words: Words) -> tuple[Path | None, Path | None]:
    """The files of the embedded engine's model, and of its model for embeddings where that is another."""
    if settings.tier_a.backend != "embedded":
        return None, None
    store, given = ModelStore(settings.models.cache_dir), settings.embeddings
    with model_progress(words.lang) as report:
        path = store.ensure(settings.tier_a.model, report)
    if given.backend != "tier_a" or given.model in ("", settings.tier_a.model):
        return path, None
    with model_progress(words.lang) as report:
        return path, store.ensure(given.model, report)


class _Session:
    """One run of the gateway, from its socket to its last word."""

    def __init__(
        self, settings: Settings, state: StateDir, keys: Keys | None, options: UpOptions, shell: Shell
    ) -> None:
        self._settings = settings
        self._state = state
        self._keys = keys
        self._options = options
        self._shell = shell

    async def run(self, model_path: Path | None, embeddings_path: Path | None) -> int:
        """Serve; return the exit status."""
        given = self._settings.gateway
        sock = bind(given.host, given.port, self._shell.words)
        gateway = Gateway(
            self._settings,
            model_path=model_path,
            embeddings_path=embeddings_path,
            model_alias=alias_of(self._settings.tier_a.model) if model_path is not None else "",
            secret=settings_file.secret,
            environ=settings_file.process_environment(),
        )
        server = Server(build_front(gateway, self._keys), bounds_of(gateway))
        running = Running(server, gateway, sock, self._tell)
        running.heed_signals()
        _settle_memory()
        url = url_of(sock)
        self._state.announce(url, datetime.now(UTC).isoformat())
        self._tell("listening", {"url": url, "pid": self._state.pid})
        watching = TaskRoom()
        watching.spawn(self._watch(gateway, url), name="wait until ready")
        try:
            await running.serve()
        finally:
            await watching.close()
        self._tell("stopped", {})
        return INTERRUPTED if running.stopped_by is signal.SIGINT else OK

    async def _watch(self, gateway: Gateway, url: str) -> None:
        """Say when it is ready, and ask the first question."""
        await self._until_ready(gateway)
        self._tell("ready", {"url": url, "models": list(gateway.tier.models())})
        if self._options.ask:
            await FirstQuestion(self._shell, url, self._options.ask, with_key=self._keys is not None).ask()

    async def _until_ready(self, gateway: Gateway) -> None:
        """Wait; while something is wrong, say so once for each reason."""
        said: set[str] = set()
        while True:
            try:
                async with asyncio.timeout(1):
                    await gateway.tier.wait_ready()
                    return
            except TimeoutError:
                for lane in gateway.tier.lanes.values():
                    reason = lane.health.reason
                    if reason is not None and reason not in said:
                        said.add(reason)
                        self._tell("waiting", {"node": lane.id, "reason": reason})

    def _tell(self, event: str, values: dict[str, object]) -> None:
        if self._shell.json:
            self._shell.data({"event": event, **values})
        else:
            shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in values.items()}
            self._shell.say(f"serve.{event}", **shown)
