"""Decides how kill switches are shown and moved at the shell. `main` drives it; the gateway holds them."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import Gateway, ask
from lumbre.cli.exits import OK, RequestFailedError
from lumbre.cli.flow_text import cell, moment, switch_text
from lumbre.cli.login import login_name
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.shell import Shell, shell_of

SWITCHES = "/v1/flow/switches"

_STATES = {"close": "closed", "open": "open"}
_COLUMNS = ("name", "kind", "state", "by", "at", "reason")


def switch(  # shape: a command's parameters are its flags
    context: typer.Context,
    move: Annotated[str | None, typer.Argument(help="switch.move", metavar="close|open")] = None,
    name: Annotated[str | None, typer.Argument(help="switch.name", metavar="NAME")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="switch.reason", metavar="TEXT")] = None,
    url: Url = None,
    key: Key = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Show the switches, or close or open one."""
    shell = shell_of(context)
    if move is not None and (move not in _STATES or name is None):
        raise typer.BadParameter(shell.words("switch.usage"))
    if move is None and reason is not None:
        raise typer.BadParameter(shell.words("switch.reason_needs_move"))
    gateway = find_gateway(shell.words, url=url, key=key, config=config)
    if move is None or name is None:
        told = ask(gateway, SWITCHES, "switches")
        shell.data(told) if json else _show(shell, told)
        return OK
    moved = _move(gateway, name, _STATES[move], reason)
    if json:
        shell.data(moved)
    else:
        shell.say("switch.is", name=moved["name"], state=switch_text(moved, shell.words))
    return OK


def _move(gateway: Gateway, name: str, state: str, reason: str | None) -> Mapping[str, Any]:
    """Move a switch.

    Raises:
        RequestFailedError: it was not moved, or that could not be written down.
    """
    path = f"{SWITCHES}/{quote(name, safe='')}"
    try:
        return ask(gateway, path, "state", {"state": state, "reason": reason, "by": login_name()})
    except RequestFailedError as error:
        if error.status < 500:
            raise
        # A closing holds even if it could not be written down: whoever stops a bill has to know which it is.
        stands = ask(gateway, path, "state")
        code = "switch.not_kept" if stands["state"] == state else "switch.stays"
        told = gateway.words(code, name=stands["name"], state=switch_text(stands, gateway.words))
        raise RequestFailedError(f"{error.message}\n{told}", code=error.code, status=error.status) from error


def _show(shell: Shell, told: Mapping[str, Any]) -> None:
    words = shell.words
    rows = [
        (
            cell(each["name"]),
            words(f"kind.{each['kind']}"),
            switch_text(each, words),
            cell(each["by"]),
            moment(each["at"]),
            cell(each["reason"]),
        )
        for each in told["switches"]
    ]
    shell.table([tuple(words(f"column.{column}") for column in _COLUMNS), *rows])
