"""Decides how a route is drawn: layers as a track, nodes as lanes, the route through them. Pure.

`mesh_answers` writes it. The picture is one SVG without scripts, and the same for the same telemetry, in whatever
order the nodes came.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from lumbre.cli.diagram_parts import Scale, cut, line, path, rect, svg, text, width_of
from lumbre.cli.mesh_text import ARROW, hops_text, layers_text, ms
from lumbre.cli.screen import printable
from lumbre.cli.words import Words
from lumbre.mesh import NodeState, Route, Stage
from lumbre.mesh.cost import stage_cost
from lumbre.mesh.explanation import Explanation
from lumbre.mesh.reach import Fragment

MOST_LANES = 120
"""More nodes than these nobody can tell apart; those of the route come first."""

_MARGIN = 20.0
_LEAST_WIDTH = 660.0
_TRACK_WIDTH = 1280.0
_MOST_CELL = 56.0
_NAME_WIDTH = 200.0
_NAME_SIZE = 13.0  # a little more than it is, since the route's are bold
_TRACK_TOP = 128.0
_TRACK_HEIGHT = 24.0
_LANES_TOP = _TRACK_TOP + _TRACK_HEIGHT + 12
_MOST_ROWS = 4
_HOP_LABELS = 16

_STYLE = """
text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2933 }
.page { fill: #ffffff } .zebra { fill: #f6f8fa } .grid { stroke: #e3e7ec; stroke-width: 1 }
.heading { font-size: 17px; font-weight: 600 } .caption { font-size: 13px } .small { font-size: 11px; fill: #5a6775 }
.track { fill: #f0f2f5; stroke: #c5ccd5 } .wanted { fill: #dbe8fb; stroke: #8fb2e3 }
.window { fill: none; stroke: #1b5fc1; stroke-width: 2 } .edge { stroke: #1b5fc1; stroke-dasharray: 2 4 }
.blue { font-size: 11px; fill: #1b5fc1; font-weight: 600 }
.held { fill: #d9dfe7; stroke: #aab4c1 } .dead { fill: #f7f7f7; stroke: #b9bec5; stroke-dasharray: 3 3 }
.chosen { fill: #1b5fc1; stroke: #ffffff; stroke-width: 1.5 }
.gone { fill: #7b838d } .strong { font-weight: 600 } .on { fill: #ffffff; font-weight: 600 }
.hop { fill: none; stroke: #d9480f; stroke-width: 2.5; stroke-linejoin: round }
.lost { fill: none; stroke: #d9480f; stroke-width: 2; stroke-dasharray: 5 4 }
.halo { fill: none; stroke: #ffffff; stroke-width: 6 } .tip { fill: #d9480f }
.price { font-size: 11px; fill: #a8350a; font-weight: 600; paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
"""


@dataclass(frozen=True)
class Lane:
    """One node's place in the picture.

    Attributes:
        rows: the row in which each of its fragments lies; those that overlap lie one under another.
        count: of its rows, at least 1.
        height: of the lane; `box` of one row.
    """

    state: NodeState
    takes_part: bool
    rows: Mapping[Fragment, int]
    count: int
    top: float
    height: float
    box: float

    def box_top(self, fragment: Fragment) -> float:
        """Where a fragment's box begins."""
        used = self.count * self.box + (self.count - 1) * 2
        return self.top + (self.height - used) / 2 + self.rows[fragment] * (self.box + 2)


@dataclass(frozen=True)
class Picture:
    """What is drawn, and where."""

    told: Explanation
    words: Words
    scale: Scale
    lanes: Mapping[str, Lane]
    left_out: int
    width: float

    @property
    def route(self) -> Route:
        """The route that is drawn."""
        return self.told.route

    @property
    def bottom(self) -> float:
        """Where the lanes end."""
        return max((lane.top + lane.height for lane in self.lanes.values()), default=_LANES_TOP)


def diagram(told: Explanation, words: Words) -> str:
    """Draw a route among the nodes it was chosen from."""
    picture = _picture(told, words)
    parts = [rect("page", 0, 0, picture.width, _height(picture))]
    for draw in (_ground, _track, _names, _fragments, _stages, _hops, _heading, _legend):
        parts += draw(picture)
    return svg(picture.width, _height(picture), _title(picture), _description(picture), _STYLE, parts)


def _picture(told: Explanation, words: Words) -> Picture:
    route = told.route
    snapshot = route.snapshot
    taking_part = {node: bool(snapshot.holders.parts(state)) for node, state in snapshot.states.items()}
    places = {node: place for place, node in reversed(list(enumerate(route.nodes)))}
    states = sorted(snapshot.states.values(), key=lambda state: _order(state, places, taking_part))
    shown = states[:MOST_LANES]
    lanes: dict[str, Lane] = {}
    top = _LANES_TOP
    pitch, box = (44.0, 26.0) if len(shown) <= 24 else (34.0, 22.0) if len(shown) <= 60 else (26.0, 18.0)
    for state in shown:
        rows = _rows(state.served_layers)
        count = max(rows.values(), default=0) + 1
        row = box if count == 1 else max(box * 0.6, 13.0)
        height = pitch - box + count * row + (count - 1) * 2
        lanes[state.node_id] = Lane(state, taking_part[state.node_id], rows, count, top, height, row)
        top += height
    names = max((width_of(_name(lane, words), _NAME_SIZE) for lane in lanes.values()), default=0)
    low, high = _range(route, shown)
    left = _MARGIN + min(max(names, 50.0), _NAME_WIDTH) + 12
    cell = min(_MOST_CELL, _TRACK_WIDTH / (high - low + 1))
    scale = Scale(low, high, left, cell)
    width = scale.right + 12 + max(width_of(words("mesh.diagram_stage_cost"), 11), 60) + _MARGIN
    return Picture(told, words, scale, lanes, len(states) - len(shown), max(width, _LEAST_WIDTH))


def _order(state: NodeState, places: Mapping[str, int], taking_part: Mapping[str, bool]) -> tuple[int, int, str]:
    """The route's nodes in their order, then the others by what they hold, then those that take no part."""
    if state.node_id in places:
        return 0, places[state.node_id], ""
    first = min((first for first, _ in state.served_layers), default=0)
    return (1 if taking_part[state.node_id] else 2), first, state.node_id


def _rows(fragments: Iterable[Fragment]) -> dict[Fragment, int]:
    """A row for each fragment, so that no two in a row overlap; past the last row they may."""
    ends: list[int] = []
    rows: dict[Fragment, int] = {}
    for first, last in sorted(set(fragments)):
        row = next((number for number, end in enumerate(ends) if end < first), len(ends))
        if row < len(ends):
            ends[row] = last
        elif row < _MOST_ROWS:
            ends.append(last)
        rows[first, last] = min(row, _MOST_ROWS - 1)
    return rows


def _range(route: Route, states: Iterable[NodeState]) -> tuple[int, int]:
    """The layers that are drawn: the window, and of what lies beside it no more than as much again on each side."""
    first, last = route.window
    beside = max(last - first + 1, 12)
    held = [layer for state in states for fragment in state.served_layers for layer in fragment]
    return max(min([first, *held]), first - beside), min(max([last, *held]), last + beside)


def _name(lane: Lane, words: Words) -> str:
    name = cut(printable(lane.state.node_id), 22)
    if lane.takes_part or not lane.state.served_layers:
        return name
    return f"{name} ({words('mesh.diagram_other_model' if lane.state.alive else 'mesh.diagram_dead_node')})"


def _height(picture: Picture) -> float:
    return picture.bottom + _MARGIN + (20 if picture.left_out else 0)


def _ground(picture: Picture) -> Iterator[str]:
    """Stripes behind every second lane, and a line at every layer that has a number."""
    for number, lane in enumerate(picture.lanes.values()):
        if number % 2 == 0:
            yield rect("zebra", _MARGIN / 2, lane.top, picture.width - _MARGIN, lane.height)
    for layer in picture.scale.numbered():
        x = picture.scale.x(layer)
        yield line("grid", x, _TRACK_TOP + _TRACK_HEIGHT, x, picture.bottom)


def _track(picture: Picture) -> Iterator[str]:
    """The layers with their numbers, and the window over them."""
    scale, (first, last) = picture.scale, picture.route.window
    left, right = scale.x(first), scale.x(last + 1)
    middle = _TRACK_TOP + _TRACK_HEIGHT / 2 + 4
    yield rect("track", scale.left, _TRACK_TOP, scale.right - scale.left, _TRACK_HEIGHT, 3)
    yield rect("wanted", left, _TRACK_TOP, max(right - left, 1), _TRACK_HEIGHT, 3)
    for layer in scale.numbered():
        yield text("small", scale.x(layer) + scale.cell / 2, middle, str(layer), "middle")
    yield text("small", scale.left - 10, middle, picture.words("mesh.diagram_layer"), "end")
    y = _TRACK_TOP - 6
    yield path("window", f"M{left:.1f} {y + 5:.1f}V{y:.1f}H{right:.1f}V{y + 5:.1f}")
    label = f"{picture.words('mesh.diagram_window')} {layers_text(first, last)}"
    half = width_of(label, 11) / 2
    centre = min(max((left + right) / 2, scale.left + half), max(scale.right - half, scale.left + half))
    yield text("blue", centre, y - 5, label, "middle")
    for x in (left, right):
        yield line("edge", x, _TRACK_TOP + _TRACK_HEIGHT, x, picture.bottom)


def _names(picture: Picture) -> Iterator[str]:
    """Who holds each lane, and what a stage there costs."""
    weights, on_route = picture.route.snapshot.weights, set(picture.route.nodes)
    end = picture.width - _MARGIN
    yield text("small", end, _TRACK_TOP + 16, picture.words("mesh.diagram_stage_cost"), "end")
    for node, lane in picture.lanes.items():
        y = lane.top + lane.height / 2 + 4
        style = "strong" if node in on_route else "plain" if lane.takes_part else "gone"
        yield text(style, picture.scale.left - 10, y, _name(lane, picture.words), "end", tip=printable(node))
        if lane.takes_part:
            yield text(style, end, y, ms(stage_cost(lane.state, weights)), "end")
    if picture.left_out:
        more = picture.words("mesh.diagram_more", count=picture.left_out)
        yield text("small", picture.scale.left, picture.bottom + 22, more)


def _fragments(picture: Picture) -> Iterator[str]:
    """What every node holds, as far as it is in the picture and can be told apart."""
    scale = picture.scale
    for lane in picture.lanes.values():
        style = "held" if lane.takes_part else "dead"
        drawn: dict[int, tuple[float, float]] = {}
        for fragment in lane.rows:
            first, last = fragment
            if last < scale.low or first > scale.high:
                continue
            x, top = scale.x(first), lane.box_top(fragment)
            width = max(scale.x(last + 1) - x, 1)
            ends, row = _ends(scale, fragment), lane.rows[fragment]
            if drawn.get(row) == ends:
                continue
            drawn[row] = ends
            yield rect(style, x, top, width, lane.box, 3)
            label = layers_text(first, last)
            if width_of(label, 11) + 8 <= width and lane.box >= 13:
                yield text("small", x + width / 2, top + lane.box / 2 + 4, label, "middle")


def _ends(scale: Scale, fragment: Fragment) -> tuple[float, float]:
    """Where a box begins and ends, as closely as it is written: boxes that agree so far cannot be told apart."""
    left = scale.x(fragment[0])
    return round(left, 1), round(max(scale.x(fragment[1] + 1), left + 1), 1)


def _hops(picture: Picture) -> Iterator[str]:
    """A line from where a stage ends to where the next begins; broken where layers are lost between them."""
    route = picture.route
    price = picture.told.hop_cost / route.hops if route.hops else 0
    drawn: set[tuple[str, str]] = set()
    for before, after in pairwise(route.stages):
        if before.node_id not in picture.lanes or after.node_id not in picture.lanes:
            continue
        start, end = _box(picture, before, before.fragments[-1]), _box(picture, after, after.fragments[0])
        down = end.top > start.top
        x, from_x = picture.scale.x(after.first), picture.scale.x(before.last + 1)
        tip = end.top - 1 if down else end.top + end.box + 1
        stop = tip - 6 if down else tip + 6
        edge = start.top + start.box if down else start.top
        way = f"M{x:.1f} {edge:.1f}V{stop:.1f}"
        if from_x != x:
            way = f"M{from_x:.1f} {start.top + start.box / 2:.1f}H{x:.1f}V{stop:.1f}"
        style = "hop" if before.last + 1 == after.first else "lost"
        if (style, way) in drawn:
            continue
        drawn.add((style, way))
        yield path("halo", way)
        yield path(style, way)
        yield path("tip", f"M{x:.1f} {tip:.1f}L{x - 4:.1f} {stop:.1f}H{x + 4:.1f}Z")
        if len(route.stages) <= _HOP_LABELS:
            yield text("price", x + 7, end.top - 4 if down else end.top + end.box + 11, f"+{ms(price)}")


@dataclass(frozen=True)
class _Box:
    top: float
    box: float


def _box(picture: Picture, stage: Stage, fragment: Fragment) -> _Box:
    lane = picture.lanes[stage.node_id]
    return _Box(lane.box_top(fragment), lane.box)


def _drawn(picture: Picture) -> list[Stage]:
    """The stages whose lane is in the picture."""
    return [stage for stage in picture.route.stages if stage.node_id in picture.lanes]


def _stages(picture: Picture) -> Iterator[str]:
    """What the route runs, with the cost of each stage."""
    scale = picture.scale
    costs = {each.stage: each.cost for each in picture.told.stages}
    drawn: dict[float, tuple[float, float]] = {}
    for stage in _drawn(picture):
        for fragment in stage.fragments:
            box, ends = _box(picture, stage, fragment), _ends(scale, fragment)
            if drawn.get(box.top) == ends:
                continue
            drawn[box.top] = ends
            x = scale.x(fragment[0])
            yield rect("chosen", x, box.top, max(scale.x(fragment[1] + 1) - x, 1), box.box, 4)
        widest = max(stage.fragments, key=lambda fragment: (fragment[1] - fragment[0], -fragment[0]))
        box, left, right = _box(picture, stage, widest), scale.x(widest[0]), scale.x(widest[1] + 1)
        label = ms(costs[stage])
        if width_of(label, 12) + 8 <= right - left:
            yield text("on", (left + right) / 2, box.top + box.box / 2 + 4, label, "middle")


def _heading(picture: Picture) -> Iterator[str]:
    yield text("heading", _MARGIN, 34, _title(picture))
    yield text("caption", _MARGIN, 56, _cost(picture))
    room = int((picture.width - 2 * _MARGIN) / 8)
    names = [cut(printable(node), 30) for node in picture.route.nodes]
    yield text("caption", _MARGIN, 76, _shortened(names, room), tip=ARROW.join(map(printable, picture.route.nodes)))


def _shortened(names: list[str], room: int) -> str:
    """A path that has this many letters of room: what is in its middle is left out first."""
    left, right = list(names), list[str]()
    length = len(ARROW.join([*names, "…"]))
    while len(left) > 2 and length > room:
        length -= len(ARROW) + len(left.pop())
        if not right:
            right = names[-1:]
            length += len(ARROW) + len(right[0])
    return ARROW.join([*left, "…", *right] if right else left)


def _legend(picture: Picture) -> Iterator[str]:
    kinds = [("chosen", "mesh.diagram_chosen"), ("held", "mesh.diagram_held")]
    if any(lane.state.served_layers and not lane.takes_part for lane in picture.lanes.values()):
        kinds.append(("dead", "mesh.diagram_dead"))
    labels = [(style, picture.words(code)) for style, code in kinds]
    x = picture.width - _MARGIN - sum(width_of(label, 11) + 34 for _, label in labels) + 14
    for style, label in labels:
        yield rect(style, x, 24, 14, 12, 3)
        yield text("small", x + 19, 34, label)
        x += width_of(label, 11) + 34


def _title(picture: Picture) -> str:
    route = picture.route
    window, model = layers_text(*route.window), cut(printable(route.model), 30)
    code = "mesh.diagram_degraded" if route.degraded else "mesh.diagram_title"
    return picture.words(code, window=window, model=model)


def _cost(picture: Picture) -> str:
    told, route = picture.told, picture.route
    if not route.stages:
        return picture.words("mesh.diagram_empty")
    return picture.words(
        "mesh.diagram_cost",
        cost=ms(route.cost),
        stages=ms(sum(each.cost for each in told.stages)),
        hops=hops_text(route.hops, picture.words),
        hop_cost=ms(told.hop_cost),
        prefill=ms(told.prefill_cost),
    )


def _description(picture: Picture) -> str:
    """The picture in words, for those who do not see it."""
    words = picture.words
    stages = [
        words(
            "mesh.diagram_stage",
            number=number,
            node=printable(each.stage.node_id),
            layers=layers_text(each.stage.first, each.stage.last),
            cost=ms(each.cost),
        )
        for number, each in enumerate(picture.told.stages, 1)
    ]
    count = words("mesh.diagram_nodes", count=len(picture.lanes) + picture.left_out)
    return " ".join([f"{_cost(picture)}.", *stages, count])
