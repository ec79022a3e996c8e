"""Decides how the state of a running gateway is shown. `main` drives it; the facts are the gateway's own."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import Gateway, fetch
from lumbre.cli.exits import FAILED, OK, GatewayUnreachableError, RequestFailedError
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.shell import Shell, shell_of

UPSTREAM_COLUMNS = ("id", "state", "in_flight", "waiting", "slots")


def status(context: typer.Context, url: Url = None, key: Key = None, config: Config = None, json: Json = False) -> int:
    """Exit 0 if the gateway can serve now, 1 if it answers and cannot, 4 if it does not answer."""
    shell = shell_of(context)
    gateway = find_gateway(shell.words, url=url, key=key, config=config)
    facts = _facts(gateway)
    if json:
        shell.data(facts)
    else:
        _show(shell, facts)
    return OK if facts["ready"] else FAILED


def _facts(gateway: Gateway) -> dict[str, Any]:
    """One object out of `/readyz`, `/healthz` and `/v1/models`."""
    reply = fetch(gateway, "/readyz")
    if reply.status == 401:
        raise RequestFailedError(gateway.words("client.key"), code="invalid_api_key")
    readiness = reply.body
    if not isinstance(readiness.get("tiers"), dict):
        raise GatewayUnreachableError(gateway.words("status.no_lumbre", url=gateway.url))
    models = fetch(gateway, "/v1/models")
    listed = models.body.get("data") or ()
    return {
        "url": gateway.url,
        "alive": fetch(gateway, "/healthz").body.get("alive") is True,
        "ready": readiness.get("ready") is True,
        "tiers": readiness["tiers"],
        "warnings": list(readiness.get("warnings") or ()),
        "models": [str(entry["id"]) for entry in listed if isinstance(entry, dict) and "id" in entry],
        "models_status": models.status,
    }


def _show(shell: Shell, facts: Mapping[str, Any]) -> None:
    shell.say("status.ready" if facts["ready"] else "status.not_ready", url=facts["url"])
    words = shell.words
    head = tuple(words(f"status.{column}") for column in ("tier", "state", "reasons"))
    shell.line("")
    shell.table([head, *(_tier_row(shell, name, tier) for name, tier in sorted(facts["tiers"].items()))])
    upstreams = [
        _upstream_row(shell, upstream) for tier in facts["tiers"].values() for upstream in tier.get("upstreams") or ()
    ]
    if upstreams:
        shell.line("")
        titles = tuple(words(f"status.{column}") for column in ("upstream", *UPSTREAM_COLUMNS[1:]))
        shell.table([titles, *upstreams])
    shell.line("")
    shell.line(_models_line(shell, facts))
    for warning in facts["warnings"]:
        shell.say("status.warning", warning=warning)


def _tier_row(shell: Shell, name: str, tier: Mapping[str, Any]) -> Sequence[str]:
    reasons = ", ".join(map(str, tier.get("reasons") or ())) or "-"
    return (name, _state(shell, tier.get("state")), reasons)


def _upstream_row(shell: Shell, upstream: Mapping[str, Any]) -> Sequence[str]:
    cells = {**upstream, "state": _state(shell, upstream.get("state"))}
    return tuple(str(cells.get(column, "-")) for column in UPSTREAM_COLUMNS)


def _state(shell: Shell, state: object) -> str:
    """The state in the reader's language; one that is not known here stays as the gateway says it."""
    code = f"state.{state}"
    return shell.words(code) if code in shell.words else str(state or "-")


def _models_line(shell: Shell, facts: Mapping[str, Any]) -> str:
    if facts["models_status"] == 401:
        return shell.words("status.models_need_key")
    names = ", ".join(facts["models"]) or "-"
    return shell.words("status.models", names=names)
