"""Decides which command a line means and which language it speaks: `lumbre` itself. The shell drives it."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer._completion_shared import get_completion_script, install

from lumbre import __version__
from lumbre.cli import chat, config, doctor, explain, ledger, mesh, models, nodes, policy, status, switch
from lumbre.cli.exits import FAILED, OK, USAGE, exit_of
from lumbre.cli.localised import SpanishCommand, SpanishGroup, usage_message
from lumbre.cli.options import Config, Json, UpOptions, Yes
from lumbre.cli.shell import Shell, shell_of
from lumbre.cli.words import Language, Words
from lumbre.core.errors import LumbreError
from lumbre.runtime import settings

PROGRAM = "lumbre"
SHELLS = frozenset({"bash", "zsh", "fish", "powershell", "pwsh"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without `→` is no reason to say nothing
    line = _read_line(sys.argv[1:] if argv is None else argv)
    shell = Shell(Words(line.lang), line.json)
    if line.wrong_lang is not None:
        shell.fail("usage", shell.words("main.bad_lang", found=line.wrong_lang))
        return USAGE
    try:
        return _completion(shell, line.words) if _names_a_shell(line.words) else _run(shell, line.words)
    except typer.TyperException as error:
        shell.fail("usage", usage_message(error, shell.words.lang))
        return USAGE
    except typer.Abort:
        return FAILED
    except LumbreError as error:
        shell.failed(error)
        return exit_of(error)
    except BrokenPipeError:
        # Who read us has gone; the interpreter would complain once more when it flushes at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def build_app(lang: Language) -> typer.core.TyperGroup:
    """Every command, with its texts in one language."""
    options: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
    if lang == "es":
        options["cls"] = SpanishGroup
    app = typer.Typer(**options)
    app.callback(help="main.help")(root)
    _add(app, lang, _COMMANDS, "")
    for group, commands in _GROUPS.items():
        branch = typer.Typer(**options, add_completion=False, help=f"{group}.help")
        _add(branch, lang, commands, f"{group}.")
        app.add_typer(branch, name=group)
    command = typer.main.get_command(app)
    _put_texts(command, Words(lang))
    if not isinstance(command, typer.core.TyperGroup):
        raise TypeError("a program with several commands is a group")
    return command


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


def root(
    lang: Annotated[str, typer.Option("--lang", help="opt.lang", metavar="en|es")] = "",
    version: Annotated[bool, typer.Option("--version", help="opt.version", is_eager=True, callback=_version)] = False,
) -> None:
    """The options of the program itself; `--lang` is taken out of the line before, wherever it stands."""
    del lang, version


def up(  # shape: a command's parameters are its flags
    context: typer.Context,
    config: Config = None,
    host: Annotated[str | None, typer.Option("--host", help="up.host", metavar="ADDRESS")] = None,
    port: Annotated[int | None, typer.Option("--port", help="up.port", min=0, max=65_535, metavar="N")] = None,
    state_dir: Annotated[Path | None, typer.Option("--state-dir", help="up.state_dir", metavar="FOLDER")] = None,
    model: Annotated[str | None, typer.Option("--model", help="up.model", metavar="NAME")] = None,
    backend: Annotated[str | None, typer.Option("--backend", help="up.backend", metavar="KIND")] = None,
    ask: Annotated[str | None, typer.Option("--ask", help="up.ask", metavar="TEXT")] = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="up.new_key")] = False,
    use: Annotated[str | None, typer.Option("--use", help="up.use", metavar="ENGINE")] = None,
    yes: Yes = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="up.verbose")] = False,
    json: Json = False,
) -> int:
    """Serve until Ctrl-C."""
    from lumbre.cli.up import up as serve

    return serve(
        UpOptions(
            config=config,
            host=host,
            port=port,
            state_dir=state_dir,
            model=model,
            backend=backend,
            ask=ask,
            new_key=new_key,
            json=json,
            verbose=verbose,
            use=use,
            yes=yes,
            lang=shell_of(context).words.lang,
        )
    )


_COMMANDS: dict[str, Callable[..., int]] = {
    "up": up,
    "chat": chat.chat,
    "status": status.status,
    "switch": switch.switch,
    "policy": policy.policy,
    "explain": explain.explain,
    "nodes": nodes.nodes,
    "ledger": ledger.ledger,
    "doctor": doctor.doctor,
}

_GROUPS: dict[str, dict[str, Callable[..., int]]] = {
    "models": {"list": models.list_models, "pull": models.pull, "rm": models.remove},
    "config": {"check": config.check, "show": config.show},
    "mesh": {"route": mesh.route, "report": mesh.report},
}


@dataclass(frozen=True)
class _Line:
    words: tuple[str, ...]
    lang: Language
    json: bool
    wrong_lang: str | None


def _read_line(argv: Sequence[str]) -> _Line:
    """Take `--lang` out of a line, and see `--json`: both must be known before anything can go wrong."""
    chosen: str | None = None
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            kept += [word, *words]
        elif word == "--lang":
            chosen = next(words, "")
        elif word.startswith("--lang="):
            chosen = word.removeprefix("--lang=")
        else:
            kept.append(word)
    known = chosen is None or chosen.lower()[:2] in {"en", "es"}
    before = kept[: kept.index("--")] if "--" in kept else kept
    lang = settings.language(chosen if known else None)
    return _Line(tuple(kept), lang, "--json" in before, None if known else chosen)


def _run(shell: Shell, words: Sequence[str]) -> int:
    command = build_app(shell.words.lang)
    status_code = command.main(args=list(words) or ["--help"], prog_name=PROGRAM, standalone_mode=False, obj=shell)
    return status_code if isinstance(status_code, int) else OK


def _names_a_shell(words: Sequence[str]) -> bool:
    return len(words) == 2 and words[0] in {"--show-completion", "--install-completion"} and words[1] in SHELLS


def _completion(shell: Shell, words: Sequence[str]) -> int:
    """Completion for a shell that is named; without a name Typer finds out which one runs."""
    what, name = words
    if what == "--show-completion":
        shell.line(get_completion_script(prog_name=PROGRAM, complete_var=f"_{PROGRAM.upper()}_COMPLETE", shell=name))
    else:
        _, path = install(shell=name, prog_name=PROGRAM)
        shell.say("main.completion", path=path)
    return OK


def _add(app: typer.Typer, lang: Language, commands: dict[str, Callable[..., int]], prefix: str) -> None:
    for name, function in commands.items():
        cls = SpanishCommand if lang == "es" else None
        app.command(name, help=f"{prefix}{name}.help", cls=cls)(function)


def _put_texts(command: Any, words: Words) -> None:
    """Put texts where the commands carry message ids."""
    command.help = words(command.help)
    for param in command.params:
        if param.name in {"install_completion", "show_completion"}:
            param.help = words(f"opt.{param.name}")
        elif param.name != "help":
            param.help = words(param.help)
    for inner in getattr(command, "commands", {}).values():
        _put_texts(inner, words)


if __name__ == "__main__":
    sys.exit(main())
