"""Hands a request to an ASGI app and its answer to the connection: the ordinary pages beside the inference paths.
Driver over ASGI 3.
"""

import asyncio

from starlette.types import ASGIApp, Message, Scope

from lumbre.api.reply import Reply
from lumbre.api.request import Request


class AsgiBridge:
    """The app as a handler of requests.

    Raises:
        Whatever the app raises; the connection then has no whole reply, and is cut.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer one request."""
        told = False

        async def receive() -> Message:
            nonlocal told
            if told:
                await asyncio.Event().wait()  # the client's leaving cancels the whole answer
            told = True
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
                reply.head(message["status"], headers)
                return
            reply.piece(message.get("body", b""))
            if not message.get("more_body"):
                reply.end()
            elif reply.congested:
                await reply.room()

        await self._app(_scope(request), receive, send)


def _scope(request: Request) -> Scope:
    raw_path, _, _ = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.version,
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": raw_path,
        "query_string": request.query,
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
        "client": None,
        "server": None,
        "state": {"decision": request.decision},
    }
