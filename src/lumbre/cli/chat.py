"""Decides how a conversation at the terminal goes: one question, or many that remember. `main` drives it."""

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import Gateway, complete, events
from lumbre.cli.exits import INTERRUPTED, OK, RequestFailedError
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.shell import Shell, shell_of

# ASCII's and Latin-1's control characters but tab and newline: a model could steer the terminal by them.
_UNPRINTABLE = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)))

Message = Mapping[str, str]


@dataclass(frozen=True)
class Wishes:
    """What every request of a conversation carries besides its messages."""

    model: str
    system: str | None
    max_tokens: int | None
    temperature: float | None

    def body(self, messages: list[Message]) -> dict[str, Any]:
        """A request for the next answer."""
        opening = [{"role": "system", "content": self.system}] if self.system else []
        wanted = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        return {
            "model": self.model,
            "messages": [*opening, *messages],
            **{name: value for name, value in wanted.items() if value is not None},
        }


@dataclass
class Talk:
    """One conversation: who is asked, how, and what was said so far."""

    shell: Shell
    gateway: Gateway
    wishes: Wishes
    messages: list[Message] = field(default_factory=list)

    def answer(self, text: str) -> str:
        """Ask, print the answer as it comes, and return it whole; on Ctrl-C what had come is remembered."""
        asked = [*self.messages, {"role": "user", "content": text}]
        parts: list[str] = []
        ending: str | None = None
        try:
            with closing(events(self.gateway, self.wishes.body(asked))) as stream:  # type: ignore[type-var]
                for event in stream:
                    piece, finish = _piece(event)
                    parts.append(piece)
                    _write(piece)
                    ending = finish or ending
        except KeyboardInterrupt:
            self._remember(asked, parts)
            raise
        finally:
            if parts:
                _end_line()
        self._remember(asked, parts)
        if ending == "length":
            self.shell.note(self.shell.words("chat.length"))
        return "".join(parts)

    def _remember(self, asked: list[Message], parts: list[str]) -> None:
        if parts:
            self.messages = [*asked, {"role": "assistant", "content": "".join(parts)}]


def chat(  # shape: a command's parameters are its flags
    context: typer.Context,
    message: Annotated[str | None, typer.Argument(help="chat.message", metavar="MESSAGE")] = None,
    model: Annotated[str, typer.Option("--model", help="chat.model", metavar="NAME")] = "auto",
    system: Annotated[str | None, typer.Option("--system", help="chat.system", metavar="TEXT")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="chat.max_tokens", min=1, metavar="N")] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="chat.temperature", min=0, metavar="T")
    ] = None,
    url: Url = None,
    key: Key = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """One question or a conversation."""
    shell = shell_of(context)
    question = message if message is not None else _piped()
    if question is not None and not question.strip():
        raise typer.BadParameter(shell.words("chat.empty"))
    if question is None and json:
        raise typer.BadParameter(shell.words("chat.json_needs_message"))
    gateway = find_gateway(shell.words, url=url, key=key, config=config)
    talk = Talk(shell, gateway, Wishes(model, system, max_tokens, temperature))
    if question is None:
        return _converse(talk)
    if json:
        shell.data(complete(gateway, talk.wishes.body([{"role": "user", "content": question}])))
    else:
        talk.answer(question)
    return OK


def _converse(talk: Talk) -> int:
    """Ask for lines until Ctrl-D, `/exit`, or Ctrl-C twice at the prompt."""
    import readline  # noqa: F401 gives `input` line editing and a history that lives as long as the talk

    shell = talk.shell
    shell.note(shell.words("chat.welcome", url=talk.gateway.url))
    left_once = False
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            shell.note("")
            return OK
        except KeyboardInterrupt:
            if left_once:
                shell.note("")
                return INTERRUPTED
            left_once = True
            shell.note(f"\n{shell.words('chat.how_to_leave')}")
            continue
        left_once = False
        if line in {"/exit", "/quit"}:
            return OK
        if line == "/new":
            talk.messages = []
            shell.note(shell.words("chat.forgotten"))
        elif line in {"/help", "/?"}:
            shell.note(shell.words("chat.commands"))
        elif line:
            _turn(talk, line)


def _turn(talk: Talk, line: str) -> None:
    """One question of many: what goes wrong is told, and the talk goes on."""
    try:
        talk.answer(line)
    except KeyboardInterrupt:
        talk.shell.note(talk.shell.words("chat.stopped"))
    except RequestFailedError as error:
        talk.shell.failed(error)


def _piped() -> str | None:
    """What was piped in; None if a person sits at the terminal."""
    return None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()


def _piece(event: Mapping[str, Any]) -> tuple[str, str | None]:
    """The text that an event brings, and why the answer ended if it did."""
    choices = event.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    delta = first.get("delta") or {}
    return str(delta.get("content") or delta.get("refusal") or ""), first.get("finish_reason")


def _write(piece: str) -> None:
    sys.stdout.write(piece.translate(_UNPRINTABLE) if sys.stdout.isatty() else piece)
    sys.stdout.flush()


def _end_line() -> None:
    sys.stdout.write("\n")
    sys.stdout.flush()
