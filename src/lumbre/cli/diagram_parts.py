"""Decides how the parts of a diagram are written as SVG. Pure; `mesh_diagram` puts them together."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from unicodedata import east_asian_width

_LETTER = 0.58
_LABEL_ROOM = 8.0
_FIGURE = 6.5


@dataclass(frozen=True)
class Scale:
    """Where layers lie from left to right.

    Attributes:
        low, high: the first and the last layer of the picture.
        left: where the first begins.
        cell: how wide a layer is.
    """

    low: int
    high: int
    left: float
    cell: float

    @property
    def right(self) -> float:
        """Where the last layer ends."""
        return self.left + (self.high + 1 - self.low) * self.cell

    def x(self, boundary: int) -> float:
        """Where a boundary lies; what is beyond the picture lies at its end."""
        return self.left + (min(max(boundary, self.low), self.high + 1) - self.low) * self.cell

    def numbered(self) -> range:
        """The layers whose number has room: each, or each second, fifth, tenth …"""
        room = len(str(self.high)) * _FIGURE + _LABEL_ROOM
        power = 1
        while True:
            for step in (power, 2 * power, 5 * power):
                if step * self.cell >= room:
                    return range(-(-self.low // step) * step, self.high + 1, step)
            power *= 10


def svg(width: float, height: float, title: str, description: str, style: str, parts: Iterable[str]) -> str:
    """A whole picture.

    Args:
        style: CSS; ours, not escaped.
        parts: elements that are written already.
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="title description">'
    )
    named = f'<title id="title">{escape(title)}</title>\n<desc id="description">{escape(description)}</desc>'
    return "\n".join([head, named, f"<style>{style}</style>", *parts, "</svg>", ""])


def rect(style: str, x: float, y: float, width: float, height: float, radius: float = 0) -> str:
    """A box."""
    round_by = f' rx="{_figure(min(radius, width / 2))}"' if radius else ""
    size = f'width="{_figure(width)}" height="{_figure(height)}"'
    return f'<rect class="{style}" x="{_figure(x)}" y="{_figure(y)}" {size}{round_by}/>'


def line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line."""
    return f'<line class="{style}" x1="{_figure(x1)}" y1="{_figure(y1)}" x2="{_figure(x2)}" y2="{_figure(y2)}"/>'


def path(style: str, way: str) -> str:
    """A line of several parts, in SVG's own words."""
    return f'<path class="{style}" d="{way}"/>'


def text(style: str, x: float, y: float, said: str, anchor: str = "start", *, tip: str = "") -> str:
    """Words at a place.

    Args:
        anchor: which end of the words is there: `start`, `middle` or `end`.
        tip: shown under a pointer, where the words are cut.
    """
    title = f"<title>{escape(tip)}</title>" if tip and tip != said else ""
    to = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" x="{_figure(x)}" y="{_figure(y)}"{to}>{title}{escape(said)}</text>'


def width_of(said: str, size: float) -> float:
    """About how wide words are; nobody knows the reader's fonts."""
    return size * sum(1.0 if east_asian_width(letter) in "WF" else _LETTER for letter in said)


def cut(said: str, most: int) -> str:
    """Words of at most this many letters."""
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _figure(value: float) -> str:
    """A number to the tenth, without a tail of noughts."""
    return f"{value:.1f}".removesuffix(".0")
