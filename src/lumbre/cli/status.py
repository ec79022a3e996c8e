"""Decides how the state of a running gateway is shown. `main` drives it; the facts are the gateway's own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from lumbre.cli.address import find_gateway
from lumbre.cli.client import Gateway, fetch
from lumbre.cli.exits import FAILED, OK, GatewayUnreachableError, RequestFailedError
from lumbre.cli.flow_text import breaker_text, cell, mover_text, policy_text, state_text, switch_text, usd
from lumbre.cli.options import Config, Json, Key, Url
from lumbre.cli.screen import printable
from lumbre.cli.shell import Shell, shell_of
from lumbre.cli.words import Words

_TIER_COLUMNS = ("tier", "state", "reasons")
_UPSTREAM_COLUMNS = ("upstream", "tier", "state", "breaker", "in_flight", "waiting", "slots")


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
    """One object out of `/readyz`, `/healthz`, `/v1/models` and `/v1/flow`, which is null where it is not told."""
    reply = fetch(gateway, "/readyz")
    if reply.status == 401:
        raise RequestFailedError(gateway.words("client.key"), code="invalid_api_key")
    readiness = reply.body
    if not isinstance(readiness.get("tiers"), dict):
        raise GatewayUnreachableError(gateway.words("client.no_lumbre", url=gateway.url))
    models, flow = fetch(gateway, "/v1/models"), fetch(gateway, "/v1/flow")
    listed = models.body.get("data") or ()
    return {
        "url": gateway.url,
        "alive": fetch(gateway, "/healthz").body.get("alive") is True,
        "ready": readiness.get("ready") is True,
        "tiers": readiness["tiers"],
        "warnings": list(readiness.get("warnings") or ()),
        "models": [str(entry["id"]) for entry in listed if isinstance(entry, dict) and "id" in entry],
        "models_status": models.status,
        "flow": flow.body if flow.status == 200 and "switches" in flow.body else None,
        "flow_status": flow.status,
    }


def _show(shell: Shell, facts: Mapping[str, Any]) -> None:
    words = shell.words
    shell.say("status.ready" if facts["ready"] else "status.not_ready", url=facts["url"])
    tiers = sorted(facts["tiers"].items())
    shell.line("")
    shell.table([_heads(words, _TIER_COLUMNS), *(_tier_row(words, name, tier) for name, tier in tiers)])
    upstreams = [
        _upstream_row(words, {**upstream, "tier": name})
        for name, tier in tiers
        for upstream in tier.get("upstreams") or ()
    ]
    if upstreams:
        shell.line("")
        shell.table([_heads(words, _UPSTREAM_COLUMNS), *upstreams])
    shell.line("")
    flow = facts["flow"]
    for line in _flow_lines(words, flow) if flow is not None else ():
        shell.line(printable(line))
    if facts["flow_status"] == 401:
        shell.say("status.flow_needs_key")
    shell.line(_models_line(shell, facts))
    for warning in dict.fromkeys((*facts["warnings"], *(() if flow is None else flow["problems"]))):
        shell.say("status.warning", warning=printable(str(warning)))


def _tier_row(words: Words, name: str, tier: Mapping[str, Any]) -> Sequence[str]:
    return (name, state_text(tier.get("state"), words), cell("; ".join(map(str, tier.get("reasons") or ()))))


def _upstream_row(words: Words, upstream: Mapping[str, Any]) -> Sequence[str]:
    cells = {
        **upstream,
        "upstream": upstream.get("id"),
        "state": state_text(upstream.get("state"), words),
        "breaker": breaker_text(upstream.get("breaker"), words),
    }
    return tuple(cell(cells.get(column)) for column in _UPSTREAM_COLUMNS)


def _flow_lines(words: Words, flow: Mapping[str, Any]) -> Iterator[str]:
    """The policy, the closed switches and the day's budget."""
    yield words("status.policy", policy=policy_text(flow["policy"], words))
    for switch in flow["switches"]:
        if switch["state"] == "closed":
            yield words(
                "status.switch", name=switch["name"], state=switch_text(switch, words), mover=mover_text(switch)
            )
    budget = flow["budget"]
    limit = budget["limit_microusd"]
    yield words(
        "status.budget",
        spent=usd(budget["spent_microusd"]),
        reserved=usd(budget["reserved_microusd"]),
        limit=words("status.no_limit") if limit is None else usd(limit),
    )


def _heads(words: Words, columns: Sequence[str]) -> Sequence[str]:
    return tuple(words(f"column.{column}") for column in columns)


def _models_line(shell: Shell, facts: Mapping[str, Any]) -> str:
    if facts["models_status"] == 401:
        return shell.words("status.models_need_key")
    names = ", ".join(facts["models"]) or "-"
    return shell.words("status.models", names=names)
