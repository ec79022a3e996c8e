"""Where a command's text stands in a page: between two marks that bear its name. Pure; every command
that writes one drives it."""

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def put_into(page: str, name: str, text: str) -> str:
    """The page with the text between the marks of this name, and nothing else changed.

    Raises:
        ValueError: the page does not have each mark once, in order.
    """
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opens, rest = page.partition(opening)
    old, closes, after = rest.partition(closing)
    if not opens or not closes or opening in old + after or closing in before + after:
        raise ValueError(f"it must have {opening} and then {closing}, once each")
    return f"{before}{opening}\n\n{text.strip()}\n\n{closing}{after}"
