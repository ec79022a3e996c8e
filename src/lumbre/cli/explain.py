"""Decides how a decision is asked for and shown at the shell. `main` drives it; the gateway decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import ask
from lumbre.cli.exits import FAILED, OK
from lumbre.cli.flow_text import cell, place_text
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.screen import printable
from lumbre.cli.shell import Shell, shell_of
from lumbre.cli.words import Words

_COLUMNS = ("step", "tier", "verdict", "reason", "why")
# Any schema will do: the decision depends on its being strict, and nobody answers.
_STRICT = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    },
}


@dataclass(frozen=True)
class Supposed:
    """What the request would carry.

    Attributes:
        question: its only message; None: the body has the messages.
        body: a file with a whole chat body, `-` for standard input.
        hints: laid over those of the body.
    """

    question: str | None
    body: str | None
    model: str | None
    strict_json: bool
    hints: Mapping[str, str]

    def request(self, words: Words) -> dict[str, Any]:
        """The chat request to decide on.

        Raises:
            BadFileError: the file cannot be read, or is no JSON object.
        """
        asked = {"model": "auto", "messages": [{"role": "user", "content": self.question}]}
        request: dict[str, Any] = asked if self.body is None else _body(self.body, words)
        if self.model is not None:
            request["model"] = self.model
        if self.strict_json:
            request["response_format"] = _STRICT
        said: object = request.get("lumbre") or {}
        if self.hints and isinstance(said, dict):  # where it is something else, the gateway says so
            request["lumbre"] = {**said, **self.hints}
        return request


def explain(  # shape: a command's parameters are its flags
    context: typer.Context,
    question: Annotated[str | None, typer.Argument(help="explain.question", metavar="QUESTION")] = None,
    body: Annotated[str | None, typer.Option("--body", help="explain.body", metavar="FILE")] = None,
    model: Annotated[str | None, typer.Option("--model", help="explain.model", metavar="NAME")] = None,
    tier: Annotated[str | None, typer.Option("--tier", help="explain.tier", metavar="A|B|C")] = None,
    label: Annotated[str | None, typer.Option("--label", help="explain.label", metavar="LABEL")] = None,
    complexity: Annotated[str | None, typer.Option("--complexity", help="explain.complexity", metavar="LEVEL")] = None,
    affinity: Annotated[str | None, typer.Option("--affinity", help="explain.affinity", metavar="A|B|C")] = None,
    klass: Annotated[str | None, typer.Option("--class", help="explain.class", metavar="CLASS")] = None,
    closed: Annotated[str | None, typer.Option("--closed", help="explain.closed", metavar="MODE")] = None,
    external: Annotated[str | None, typer.Option("--external", help="explain.external", metavar="never|allow")] = None,
    strict_json: Annotated[bool, typer.Option("--strict-json", help="explain.strict_json")] = False,
    url: Url = None,
    key: Key = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Exit 0 if the request would be served, 1 if it would be refused."""
    shell = shell_of(context)
    if (question is None) == (body is None):
        raise typer.BadParameter(shell.words("explain.question_or_body"))
    said = {
        "tier": tier,
        "label": label,
        "complexity": complexity,
        "affinity": affinity,
        "class": klass,
        "closed": closed,
        "external": external,
    }
    hints = {name: value for name, value in said.items() if value is not None}
    request = Supposed(question, body, model, strict_json, hints).request(shell.words)
    gateway = find_gateway(shell.words, url=url, key=key, config=config)
    decision = ask(gateway, "/v1/flow/explain", "outcome", request)
    if json:
        shell.data(decision)
    else:
        _show(shell, decision)
    return FAILED if decision["outcome"] == "reject" else OK


def _body(name: str, words: Words) -> dict[str, Any]:
    from lumbre.cli.json_file import BadFileError, read_json

    file = read_json(name, words)
    if not isinstance(file.value, dict):
        raise BadFileError(f"{file.shown}: {words('explain.no_object')}")
    return file.value


def _show(shell: Shell, decision: Mapping[str, Any]) -> None:
    words = shell.words
    shell.line(printable(_outcome(decision, words)))
    shell.line(_known(decision, words))
    shell.line("")
    steps = [
        (
            cell(step["step"]),
            cell(step["tier"]),
            words(f"verdict.{step['verdict']}"),
            _reason(step["reason"], words),
            cell(step["text"]),
        )
        for step in decision["steps"]
    ]
    shell.table([tuple(words(f"column.{column}") for column in _COLUMNS), *steps])
    if decision["attempts"]:
        shell.line("")
        shell.say("explain.attempts")
        for number, attempt in enumerate(decision["attempts"], 1):
            shell.line(f"{number}. {printable(place_text(attempt, words))}")


def _reason(code: str, words: Words) -> str:
    """A step's reason in the reader's language; a policy, or an error's code, stays as the gateway says it."""
    return words(f"reason.{code}") if f"reason.{code}" in words else code


def _outcome(decision: Mapping[str, Any], words: Words) -> str:
    if decision["outcome"] == "reject":
        told = {name: decision[name] for name in ("status", "code", "message")}
        return words("explain.reject", **told)
    if decision["tier"] is None:
        return words("explain.wait")
    return words(f"explain.{decision['outcome']}", place=place_text(decision, words))


def _known(decision: Mapping[str, Any], words: Words) -> str:
    """What the decision went by."""
    parts = [words("explain.policy", policy=decision["policy"])]
    parts += [words("explain.went_by", complexity=decision["complexity"], klass=decision["class"])]
    if decision["strict_json"]:
        parts.append(words("explain.strict"))
    if decision["affinity"] is not None:
        parts.append(words("explain.bound", tier=decision["affinity"]))
    return ", ".join(parts)
