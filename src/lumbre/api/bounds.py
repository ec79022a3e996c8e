"""How much and how long a client's connection may take. Only data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """The bounds of every connection.

    Attributes:
        head_bytes: of a request's line and headers, and of a chunked body's trailers.
        ahead_bytes: of requests that come before the one in hand is answered.
        body_bytes: of a request's body.
        head_s: seconds for a head, from the connection's first byte, or from the end of the reply before it.
        body_s: seconds for a body, from the end of its head.
        idle_s: seconds of rest between a reply and the next request.
        linger_s: seconds for a client to take a refusal in.
        flush_s: seconds for a client to take in the last bytes of a whole reply.
    """

    head_bytes: int = 65_536
    ahead_bytes: int = 65_536
    body_bytes: int = 33_554_432
    head_s: float = 60.0
    body_s: float = 60.0
    idle_s: float = 75.0
    linger_s: float = 2.0
    flush_s: float = 60.0
