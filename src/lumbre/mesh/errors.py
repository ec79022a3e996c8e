"""What can go wrong in the mesh's routing. Pure."""

from collections.abc import Iterable, Sequence

from lumbre.core.errors import CapacityError, UpstreamError
from lumbre.mesh.reach import listed


class InvalidTelemetry(UpstreamError, ValueError):
    """What a node says of itself cannot be believed.

    Attributes:
        field: where, such as `served_layers[0][1]`; of several nodes `[3].latency_ms`.
        why: what is wrong there.
    """

    code = "bad_telemetry"

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}", param=field)
        self.field = field
        self.why = why


class NoRouteAvailable(CapacityError):
    """No chain of whole fragments of live nodes covers the window.

    Attributes:
        window: its first and last layer; None where that was left open and no live node serves anything.
        gaps: the layers that no live node covers, as runs `[first, last]`.
        uncovered: the same one by one, the first 10,000 of them.
        dead_ends: where none is uncovered, the boundaries at which every path from the window's head stops.
    """

    code = "no_route"

    def __init__(
        self,
        message: str,
        *,
        window: tuple[int, int] | None,
        gaps: Sequence[tuple[int, int]] = (),
        dead_ends: Sequence[int] = (),
    ) -> None:
        super().__init__(message)
        self.window = window
        self.gaps = tuple(gaps)
        self.uncovered = listed(gaps)
        self.dead_ends = tuple(dead_ends)


class RoutingFailure(CapacityError):
    """A node of a route failed, nobody can take its place, and no smaller model is named to fall back on.

    Attributes:
        missing_layers: the node's layers that no other live node holds, one by one, the first 10,000 of them. There may
            be none: what is held need not fit together.
    """

    code = "no_route"

    def __init__(self, message: str, *, gaps: Iterable[tuple[int, int]]) -> None:
        super().__init__(message)
        self.missing_layers = listed(gaps)
