"""How a message quotes what somebody else said. Pure: short enough for a log line, whatever was said."""

QUOTE_CHARS = 80


def quoted(value: object) -> str:
    """The value as Python writes it, cut where it is too long to read."""
    try:
        text = repr(value if not isinstance(value, str) else value[: QUOTE_CHARS + 1])
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists in lists in lists
        return f"(something of the type {type(value).__name__} that is too long to show)"
    return text if len(text) <= QUOTE_CHARS + 2 else f"{text[:QUOTE_CHARS]}…'"
