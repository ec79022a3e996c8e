"""Where one server-sent event ends and the next begins, without changing a byte. Pure; the relay feeds it.

The grammar is WHATWG's (HTML, section 9.2): lines end in LF, CR or CRLF, and a blank line ends an event. Bytes of an
event that has not ended yet stay here: nobody can act on half an event, and when the upstream is cut in the middle of
one, the half must not reach the client glued to the error that follows.
"""

import re
from dataclasses import dataclass

_BOUNDARY = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LONGEST_BOUNDARY = 4
EVENT_LIMIT_BYTES = 16 * 1024 * 1024

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"[DONE]"


class EventTooLong(ValueError):
    """An event grew past `EVENT_LIMIT_BYTES` without ending."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it came.

    Attributes:
        raw: every byte of it, the blank line included.
        data: its `data` lines joined by LF; None when it has none, as a comment has not.
    """

    raw: bytes
    data: bytes | None


class Splitter:
    """Cuts a byte stream into events; `b"".join(e.raw for e in all events) + tail` is the stream."""

    def __init__(self, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._tail = bytearray()

    @property
    def tail(self) -> bytes:
        """The bytes of the event that has not ended yet."""
        return bytes(self._tail)

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes; return the events that they complete.

        Raises:
            EventTooLong: the unfinished event is longer than the limit.
        """
        seen = max(0, len(self._tail) - _LONGEST_BOUNDARY + 1)
        self._tail += chunk
        events = []
        begin = 0
        while (boundary := _BOUNDARY.search(self._tail, max(seen, begin))) is not None:
            raw = bytes(self._tail[begin : boundary.end()])
            events.append(Event(raw, _data_of(raw)))
            begin = boundary.end()
        del self._tail[:begin]
        if len(self._tail) > self._limit_bytes:
            raise EventTooLong(f"an event of more than {self._limit_bytes} bytes")
        return events


def _data_of(raw: bytes) -> bytes | None:
    lines = [_value(line) for line in raw.splitlines() if line.startswith(b"data:") or line == b"data"]
    return b"\n".join(lines) if lines else None


def _value(line: bytes) -> bytes:
    value = line[5:]
    return value[1:] if value.startswith(b" ") else value


def data_event(data: bytes) -> bytes:
    """Make one event of one line of data."""
    return b"data: " + data + b"\n\n"
