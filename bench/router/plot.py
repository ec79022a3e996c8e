"""Draws small multiples as SVG: one panel a knob, all on the same axes, what the lines mean in the last place. Pure.

Above, each figure against its own where the knob stands at 1, both axes logarithmic. Below, the share of routes that
are other ones. Numbers are written with one decimal, so that the same figures give the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log
from xml.sax.saxutils import escape

_COLUMNS = 3
_WIDTH, _HEIGHT = 960, 640
_CELL_WIDTH, _CELL_HEIGHT = 306, 288
_LEFT, _TOP = 22, 62
_PLOT_X, _PLOT_WIDTH = 44, 238
_PLOT_Y, _PLOT_HEIGHT = 22, 154
_STRIP_Y, _STRIP_HEIGHT = 194, 38
_FIRST, _LAST = 0.05, 20.0
_X_TICKS = ((0.05, "0.05"), (0.25, "0.25"), (1.0, "1"), (4.0, "4"), (20.0, "20"))
_Y_TICKS = ((0.25, "¼"), (0.5, "½"), (0.75, "¾"), (1.0, "1"), (1.5, "1½"), (2.0, "2"), (3.0, "3"), (4.0, "4"))
_ROOM = 1.14
"""Between the lines and the edge of the plot, as a factor."""

_STYLE = """
svg { font: 12px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #57606a }
.page { fill: #ffffff; stroke: #d0d7de }
.title { font-size: 16px; font-weight: 600; fill: #1f2328 }
.name { font-size: 13px; font-weight: 600; fill: #1f2328 }
.tick { font-size: 10.5px }
.note { paint-order: stroke; stroke: #f6f8fa; stroke-width: 5 }
.plot { fill: #f6f8fa }
.grid { stroke: #d8dee4; fill: none }
.one { stroke: #8c959f; stroke-dasharray: 3 3; fill: none }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }
.share { fill: #afb8c1; stroke: #6e7781 }
"""


@dataclass(frozen=True)
class Ink:
    """How a line is drawn and what it is called."""

    colour: str
    dash: str
    words: str


INKS = {
    "load": Ink("#d55e00", "", "load of the nodes used"),
    "score": Ink("#009e73", "", "capacity score of the nodes used"),
    "latency_ms": Ink("#0072b2", "", "latency of the route, plain ms"),
    "hops": Ink("#8250a8", "6 4", "hops of the route"),
}
"""By the name of the series, in the order in which they are drawn."""


@dataclass(frozen=True)
class Series:
    """One line: a figure at each value of the knob, as a multiple of its own at 1; above 0."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """What one knob does.

    Attributes:
        differ: the share of routes that are other ones, at each value.
        note: words to stand in the plot, if any.
    """

    name: str
    series: tuple[Series, ...]
    differ: tuple[float, ...]
    note: str = ""


@dataclass(frozen=True)
class Axes:
    """The same for all panels.

    Attributes:
        values: of the knob, from 0.05 to 20.
        low: the least multiple that has a place, `high` the greatest.
        most: the greatest share that has a place.
    """

    values: Sequence[float]
    low: float
    high: float
    most: float

    def x(self, value: float) -> float:
        return _PLOT_X + _PLOT_WIDTH * log(value / _FIRST) / log(_LAST / _FIRST)

    def y(self, multiple: float) -> float:
        return _PLOT_Y + _PLOT_HEIGHT * log(self.high / multiple) / log(self.high / self.low)

    def share_y(self, share: float) -> float:
        return _STRIP_Y + _STRIP_HEIGHT * (1 - share / self.most)


def drawing(values: Sequence[float], panels: Sequence[Panel]) -> str:
    """The picture; the values are those of every knob, in rising order."""
    axes = _axes(values, panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="t d">',
        '<title id="t">What each weight of the mesh router does</title>',
        '<desc id="d">One panel for each weight, turned from 0.05 to 20 while the others stay at 1.</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="6"/>',
        _text(_LEFT, 30, "What each weight does", "title"),
        _text(_LEFT, 48, "one is turned from 0.05 to 20, the others stay at 1; averages over the recorded meshes"),
    ]
    for place, panel in enumerate(panels):
        parts += [_at(place), *_panel(panel, axes), "</g>"]
    parts += [_at(len(panels)), *_legend(), "</g>", "</svg>"]
    return "\n".join(parts) + "\n"


def _axes(values: Sequence[float], panels: Sequence[Panel]) -> Axes:
    multiples = [value for panel in panels for series in panel.series for value in series.values]
    shares = [share for panel in panels for share in panel.differ]
    return Axes(values, min(multiples) / _ROOM, max(multiples) * _ROOM, max(1, ceil(max(shares) * 5)) / 5)


def _at(place: int) -> str:
    row, column = divmod(place, _COLUMNS)
    return f'<g transform="translate({_LEFT + column * _CELL_WIDTH} {_TOP + row * _CELL_HEIGHT})">'


def _panel(panel: Panel, axes: Axes) -> Iterator[str]:
    yield _text(_PLOT_X, 14, panel.name, "name")
    yield f'<rect class="plot" x="{_PLOT_X}" y="{_PLOT_Y}" width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}"/>'
    yield f'<rect class="plot" x="{_PLOT_X}" y="{_STRIP_Y}" width="{_PLOT_WIDTH}" height="{_STRIP_HEIGHT}"/>'
    yield from _grid(axes)
    for name, ink in INKS.items():
        for series in panel.series:
            if series.name == name:
                points = [(axes.x(x), axes.y(y)) for x, y in zip(axes.values, series.values, strict=True)]
                yield f'<path class="line" {_stroke(ink)} d="{_path(points)}"/>'
    tops = [(axes.x(x), axes.share_y(share)) for x, share in zip(axes.values, panel.differ, strict=True)]
    floor = axes.share_y(0)
    yield f'<path class="share" d="{_path([(tops[0][0], floor), *tops, (tops[-1][0], floor)])}Z"/>'
    if panel.note:
        yield _text(_PLOT_X + _PLOT_WIDTH / 2, axes.y(1) - 12, panel.note, "note", "middle")


def _grid(axes: Axes) -> Iterator[str]:
    right, bottom = _PLOT_X + _PLOT_WIDTH, _STRIP_Y + _STRIP_HEIGHT
    for multiple, words in _Y_TICKS:
        if axes.low <= multiple <= axes.high:
            y = axes.y(multiple)
            yield _line(_PLOT_X, y, right, y, "one" if multiple == 1 else "grid")
            yield _text(_PLOT_X - 6, y + 3.5, f"× {words}", "tick", "end")
    for value, words in _X_TICKS:
        x = axes.x(value)
        style = "one" if value == 1 else "grid"
        yield _line(x, _PLOT_Y, x, _PLOT_Y + _PLOT_HEIGHT, style)
        yield _line(x, _STRIP_Y, x, bottom, style)
        yield _text(x, bottom + 14, words, "tick", "middle")
    yield _text(_PLOT_X + _PLOT_WIDTH / 2, bottom + 28, "weight", "tick", "middle")
    for share in (0.0, axes.most):
        yield _text(_PLOT_X - 6, axes.share_y(share) + 3.5, f"{share:.0%}", "tick", "end")


def _legend() -> Iterator[str]:
    y = _PLOT_Y + 8
    yield _text(_PLOT_X, y, "Against its own at weight 1", "name")
    for ink in INKS.values():
        y += 22
        yield f'<path class="line" {_stroke(ink)} d="{_path([(_PLOT_X, y - 4), (_PLOT_X + 28, y - 4)])}"/>'
        yield _text(_PLOT_X + 38, y, ink.words)
    y += 34
    yield _text(_PLOT_X, y, "Below", "name")
    yield f'<rect class="share" x="{_PLOT_X}" y="{y + 11}" width="28" height="12"/>'
    yield _text(_PLOT_X + 38, y + 21, "share of routes that are other")
    yield _text(_PLOT_X + 38, y + 36, "ones than with all weights at 1")


def _stroke(ink: Ink) -> str:
    dash = f' stroke-dasharray="{ink.dash}"' if ink.dash else ""
    return f'stroke="{ink.colour}"{dash}'


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _line(x: float, y: float, to_x: float, to_y: float, style: str) -> str:
    return f'<path class="{style}" d="{_path([(x, y), (to_x, to_y)])}"/>'


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}"{placed}>{escape(words)}</text>'
