"""One HTTP request as the connection has taken it off the wire. Only data, and how its target is read."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lumbre.core.errors import CallerError, LumbreError

if TYPE_CHECKING:
    from lumbre.api.reply import Reply

Handler = Callable[["Request", "Reply"], Awaitable[None]]


@dataclass(slots=True)
class Request:
    """One request.

    Attributes:
        method: in capitals.
        target: as it stands in the request's line.
        path: decoded, without the query.
        query: as it stands behind the `?`, without it.
        version: `1.1` or `1.0`.
        headers: names in lower case; several of one name are one, with commas.
        body: whole.
        size: bytes of the head and the body, about.
        handler: who answers it; set when its head was let in.
        refusal: why nobody does.
        most_bytes: of its body; None: what any body may have.
        decision: the id by which its reply can be found again, where it has one before it is answered.
    """

    method: str = ""
    target: bytes = b""
    path: str = ""
    query: bytes = b""
    version: str = "1.1"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    size: int = 0
    handler: Handler | None = None
    refusal: LumbreError | None = None
    most_bytes: int | None = None
    decision: str | None = None

    def read_target(self) -> None:
        """Take path and query out of the target; an absolute one brings its own host, which counts (RFC 9112, 3.2.2).

        Raises:
            CallerError: it is none that a request may have.
        """
        target = self.target
        if not target.startswith(b"/"):
            target = self._without_origin(target)
        raw, _, self.query = target.partition(b"?")
        path = raw.decode("latin-1")
        self.path = unquote(path) if "%" in path else path

    def _without_origin(self, target: bytes) -> bytes:
        try:
            parts = urlsplit(target.decode("ascii"))
        except ValueError:
            parts = None
        if parts is None or parts.scheme.lower() not in ("http", "https") or not parts.netloc:
            raise CallerError("the request's target is no path of this gateway", code="invalid_http")
        self.headers["host"] = parts.netloc.rpartition("@")[2]
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.path or '/'}{query}".encode("ascii")


def keeps_alive(version: str, headers: Mapping[str, str]) -> bool:
    """Whether the client wants to go on with its connection after this request."""
    if "connection" not in headers:
        return version != "1.0"
    said = headers["connection"].lower()
    if version == "1.0":
        return "keep-alive" in said
    return "close" not in said
