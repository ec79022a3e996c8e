"""How a message quotes what somebody else said. Pure: short enough for a log line, whatever was said."""

QUOTE_CHARS = 80


def quoted(value: object) -> str:
    """The value as Python writes it, cut where it is too long to read."""
    text = repr(value if not isinstance(value, str) else value[: QUOTE_CHARS + 1])
    return text if len(text) <= QUOTE_CHARS + 2 else f"{text[:QUOTE_CHARS]}…'"
