"""Decides what of a text may reach a terminal. Pure; `Shell` and the commands ask."""


def printable(text: str) -> str:
    """A text that cannot steer a terminal: what cannot be seen is written as Python writes it."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
