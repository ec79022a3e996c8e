"""What a route is, and what is asked of the router. Only data, and its price."""

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from lumbre.core.quoting import quoted
from lumbre.mesh.cost import MICRO, prefill_micro
from lumbre.mesh.reach import Fragment, Window
from lumbre.mesh.telemetry import MOST
from lumbre.mesh.weights import RouteWeights

if TYPE_CHECKING:
    from lumbre.mesh.explanation import Explanation
    from lumbre.mesh.snapshot import RouteSnapshot


@dataclass(frozen=True, slots=True)
class RoutingRequest:
    """What a route is wanted for.

    Attributes:
        layer_range: the window; None: from the first to the last layer that a live node serves.
        prompt_tokens: of the prompt, 0 or more. They move the cost of every route alike.

    Raises:
        ValueError: one is none.
    """

    layer_range: Window | None = None
    prompt_tokens: int = 0

    def __post_init__(self) -> None:
        if self.layer_range is not None:
            check_window(self.layer_range)
        check_tokens(self.prompt_tokens)


def check_window(window: object) -> None:
    """Raises: ValueError: it is no window."""
    if not isinstance(window, tuple) or len(window) != 2 or any(type(layer) is not int for layer in window):
        raise ValueError(f"layer_range: a pair (first, last) of whole numbers, not {quoted(window)}")
    if not 0 <= window[0] <= window[1] <= MOST:
        raise ValueError(f"layer_range: 0 <= first <= last <= 1e9, not {quoted(window)}")


def check_tokens(prompt_tokens: object) -> None:
    """Raises: ValueError: it is no number of tokens."""
    if type(prompt_tokens) is not int or not 0 <= prompt_tokens <= MOST:
        raise ValueError(f"prompt_tokens: a whole number from 0 to 1e9, not {quoted(prompt_tokens)}")


class Stage(NamedTuple):
    """One stretch of a route on one node. A tuple, because the router makes them for every decision.

    Attributes:
        fragments: what the node runs, one after the other; together they are `first` to `last`, but in a
            degraded route, where a lost node's may be missing between them. Two stages are equal whatever these are.
    """

    node_id: str
    first: int
    last: int
    fragments: tuple[Fragment, ...] = ()

    def __eq__(self, other: object) -> bool:
        return self[:3] == other[:3] if isinstance(other, Stage) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self[:3] != other[:3] if isinstance(other, Stage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self[:3])


class Course(NamedTuple):
    """A route before a prompt is known. A tuple, because the router makes one for every decision.

    Attributes:
        model: whose layers they are.
        window: the layers that were wanted.
        stages_cost: what the stages and hops cost, in millionths; None for a course without a stage.
        degraded: it does not cover the window.
        weights: those it was priced with.
    """

    model: str
    window: Window
    stages: tuple[Stage, ...]
    stages_cost: int | None
    degraded: bool
    weights: RouteWeights


class Route(NamedTuple):
    """The ordered stages that cover the window, and what they cost with a prompt. A tuple, because every request is
    served one.

    Attributes:
        snapshot: the telemetry that it rests on. Two routes are equal whatever that is.
    """

    course: Course
    snapshot: "RouteSnapshot"
    prompt_tokens: int = 0

    def __eq__(self, other: object) -> bool:
        return self[::2] == other[::2] if isinstance(other, Route) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self[::2] != other[::2] if isinstance(other, Route) else NotImplemented

    def __hash__(self) -> int:
        return hash(self[::2])

    def __repr__(self) -> str:
        return f"Route(course={self.course!r}, prompt_tokens={self.prompt_tokens!r})"

    @property
    def model(self) -> str:
        """Whose layers they are."""
        return self.course.model

    @property
    def window(self) -> Window:
        """The layers that were wanted."""
        return self.course.window

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In the order in which they run."""
        return self.course.stages

    @property
    def nodes(self) -> tuple[str, ...]:
        """One id a stage."""
        return tuple(stage.node_id for stage in self.course.stages)

    @property
    def hops(self) -> int:
        """Changes of node."""
        return max(len(self.course.stages) - 1, 0)

    @property
    def degraded(self) -> bool:
        """It does not cover the window, and must not be run as the model that was asked for."""
        return self.course.degraded

    @property
    def micro(self) -> int | None:
        """The cost in millionths of an equivalent millisecond; None for a route without a stage."""
        course = self.course
        if course.stages_cost is None:
            return None
        return course.stages_cost + prefill_micro(course.weights, self.prompt_tokens)

    @property
    def cost(self) -> float:
        """Equivalent milliseconds; infinite for a route without a stage."""
        course = self.course
        if course.stages_cost is None:
            return inf
        micro = course.stages_cost + prefill_micro(course.weights, self.prompt_tokens)
        try:
            return micro / MICRO
        except OverflowError:  # no float holds it
            return inf

    def explain(self) -> "Explanation":
        """Every term of the cost, stage by stage, and for each stage's node the best route without it."""
        return self.snapshot.explain(self)
