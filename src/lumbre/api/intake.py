"""Makes requests of a client's bytes, and says at the earliest byte what is wrong with one. Parsing is httptools'; the
bounds are ours: what the parser holds back is bounded, whatever comes. No I/O; the connection feeds it.
"""

from typing import Protocol

import httptools

from lumbre.api.bounds import Bounds
from lumbre.api.request import Request, keeps_alive
from lumbre.core.errors import CallerError, LumbreError

_ABOUT_UPGRADES = ("upgrade", "connection", "http2-settings")
_NAMES = {
    spelt.encode(): name
    for name in (
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "connection",
        "authorization",
        "x-api-key",
        "content-type",
        "content-length",
        "transfer-encoding",
        "anthropic-version",
    )
    for spelt in (name, name.title())
}
"""Headers as most clients spell them, so that their names need not be looked at letter by letter."""

_ABOUT_THE_BODY = frozenset({"transfer-encoding", "content-encoding", "expect"})

_LINE_BYTES = len("  HTTP/1.1\r\n\r\n")


class Receiver(Protocol):
    """Who is told what came."""

    def head(self, request: Request, *, with_body: bool) -> None:
        """A head is whole.

        Raises:
            LumbreError: the request may not come in.
        """

    def whole(self, request: Request) -> None:
        """A request is whole; one with a `refusal` is to be told that, and its connection lives on."""

    def wrong(self, request: Request, error: LumbreError) -> None:
        """What comes is no request, or more than may come; nothing more is taken in."""


class _Stop(Exception):
    """Ends the parsing of what is over a bound."""


class Intake:
    """The requests of one connection, one after the other.

    Attributes:
        in_head: a head has begun and is not whole.
        unheard: bytes that the parser has not reported yet.
    """

    def __init__(self, receiver: Receiver, bounds: Bounds) -> None:
        self._receiver = receiver
        self._bounds = bounds
        self._parser = httptools.HttpRequestParser(self)
        self._request: Request | None = None
        self._body: bytes | bytearray = b""
        self._head_size = 0
        self._fault: LumbreError | None = None
        self._stopped = False
        self._upgrades = False
        self.in_head = False
        self.unheard = 0

    @property
    def in_body(self) -> bool:
        """A head is whole, its body is not."""
        return self._request is not None and not self.in_head

    @property
    def held(self) -> int:
        """Bytes of what is not whole yet."""
        return 0 if self._request is None else self._head_size + len(self._body) + self.unheard

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._stopped:
            return
        self.unheard += len(data)
        self._feed(data)
        if self.unheard > self._bounds.head_bytes:
            self._wrong(self._head_too_large())

    def stop(self) -> None:
        """Take nothing more."""
        self._stopped = True
        self.in_head = False
        self._request = None
        self._body = b""

    def late(self) -> None:
        """What has begun was not whole in time."""
        what, limit_s = ("body", self._bounds.body_s) if self.in_body else ("head", self._bounds.head_s)
        setting = " ([limits] body_s)" if self.in_body else ""
        message = f"the request's {what} was not whole within {limit_s:g} s{setting}"
        self._wrong(CallerError(message, status=408, code=f"{what}_timeout"))

    def _feed(self, data: bytes) -> None:
        while data and not self._stopped:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                hint = "This gateway speaks plain HTTP/1.1: does the address begin with http:// and not https://?"
                self._wrong(self._fault or CallerError(f"{error}. {hint}", code="invalid_http"))

    def _wrong(self, error: LumbreError) -> None:
        if self._stopped:
            return
        request = self._request or Request()
        self.stop()
        self._receiver.wrong(request, error)

    # httptools' callbacks. It goes on behind a request that came in the same read.

    def on_message_begin(self) -> None:
        """A request begins."""
        if not self._stopped:
            self._request = Request()
            self.in_head = True
            self._head_size = _LINE_BYTES
            self._body = b""
            self.unheard = 0

    def on_url(self, url: bytes) -> None:
        """A part of the request's target came."""
        if self._request is not None:
            self._count(len(url))
            self._request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came, or a trailer, which nobody needs."""
        if self._request is None:
            return
        self.unheard = 0
        self._head_size += len(name) + len(value) + 4
        if self._head_size > self._bounds.head_bytes:
            self._count(0)
        if self.in_head:
            headers = self._request.headers
            key = _NAMES.get(name) or name.decode("latin-1").lower()
            text = value.decode("latin-1")
            if key in headers:
                if key == "host":
                    self._fault = CallerError("the request has several Host headers", code="invalid_http")
                    raise _Stop
                text = f"{headers[key]}, {text}"
            headers[key] = text

    def on_headers_complete(self) -> None:
        """The head is whole: let it in or not before its body comes."""
        request = self._request
        if request is None:
            return
        self.in_head = False
        request.method = self._parser.get_method().decode("ascii")
        request.version = self._parser.get_http_version()
        self._upgrades = self._parser.should_upgrade() and request.method != "CONNECT"
        if self._upgrades:
            return  # the parser stops here, and is told the head again
        headers = request.headers
        with_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        try:
            self._check(request)
        except CallerError as error:
            self._wrong(error)  # whatever follows, it is not safe to say where it begins
            return
        try:
            self._receiver.head(request, with_body=with_body)
            if request.most_bytes is not None and int(headers.get("content-length", "0")) > request.most_bytes:
                raise self._body_too_large(request.most_bytes)
        except LumbreError as error:
            if with_body:
                self._wrong(error)  # the body is not waited for
            else:
                request.refusal = error

    def on_body(self, data: bytes) -> None:
        """A part of the body came."""
        self.unheard = 0
        if self._request is None:
            return
        most_bytes = self._request.most_bytes
        limit = self._bounds.body_bytes if most_bytes is None else most_bytes
        if len(self._body) + len(data) > limit:
            self._wrong(self._body_too_large(limit))
        elif not self._body:
            self._body = data
        else:
            # One array and no list of pieces: a chunk may be a byte, and a piece is an object.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data

    def on_message_complete(self) -> None:
        """The request is whole."""
        self.unheard = 0
        request = self._request
        if request is None or self._upgrades:
            return
        self._request = None
        request.body = bytes(self._body)
        request.size = self._head_size + len(request.body)
        self._body = b""
        self._receiver.whole(request)

    def _count(self, size: int) -> None:
        self.unheard = 0
        self._head_size += size
        if self._head_size > self._bounds.head_bytes:
            self._fault = self._head_too_large()
            raise _Stop

    def _check(self, request: Request) -> None:
        headers = request.headers
        if request.method == "CONNECT":
            raise CallerError("this gateway is no proxy", status=405, code="method_not_allowed")
        if request.version not in ("1.1", "1.0"):
            raise CallerError(f"HTTP/{request.version} is not spoken here", status=505, code="invalid_http")
        if "host" not in headers and request.version == "1.1":
            raise CallerError("the request has no Host header", code="invalid_http")
        request.read_target()
        if not _ABOUT_THE_BODY.isdisjoint(headers):
            self._check_coding(request)
        if int(headers.get("content-length", "0")) > self._bounds.body_bytes:  # the parser has seen that it is a number
            raise self._body_too_large(self._bounds.body_bytes)

    def _check_coding(self, request: Request) -> None:
        headers = request.headers
        if (coding := headers.get("transfer-encoding")) is not None:
            if request.version == "1.0":
                raise CallerError("HTTP/1.0 has no Transfer-Encoding", code="invalid_http")
            if coding.lower() != "chunked":
                raise CallerError("only `Transfer-Encoding: chunked` is known here", code="invalid_http")
        if (encoding := headers.get("content-encoding", "identity").lower()) != "identity":
            message = f"the body is encoded as {encoding}; send it as it is"
            raise CallerError(message, status=415, code="unsupported_encoding")
        if headers.get("expect", "100-continue").lower() != "100-continue":
            raise CallerError("only `Expect: 100-continue` is known here", status=417, code="invalid_http")

    def _head_without_upgrade(self) -> bytes:
        """A request that asks to speak something else is answered as if it had not asked (RFC 9110, 7.8).

        The parser would take the body for the other protocol's; so a new one is told the head again, without that wish.
        """
        request = self._request
        self._upgrades = False
        self._parser = httptools.HttpRequestParser(self)
        if request is None:
            return b""
        told = {name: value for name, value in request.headers.items() if name not in _ABOUT_UPGRADES}
        if not keeps_alive(request.version, request.headers):
            told["connection"] = "close"
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        head = f"{request.method} {request.target.decode('latin-1')} HTTP/{request.version}\r\n{lines}\r\n"
        return head.encode("latin-1")

    def _head_too_large(self) -> LumbreError:
        message = f"the request's line and headers are longer than {self._bounds.head_bytes} bytes"
        return CallerError(message, status=431, code="head_too_large")

    def _body_too_large(self, limit: int) -> LumbreError:
        setting = " ([limits] body_bytes)" if limit == self._bounds.body_bytes else ", and nobody here wants one"
        message = f"the body is larger than {limit} bytes{setting}"
        return CallerError(message, status=413, code="body_too_large")
