"""Times the router's three questions and the yardstick beside them, on the same meshes in one run. Driven by `run`.

Cold: the telemetry has just changed. Again: of one node of the route the load has changed, as it does at every
dispatch. Served: nothing has changed, and one more request asks. The collector of garbage runs as it comes.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

from bench.gateway.figures import percentile
from bench.router.dijkstra import cheapest
from bench.router.meshes import CASES, MODEL, Size, mesh, seeded

from lumbre.mesh import NodeState, RouteSnapshot, RouteWeights, RoutingRequest, score_route

COLD, AGAIN, SERVED, DIJKSTRA = "cold", "again", "served", "dijkstra"
WEIGHTS = RouteWeights()


class Disagreement(Exception):
    """Two ways to the cheapest route found different costs, so that none of the times means anything."""


@dataclass(frozen=True)
class Plan:
    """How often everything is timed.

    Attributes:
        rounds: passes over all meshes, so that a busy moment of the machine meets one pass and not one mesh.
        share: of the full number of repetitions.
        most_nodes: larger meshes are left out.
    """

    rounds: int
    share: float
    most_nodes: int

    def cases(self) -> tuple[Size, ...]:
        return tuple(case for case in CASES if case.nodes <= self.most_nodes)

    def repetitions(self, case: Size, asked: str) -> int:
        """In one round."""
        full = {
            COLD: min(1000, max(100, 400_000 // case.nodes)),
            AGAIN: 400,
            SERVED: 2000,
            DIJKSTRA: min(200, max(1, 20_000 // case.nodes)),
        }
        return max(1, round(full[asked] * self.share))


FULL = Plan(rounds=5, share=1.0, most_nodes=10_000)
QUICK = Plan(rounds=2, share=0.02, most_nodes=1000)


@dataclass
class Times:
    """Nanoseconds a call, round by round."""

    rounds: list[list[int]] = field(default_factory=list)

    @property
    def p50_us(self) -> float:
        """Of the quietest round, which counts whole: whatever else the machine does only ever adds."""
        return statistics.median(self._quietest) / 1000

    @property
    def p99_us(self) -> float:
        """Of the same round."""
        return percentile(self._quietest, 0.99) / 1000

    @property
    def _quietest(self) -> list[int]:
        return min(self.rounds, key=statistics.median)

    @property
    def spread(self) -> float:
        """How far the slowest round's median lies above the quietest's, as a share of that."""
        medians = [statistics.median(times) for times in self.rounds]
        return max(medians) / min(medians) - 1


Figures = dict[Size, dict[str, Times]]
"""By mesh and by what was asked."""


def measure(plan: Plan, say: Callable[[str], None]) -> Figures:
    """Time everything.

    Raises:
        Disagreement: the router and the yardstick do not agree.
    """
    figures: Figures = {case: {asked: Times() for asked in (COLD, AGAIN, SERVED, DIJKSTRA)} for case in plan.cases()}
    for number in range(plan.rounds):
        say(f"round {number + 1} of {plan.rounds}")
        for case in plan.cases():
            for asked, times in timed(case, plan, number):
                figures[case][asked].rounds.append(times)
    return figures


def timed(case: Size, plan: Plan, number: int) -> Iterator[tuple[str, list[int]]]:
    """One round on one mesh, which is made for it and let go, so that the heap is no larger than it has to be."""
    states = mesh(case)
    request = RoutingRequest(case.window)
    calls = plan.repetitions(case, COLD)
    yield COLD, _each(calls, lambda: score_route(request, states, WEIGHTS, MODEL))
    calls = plan.repetitions(case, DIJKSTRA)
    yield DIJKSTRA, _each(calls, lambda: cheapest(states, WEIGHTS, case.window))
    check(case, states, score_route(request, states, WEIGHTS, MODEL).micro)
    snapshot = RouteSnapshot(states, WEIGHTS, MODEL, case.window)
    yield SERVED, _served(snapshot, plan.repetitions(case, SERVED))
    times, snapshot = _again(snapshot, plan.repetitions(case, AGAIN), f"{case} {number}")
    yield AGAIN, times
    check(case, snapshot.states.values(), snapshot.route().micro)


def check(case: Size, states: Iterable[NodeState], micro: int | None) -> None:
    """Raises: Disagreement: the yardstick finds another cost."""
    yardstick = cheapest(tuple(states), WEIGHTS, case.window)
    if micro != yardstick:
        raise Disagreement(f"{case.kind}, {case.name}: the router's route costs {micro}, the yardstick's {yardstick}")


def _each(calls: int, call: Callable[[], object]) -> list[int]:
    times = []
    for _ in range(calls):
        began = perf_counter_ns()
        call()
        times.append(perf_counter_ns() - began)
    return times


def _served(snapshot: RouteSnapshot, calls: int) -> list[int]:
    """Requests with prompts of all lengths; each reads its cost. Written out: a call more would count as much again."""
    times = []
    for prompt_tokens in range(calls):
        began = perf_counter_ns()
        _ = snapshot.route(prompt_tokens).cost
        times.append(perf_counter_ns() - began)
    return times


def _again(snapshot: RouteSnapshot, calls: int, seed: str) -> tuple[list[int], RouteSnapshot]:
    """Each time a node of the route says another load; and the last snapshot."""
    dice = seeded(seed)
    times = []
    for _ in range(calls):
        node = dice.choice(snapshot.route().nodes)
        changed = replace(snapshot.states[node], current_load=round(dice.random(), 2))
        began = perf_counter_ns()
        snapshot = snapshot.with_node(changed)
        snapshot.route()
        times.append(perf_counter_ns() - began)
    return times, snapshot
