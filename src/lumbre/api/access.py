"""Who may speak to the gateway, by the Host and Origin headers, and by a key where one is demanded. Pure but for this
machine's name; the front asks before a body is read.

A browser sends any page's requests to localhost. What protects the gateway from a page is that a foreign Origin, or a
Host that a rebound DNS name brought along, is refused.
"""

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from lumbre.core.errors import CallerError
from lumbre.runtime.keys import Keys

_HTTP_PORT = 80
_REMEMBERED_HOSTS = 256
_LONGEST_NAME = 256
_NO_PART_OF_A_HOST = frozenset("/?#@\\")
OPEN_PATHS = frozenset({"/healthz"})


def is_loopback(host: str) -> bool:
    """Whether a host to listen on is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Lets a request in or not, by where it says it goes to and comes from, and by its key.

    Args:
        hosts: further names that may stand in Host; `name:port` is allowed with that port alone.
        origins: web origins whose pages may call.
        beyond_loopback: the gateway is reached by addresses of this machine that it does not know.
        keys: who may come in; None where everybody on this machine may.
    """

    def __init__(
        self,
        *,
        hosts: Sequence[str],
        origins: Sequence[str],
        beyond_loopback: bool,
        keys: Keys | None,
    ) -> None:
        self._keys = keys
        self._known: dict[str, bool] = {}
        self._hosts = {("localhost", None), *(_name_and_port(host) for host in hosts)}
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        self._beyond_loopback = beyond_loopback
        if beyond_loopback:
            name = socket.gethostname().lower()
            self._hosts |= {(name, None), (f"{name.split('.')[0]}.local", None)}

    def check(self, path: str, headers: Mapping[str, str], *, preflight: bool = False) -> None:
        """Look at a request's head.

        Args:
            headers: names in lower case.
            preflight: a browser asks whether its page may call; such a question carries no key.

        Raises:
            CallerError: 403 `host_not_allowed` or `origin_not_allowed`, 401 `invalid_api_key`.
        """
        self._check_place(headers)
        if self._keys is None or preflight or path in OPEN_PATHS or self._keys.admits(key_in(headers)):
            return
        message = "this gateway wants its key: `Authorization: Bearer lumbre-…` (made at `lumbre up --new-key`)"
        raise CallerError(message, status=401, code="invalid_api_key", headers={"www-authenticate": "Bearer"})

    def allows_page(self, origin: str) -> bool:
        """Whether the operator has named this origin as one whose pages may call."""
        return origin.lower() in self._origins

    def _check_place(self, headers: Mapping[str, str]) -> None:
        if "host" not in headers and "origin" not in headers:
            return  # HTTP/1.0 without one, as health checks speak it; no browser does, so no page hides behind it
        host = headers.get("host", "")
        known = self._known.get(host)
        if known is None:
            known = self._knows(host)
            if known and len(host) <= _LONGEST_NAME and len(self._known) < _REMEMBERED_HOSTS:
                self._known[host] = known
        if not known:
            message = f"the Host {host!r} is none of this gateway's names; add it to [gateway] allowed_hosts"
            raise CallerError(message, status=403, code="host_not_allowed")
        origin = headers.get("origin")
        if origin is not None and not self._trusts(origin, host):
            message = f"pages of {origin} may not call this gateway; add it to [gateway] allowed_origins"
            raise CallerError(message, status=403, code="origin_not_allowed")

    def _knows(self, host: str) -> bool:
        name, port = _name_and_port(host)
        if name and not self._hosts.isdisjoint({(name, None), (name, port or _HTTP_PORT)}):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # No name, no rebinding: a page cannot get an address of ours into Host without being refused by its Origin.
        return address.is_loopback or self._beyond_loopback

    def _trusts(self, origin: str, host: str) -> bool:
        parts = _split(origin)
        return parts is not None and (origin.lower() in self._origins or parts.netloc.lower() == host.lower())


def _split(url: str) -> SplitResult | None:
    """An address in parts; None for what is none, such as `//[::1` or `//host:port`."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # only when it is asked for is it looked at
    except ValueError:
        return None
    return parts


def _name_and_port(host: str) -> tuple[str, int | None]:
    """What a Host header says, in lower case; the name is empty where that is no host."""
    if not _NO_PART_OF_A_HOST.isdisjoint(host):
        return "", None
    bare_ipv6 = host.count(":") > 1 and not host.startswith("[")
    parts = _split(f"//[{host}]" if bare_ipv6 else f"//{host}")
    return ("", None) if parts is None else ((parts.hostname or "").lower(), parts.port)


def key_in(headers: Mapping[str, str]) -> str:
    """The key that a request came with, in either API's way; empty for none."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
