"""Decides how the burst nodes are shown at the shell. `main` drives it; the facts are the gateway's own."""

from collections.abc import Sequence

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import ask
from lumbre.cli.exits import OK
from lumbre.cli.flow_text import breaker_text, cell, state_text, usd
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.shell import shell_of

_COLUMNS = ("node", "labels", "state", "breaker", "in_flight", "cost_today")


def nodes(context: typer.Context, url: Url = None, key: Key = None, config: Config = None, json: Json = False) -> int:
    """Show them."""
    shell = shell_of(context)
    words = shell.words
    told = ask(find_gateway(words, url=url, key=key, config=config), "/v1/flow/nodes", "nodes")
    if json:
        shell.data(told)
        return OK
    rows: list[Sequence[str]] = [
        (
            cell(node["id"]),
            ", ".join(node["labels"]),
            state_text(node["state"], words),
            breaker_text(node["breaker"], words),
            cell(node["in_flight"]),
            usd(node["cost_microusd"]),
        )
        for node in told["nodes"]
    ]
    if rows:
        shell.table([tuple(words(f"column.{column}") for column in _COLUMNS), *rows])
    else:
        shell.say("nodes.none")
    return OK
