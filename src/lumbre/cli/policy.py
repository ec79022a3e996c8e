"""Decides how the routing policy is shown and chosen at the shell. `main` drives it; the gateway holds it."""

from typing import Annotated

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import ask
from lumbre.cli.exits import OK
from lumbre.cli.flow_text import policy_text
from lumbre.cli.login import login_name
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.shell import shell_of

_POLICY = "/v1/flow/policy"


def policy(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="policy.name", metavar="NAME")] = None,
    lasting: Annotated[str | None, typer.Option("--for", help="policy.for", metavar="TIME")] = None,
    url: Url = None,
    key: Key = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Show the policy that holds, or choose another."""
    shell = shell_of(context)
    if name is None and lasting is not None:
        raise typer.BadParameter(shell.words("policy.for_needs_name"))
    gateway = find_gateway(shell.words, url=url, key=key, config=config)
    wanted = None if name is None else {"policy": name, "for": lasting, "by": login_name()}
    holds = ask(gateway, _POLICY, "policy", wanted)
    if json:
        shell.data(holds)
    else:
        shell.line(policy_text(holds, shell.words))
    return OK
