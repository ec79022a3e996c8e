"""Decides which gateway a client command speaks to: flag, environment, the one that runs, or settings."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from lumbre.cli.client import Gateway
from lumbre.cli.words import Words
from lumbre.core.errors import SettingsError
from lumbre.runtime import settings
from lumbre.runtime.machine import reachable_host

RUNNING_FILE = "gateway.json"


def find_gateway(words: Words, *, url: str | None, key: str | None, config: Path | None = None) -> Gateway:
    """The gateway to speak to.

    Raises:
        SettingsError: an address that is none, or settings that are wrong where they had to be read.
    """
    place = settings.client_place()
    said = url or place.url
    source = "--url" if url else "LUMBRE_URL"
    address = _checked(words, said, source) if said else _from_settings(words, config)
    return Gateway(address, key or place.key, words)


def running_url(state_dir: Path) -> str | None:
    """The address that a running `lumbre up` wrote into its state folder; None once its process is gone."""
    try:
        told = json.loads((state_dir / RUNNING_FILE).read_text(encoding="utf-8"))
        alive = Path(f"/proc/{int(told['pid'])}").exists() or not Path("/proc/self").exists()
        return str(told["url"]).rstrip("/") if alive else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _from_settings(words: Words, config: Path | None) -> str:
    gateway = settings.load(config=config, overrides={}, lang=words.lang).settings.gateway
    if found := running_url(gateway.state_dir):
        return found
    host = reachable_host(gateway.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{gateway.port or 8484}"


def _checked(words: Words, text: str, source: str) -> str:
    """An address with a scheme and without what the paths bring: `127.0.0.1:8484/v1/` is understood."""
    full = text if "://" in text else f"http://{text}"
    try:
        place = urlsplit(full)
        sound = place.scheme in {"http", "https"} and bool(place.hostname) and place.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise SettingsError(words("client.bad_url", source=source, url=text))
    return full.rstrip("/").removesuffix("/v1").rstrip("/")
