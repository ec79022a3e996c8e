"""Decides how the ledger's records are shown at the shell. `main` drives it; the gateway keeps them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import ask
from lumbre.cli.exits import OK, RequestFailedError
from lumbre.cli.flow_text import NOTHING, cell, moment, policy_text, switch_text, usd
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.shell import Shell, shell_of
from lumbre.cli.words import Words

LAST = 20
"""How many records are shown when none are asked for by name."""

_OF_ALL = ("at", "kind", "decision", "tier", "node", "status", "cost", "outcome")
_OF_ONE = ("at", "kind", "tier", "node", "model", "status", "cost", "outcome")


def ledger(
    context: typer.Context,
    decision: Annotated[str | None, typer.Argument(help="ledger.decision", metavar="DECISION")] = None,
    url: Url = None,
    key: Key = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Show the records of one decision, or the last ones of all; exit 1 if the decision has none."""
    shell = shell_of(context)
    gateway = find_gateway(shell.words, url=url, key=key, config=config)
    query = f"limit={LAST}" if decision is None else f"decision={quote(decision, safe='')}"
    told = ask(gateway, f"/v1/ledger?{query}", "records")
    records = told["records"]
    if decision is not None and not records:
        raise RequestFailedError(shell.words("ledger.unknown", decision=decision), code="unknown_decision")
    if json:
        shell.data(told)
    elif not records:
        shell.say("ledger.empty")
    else:
        _show(shell, records, _OF_ALL if decision is None else _OF_ONE)
        if decision is not None:
            _show_reasons(shell, records)
    return OK


def _show(shell: Shell, records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    heads = tuple(shell.words(f"column.{column}") for column in columns)
    shell.table([heads, *([_cells(record, shell.words)[column] for column in columns] for record in records)])


def _show_reasons(shell: Shell, records: Sequence[Mapping[str, Any]]) -> None:
    """Why it went where it went: the steps of its decision, which the request's own record has."""
    requests = [record for record in records if record["kind"] == "request"]
    reasons = (requests or records)[0]["reasons"]
    if reasons:
        shell.line("")
        shell.table([(str(reason),) for reason in reasons])


def _cells(record: Mapping[str, Any], words: Words) -> Mapping[str, str]:
    cost = record["cost_microusd"]
    return {
        **{name: cell(record[name]) for name in ("decision", "tier", "node", "model", "status")},
        "at": moment(record["at"]),
        "kind": words(f"record.{record['kind']}") if f"record.{record['kind']}" in words else cell(record["kind"]),
        "cost": NOTHING if cost is None else usd(cost),
        "outcome": _outcome(record, words),
    }


def _outcome(record: Mapping[str, Any], words: Words) -> str:
    """What became of it, of whatever kind it is."""
    match record["kind"]:
        case "crossing":
            return cell(record.get("host"))
        case "switch":
            what = f"{record.get('switch')} {switch_text(record, words)}"
        case "policy":
            what = policy_text(record, words)
        case _:
            return cell(record.get("outcome"))
    reasons = ": ".join(map(str, record["reasons"]))
    return ", ".join(part for part in (what, record.get("by"), reasons) if part)
