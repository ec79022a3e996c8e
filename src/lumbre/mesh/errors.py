"""What can go wrong in the mesh's routing. Pure."""

from collections.abc import Sequence

from lumbre.core.errors import CapacityError, UpstreamError


class TelemetryError(UpstreamError):
    """What a node says of itself cannot be believed.

    Attributes:
        field: where, such as `served_layers[0][1]`; of several nodes `[3].latency_ms`.
    """

    code = "bad_telemetry"

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}", param=field)
        self.field = field
        self.why = why


class NoRouteAvailable(CapacityError):
    """No chain of whole fragments of live nodes covers the window.

    Attributes:
        window: its first and last layer; None where no live node serves anything.
        missing: the layers that no live node covers, as runs `[first, last]`.
        boundary: where every path from the window's head stops, if no layer is missing.
    """

    code = "no_route"

    def __init__(
        self, message: str, *, window: tuple[int, int] | None, missing: Sequence[tuple[int, int]], boundary: int | None
    ) -> None:
        super().__init__(message)
        self.window = window
        self.missing = tuple(missing)
        self.boundary = boundary


class RoutingFailure(CapacityError):
    """A node of a route failed, nobody can take its place, and no smaller model is named to fall back on."""

    code = "no_route"
