"""Tier C's lane, and the purse that it and the burst nodes are paid from, out of the settings. Driver."""

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta

from lumbre.backends.permit import Address
from lumbre.core.errors import SettingsError
from lumbre.gateway.budget import ALL, MICRO, TokenPrice
from lumbre.gateway.capability import Capability
from lumbre.gateway.health import Health, HealthState
from lumbre.ledger.records import Entry
from lumbre.ledger.store import Ledger, utc_now
from lumbre.runtime.lanes import Lane
from lumbre.runtime.purse import COUNTED, Purse
from lumbre.runtime.schema import Settings, TierCSection
from lumbre.runtime.sources import said

OUTSIDE = "tier-c"
"""The id of tier C's one upstream."""

log = logging.getLogger(__name__)

_ENDPOINTS = {
    "openai": frozenset({"chat/completions"}),
    "anthropic": frozenset({"chat/completions", "messages"}),
}


def outside_of(given: TierCSection, secret: Callable[[str], str]) -> Lane | None:
    """The lane of the outside API; without an address it has no key. None: the settings name no such API."""
    if given.base_url is None:
        return None
    own = said(given, given.context_tokens)
    known = Capability(endpoints=_ENDPOINTS[given.api])
    lane = Lane(
        OUTSIDE,
        given.slots,
        given.model,
        health=Health(HealthState.READY),
        models=(given.model, *(name for name in given.direct if name != "*" and not name.startswith("sha256:"))),
        asked=True,
        settled=True,
        said=own.over(known),
        api=given.api,
        outside=True,
        redacts=given.redact,
        max_tokens=given.max_tokens,
    )
    key = _key(given, secret)
    if key is not None:
        lane.address = Address(str(given.base_url).rstrip("/"), key, given.api)
    return lane


def _key(given: TierCSection, secret: Callable[[str], str]) -> str | None:
    """The key; None, and a warning, if there is none: then there is no tier C."""
    try:
        return secret(given.api_key_env) if given.api_key_env else _key_in_file(given)
    except (SettingsError, OSError, UnicodeDecodeError) as error:
        log.warning("tier C is off: it has no key (%s)", error)
        return None


def _key_in_file(given: TierCSection) -> str:
    if given.api_key_file is None:
        raise SettingsError("[tier_c] names no key")
    key = given.api_key_file.expanduser().read_text(encoding="utf-8").strip()
    if not key or not (key.isascii() and key.isprintable()):
        raise SettingsError(f"{given.api_key_file} holds no key")
    return key


def made_purse(settings: Settings, ledger: Ledger, news: Callable[[], None]) -> Purse:
    """The day's money, less what the ledger says was spent of it before this start."""
    limits = {
        ALL: settings.flow.daily_budget_usd,
        "B": settings.tier_b.daily_budget_usd,
        "C": settings.tier_c.daily_budget_usd,
    }
    given = settings.tier_c
    purse = Purse(
        {key: _microusd(usd) for key, usd in limits.items() if usd is not None},
        {node.id: _microusd(node.usd_per_hour) for node in settings.tier_b.nodes},
        TokenPrice(_microusd(given.usd_per_million_prompt), _microusd(given.usd_per_million_completion)),
        longest_s=settings.deadlines.total_s,
        now=utc_now,
        news=news,
        write=ledger.add_now,
    )
    for warning in purse.warnings:
        log.warning("%s", warning)
    day = utc_now().date()
    try:
        purse.restore(_today(ledger, day), _before(ledger, day, settings.deadlines.total_s))
    except OSError as error:
        log.error("the ledger cannot be read, so nothing is spent today: %s", error)
        purse.fail_closed(f"the ledger cannot be read: {error.strerror or error}")
    return purse


def _today(ledger: Ledger, day: date) -> Iterator[Entry]:
    return ledger.today(day, kinds=COUNTED, tiers=("B", "C"))


def _before(ledger: Ledger, day: date, longest_s: float) -> Iterator[Entry]:
    """The end of the day before: what began then may still have been on its way when this one did."""
    since = (datetime.combine(day, time(), UTC) - timedelta(seconds=longest_s)).isoformat()
    return (entry for entry in _today(ledger, day - timedelta(days=1)) if str(entry.get("at")) >= since)


def _microusd(usd: float) -> int:
    return round(usd * MICRO)
