"""Puts a reply on an ASGI connection. Driver; one object a request."""

from starlette.types import Receive, Send

from lumbre.runtime.client import Headers


class AsgiClient:
    """The dispatcher's `Client` over ASGI."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.ended = False
        self._is_stream = False

    @property
    def takes_an_error(self) -> bool:
        """Whether an error can still be told: as the reply, or as a stream's last event."""
        return not self.started or (self._is_stream and not self.ended)

    async def head(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})
        # Only now: a head that was given up while the connection took nothing has not been sent.
        self.started = True
        self._is_stream = any(
            name == "content-type" and value.startswith("text/event-stream") for name, value in headers
        )

    async def piece(self, data: bytes) -> None:
        """Send a piece of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """The body is complete; whether the client stays makes no difference any more."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def until_gone(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        continue
