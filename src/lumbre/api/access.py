"""Who may speak to the gateway, by the Host and Origin headers, and by a key where one is demanded.

Drivers over ASGI: wrappers before every route, which read no body.

A browser sends any page's requests to localhost. What protects the gateway from a page is that a foreign Origin, or a
Host that a rebound DNS name brought along, is refused.
"""

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from lumbre.api.asgi_client import AsgiClient
from lumbre.api.openai import header_map, tell
from lumbre.core.errors import CallerError
from lumbre.runtime.keys import Keys

_HTTP_PORT = 80
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
    """Lets a request through, or answers it with 403, by where it says it goes to and comes from.

    Args:
        hosts: further names that may stand in Host; `name:port` is allowed with that port alone.
        origins: web origins whose pages may call.
        beyond_loopback: the gateway is reached by addresses of this machine that it does not know.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Sequence[str],
        origins: Sequence[str],
        beyond_loopback: bool,
    ) -> None:
        self._app = app
        self._hosts = {("localhost", None), *(_name_and_port(host) for host in hosts)}
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        self._beyond_loopback = beyond_loopback
        if beyond_loopback:
            name = socket.gethostname().lower()
            self._hosts |= {(name, None), (f"{name.split('.')[0]}.local", None)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http":
            try:
                self._check(scope)
            except CallerError as error:
                await tell(AsgiClient(send), error, None)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = header_map(scope)
        host = headers.get("host", "")
        if not self._knows(host):
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
    bare_ipv6 = host.count(":") > 1 and not host.startswith("[")
    parts = _split(f"//[{host}]" if bare_ipv6 else f"//{host}")
    return ("", None) if parts is None else ((parts.hostname or "").lower(), parts.port)


class KeyCheck:
    """Lets a request through that brings a key of the gateway's, or answers it with 401."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        is_open = scope["type"] != "http" or scope["path"] in OPEN_PATHS
        if is_open or self._keys.admits(_key(header_map(scope))):
            await self._app(scope, receive, send)
            return
        message = "this gateway wants its key: `Authorization: Bearer lumbre-…` (made at `lumbre up --new-key`)"
        error = CallerError(message, status=401, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
        await tell(AsgiClient(send), error, None)


def _key(headers: dict[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
