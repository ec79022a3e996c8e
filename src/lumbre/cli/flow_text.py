"""Decides how switches, breakers, money and moments read for people. Pure; the commands for the flow print it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lumbre.cli.words import Words

NOTHING = "-"


def switch_text(switch: Mapping[str, Any], words: Words) -> str:
    """`closed (stopped)` or `open (flowing)`."""
    return _shown("switch", switch, words)


def breaker_text(breaker: object, words: Words) -> str:
    """`closed (flowing)`, `open (tripped)` or `half_open`; a gateway before the breakers says nothing of one."""
    return _shown("breaker", breaker, words) if isinstance(breaker, Mapping) else NOTHING


def state_text(state: object, words: Words) -> str:
    """The state in the reader's language; one that is not known here stays as the gateway says it."""
    code = f"state.{state}"
    return words(code) if code in words else cell(state)


def usd(microusd: int) -> str:
    """`0.000017 USD`: whole micro-dollars, two decimals at least."""
    whole, micro = divmod(microusd, 1_000_000)
    return f"{whole}.{f'{micro:06}'.rstrip('0').ljust(2, '0')} USD"


def moment(at: object) -> str:
    """`2026-01-31 14:05:09Z`, to the second."""
    try:
        return f"{datetime.fromisoformat(str(at)).astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    except ValueError:
        return cell(at)


def policy_text(policy: Mapping[str, Any], words: Words) -> str:
    """A policy's name; of one that ends, when, and which comes back if that is told."""
    if policy.get("until") is None:
        return str(policy["policy"])
    text = words("policy.until", policy=policy["policy"], until=moment(policy["until"]))
    default = policy.get("default")
    return text if default is None else words("policy.then", text=text, default=default)


def mover_text(switch: Mapping[str, Any]) -> str:
    """Who moved a switch, when and why: `maria, 2026-01-31 14:05:09Z: budget`."""
    who = ", ".join(part for part in (cell(switch.get("by")), moment(switch.get("at"))) if part != NOTHING)
    reason = switch.get("reason")
    return f"{who}: {reason}" if reason else who


def place_text(place: Mapping[str, Any], words: Words) -> str:
    """`tier B, label express: gpu-1`."""
    tier, label, node = place["tier"], place["label"], place["node"]
    named = words("flow.tier", tier=tier) if label is None else words("flow.label", tier=tier, label=label)
    return named if node is None else f"{named}: {node}"


def cell(value: object) -> str:
    """What stands in a table for a value that may be missing."""
    return NOTHING if value is None or value == "" else str(value)


def _shown(kind: str, thing: Mapping[str, Any], words: Words) -> str:
    code = f"{kind}.{thing.get('state')}"
    return words(code) if code in words else cell(thing.get("shown"))
