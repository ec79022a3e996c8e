"""Decides nothing: asks a gateway over HTTP, hands back replies. Blocking; the commands drive it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lumbre.cli.exits import NO_ROUTE, GatewayUnreachableError, RequestFailedError
from lumbre.cli.words import Words

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

# http.client and ssl are imported where they are used: `lumbre --help` comes through here and shall be quick.
CONNECT_S = 5.0
# A stream is never silent for long: the gateway sends comments. Before its first byte it may wait for a slot.
SILENCE_S = 400.0
WHOLE_REPLY_S = 1900.0
# The slowest of the short questions: the gateway gives its ledger 30 s.
ANSWER_S = 40.0
REPLY_BYTES = 64 * 1_048_576


@dataclass(frozen=True)
class Gateway:
    """Where a gateway listens, `http://127.0.0.1:8484`, and the key it wants, empty for none."""

    url: str
    key: str = ""
    words: Words = field(default_factory=lambda: Words("en"))


@dataclass(frozen=True)
class Reply:
    """A JSON reply; `body` is empty if there was none."""

    status: int
    body: Mapping[str, Any]


def fetch(gateway: Gateway, path: str, deadline_s: float = CONNECT_S) -> Reply:
    """GET a JSON object, whatever its status.

    Raises:
        GatewayUnreachableError: nothing answers, or what answers does not speak HTTP.
    """
    with _exchange(gateway, "GET", path, None, deadline_s) as response:
        return Reply(response.status, _object(response.read(REPLY_BYTES)))


def ask(gateway: Gateway, path: str, key: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """GET a JSON object, or POST one and get another.

    Args:
        key: stands in every reply that is the answer.

    Raises:
        RequestFailedError: the gateway said no.
        GatewayUnreachableError: nothing answers, or what answers is no Lumbre.
    """
    reply = _request(gateway, path, body, ANSWER_S)
    if key not in reply:
        raise GatewayUnreachableError(gateway.words("client.no_lumbre", url=gateway.url))
    return reply


def complete(gateway: Gateway, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """POST a chat request and wait for the whole reply.

    Raises:
        RequestFailedError: the gateway said no, or the reply broke off.
    """
    return _request(gateway, "/v1/chat/completions", body, WHOLE_REPLY_S)


def events(gateway: Gateway, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """POST a chat request and yield each event of the stream as it comes; closing the iterator hangs up.

    Raises:
        RequestFailedError: an error before or in the stream, or an end that nobody announced.
    """
    wanted = {**body, "stream": True}
    with _exchange(gateway, "POST", "/v1/chat/completions", wanted, SILENCE_S) as response:
        if response.status != 200:
            _refuse(gateway.words, response.status, _object(response.read(REPLY_BYTES)))
        finished = False
        for data in _data_of(response):
            if data == "[DONE]":
                return
            event = _object(data)
            _refuse(gateway.words, response.status, event)
            finished = finished or _says_why(event)
            yield event
        if not finished:
            raise RequestFailedError(gateway.words("client.cut"), code="upstream_cut")


def _request(gateway: Gateway, path: str, body: Mapping[str, Any] | None, deadline_s: float) -> Mapping[str, Any]:
    with _exchange(gateway, "GET" if body is None else "POST", path, body, deadline_s) as response:
        reply = _object(response.read())
        _refuse(gateway.words, response.status, reply)
        return reply


def _says_why(event: Mapping[str, Any]) -> bool:
    """Whether a choice says its `finish_reason`; some engines end a stream with that and send no `[DONE]`."""
    choices = event.get("choices")
    return isinstance(choices, list) and any(isinstance(c, dict) and c.get("finish_reason") for c in choices)


def _data_of(response: "HTTPResponse") -> Iterator[str]:
    """The `data` of each event; comments and other fields are passed over."""
    lines: list[str] = []
    while raw := response.readline():
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []


@contextmanager
def _exchange(
    gateway: Gateway, method: str, path: str, body: Mapping[str, Any] | None, silence_s: float
) -> Iterator["HTTPResponse"]:
    """One request; leaving the scope in any way hangs up, so that the gateway stops the engine."""
    from http.client import HTTPException

    connection = _connect(gateway)
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if gateway.key:
        headers["Authorization"] = f"Bearer {gateway.key}"
    raw = None if body is None else json.dumps(body).encode()
    response = None
    try:
        connection.sock.settimeout(silence_s)
        connection.request(method, urlsplit(gateway.url).path + path, raw, headers)
        response = connection.getresponse()
        yield response
    except TimeoutError as error:
        text = gateway.words("client.silent", url=gateway.url, seconds=f"{silence_s:g}")
        raise RequestFailedError(text, code="gateway_silent") from error
    except (OSError, HTTPException) as error:
        if response is None:
            text = gateway.words("client.no_http", url=gateway.url, reason=type(error).__name__)
            raise GatewayUnreachableError(text) from error
        raise RequestFailedError(gateway.words("client.cut"), code="upstream_cut") from error
    finally:
        _hang_up(connection, response)


def _connect(gateway: Gateway) -> "HTTPConnection":
    import ssl
    from http.client import HTTPConnection, HTTPSConnection

    place = urlsplit(gateway.url)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=CONNECT_S)
    try:
        connection.connect()
    except ssl.SSLError as error:
        reason = error.reason or type(error).__name__
        raise GatewayUnreachableError(gateway.words("client.no_http", url=gateway.url, reason=reason)) from error
    except OSError as error:
        raise GatewayUnreachableError(gateway.words("client.unreachable", url=gateway.url)) from error
    return connection


def _hang_up(connection: "HTTPConnection", response: "HTTPResponse | None") -> None:
    # http.client keeps the socket while a response holds it, and the engine would go on talking to nobody.
    import socket

    sock: socket.socket | None = connection.sock
    if sock is not None:
        with suppress(OSError):  # the other side may have been faster
            sock.shutdown(socket.SHUT_RDWR)
    if response is not None:
        response.close()
    connection.close()


def _object(raw: str | bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _refuse(words: Words, status: int, body: Mapping[str, Any]) -> None:
    """Raise what the gateway said, if it said an error."""
    error = body.get("error")
    if status == 200 and not error:
        return
    told = error if isinstance(error, dict) else {"message": error}
    message = told.get("message") or words("client.status", status=status)
    code = str(told.get("code") or told.get("type") or "request_failed")
    refusal = RequestFailedError(str(message), code=code, status=status)
    if status == 401:
        refusal = RequestFailedError(f"{message}\n{words('client.key')}", code=code, status=status)
    if code == "no_route":
        refusal.exit_code = NO_ROUTE
    raise refusal
