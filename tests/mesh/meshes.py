"""Small random meshes: from a seeded generator where their number counts, as strategies where shrinking does. Pure.

Numbers come from short lists as often as from a range, so that costs tie; cuts are shared as often as not, so that
fragments fit together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from hypothesis import strategies as st

from lumbre.mesh import PROFILES, NodeState, NoRouteAvailable, Route, RouteWeights, RoutingRequest, score_route
from mesh import oracle
from mesh.oracle import Fragment, Window

MODEL = "m"
IDS = ("a", "b", "B", "ab", "é", "10", "9")
"""Python compares them by code point: neither by length, nor by number, nor by letter case."""

LAYERS = 8
LATENCIES = (0.0, 5.0, 10.0, 20.0, 6.4)
LOADS = (0.0, 0.0, 0.125, 1.0, 0.2)
SCORES = (100.0, 20.0, 10.0)
WEIGHTS = (
    *(RouteWeights(), RouteWeights(), *PROFILES.values()),
    *(RouteWeights(hop=0), RouteWeights(0, 0, 0, 1, 1), RouteWeights(0, 0, 0, 0, 0), RouteWeights(hop=1e9)),
)
PROMPTS = (0, 1, 1000, 4096)


@dataclass(frozen=True)
class Answer:
    """What becomes of a request: a path with its cost in millionths, or neither; and the window."""

    window: Window | None
    stages: tuple[oracle.Stretch, ...] | None = None
    micro: int | None = None


@dataclass(frozen=True)
class Mesh:
    """Nodes, and what is asked of them."""

    states: tuple[NodeState, ...]
    weights: RouteWeights = field(default_factory=RouteWeights)
    layer_range: Window | None = None
    prompt_tokens: int = 0
    model: str = MODEL

    @property
    def partners(self) -> list[NodeState]:
        """The nodes that a route may use."""
        return oracle.takes_part(self.states, self.model)

    @property
    def window(self) -> Window | None:
        """The layers that are wanted; None where that is left open and nothing is served."""
        return oracle.window_of(self.partners, self.layer_range)

    def route(self) -> Route:
        """The router's route."""
        return score_route(RoutingRequest(self.layer_range, self.prompt_tokens), self.states, self.weights, self.model)

    def ranking(self) -> list[oracle.Ranked]:
        """All of the oracle's routes, best first."""
        return oracle.ranking(self.states, self.weights, self.model, self.layer_range, self.prompt_tokens)

    def expected(self) -> Answer:
        """The oracle's answer."""
        return expectation(self.ranking(), self.window)


def expectation(ranking: Sequence[oracle.Ranked], window: Window | None) -> Answer:
    """The answer that a ranking stands for."""
    return Answer(window, ranking[0].stages, ranking[0].micro) if ranking else Answer(window)


def answer(ask: Callable[[], Route]) -> Answer:
    """What the router answers, be it a route or that there is none."""
    try:
        route = ask()
    except NoRouteAvailable as error:
        return Answer(error.window)
    assert route.nodes == tuple(stage.node_id for stage in route.stages)
    return Answer(route.window, stretches(route), route.micro)


def stretches(route: Route) -> tuple[oracle.Stretch, ...]:
    """Its stages as plain tuples: these are equal only if their fragments are."""
    return tuple((stage.node_id, stage.first, stage.last, stage.fragments) for stage in route.stages)


def node(
    node_id: str,
    *fragments: Fragment,
    latency: float = 10.0,
    load: float = 0.0,
    score: float = 100.0,
    alive: bool = True,
    model: str | None = None,
) -> NodeState:
    """A node by what matters of it; unless told otherwise its stage costs 11.0."""
    return NodeState(node_id, latency, load, score, fragments, alive, model)


def random_mesh(random: Random) -> Mesh:
    """One small mesh."""
    layers = random.randint(1, LAYERS)
    fragments = random.choice((_aligned, _aligned, _ragged))(random, layers)
    numbers = random.choice((_few, _few, _any, _extreme))
    mortal = random.random() < 0.5
    several_models = random.random() < 0.3
    states = []
    for node_id in random.sample(IDS, random.choice((0, 1, 2, 3, 3, 4, 4, 5, 5, 6))):
        latency, load, score = numbers(random)
        alive = not mortal or random.random() < 0.8
        model = random.choice((None, MODEL, "other")) if several_models else None
        states.append(NodeState(node_id, latency, load, score, fragments(), alive, model))
    return Mesh(tuple(states), random_weights(random), _random_range(random, layers), random.choice(PROMPTS))


def _random_range(random: Random, layers: int) -> Window | None:
    first = random.randrange(layers)
    whole = (0, layers - 1)
    return random.choice((None, None, whole, whole, whole, (first, random.randrange(first, layers)), (0, layers)))


def random_weights(random: Random) -> RouteWeights:
    """Some that are in use, some at their ends, some anywhere."""
    if random.random() < 0.2:
        return RouteWeights(*(random.choice((0.0, random.uniform(0, 3))) for _ in range(5)))
    return random.choice(WEIGHTS)


def random_change(random: Random, states: Sequence[NodeState]) -> NodeState:
    """What one node says next, or a new one: most often another load, else its death, its revival, other fragments."""
    known = {state.node_id: state for state in states}
    newcomers = [each for each in IDS if each not in known]
    if not known or (newcomers and random.random() < 0.1):
        fragments = random.choice((_aligned, _ragged))(random, LAYERS)
        return NodeState(random.choice(newcomers), *_few(random), fragments())
    state = random.choice(list(states))
    what = random.random()
    if what < 0.45:
        return replace(state, current_load=random.choice((*LOADS, random.uniform(0, 2), 1e9)))
    if what < 0.65:
        return replace(state, alive=not state.alive)
    if what < 0.8:
        return replace(state, served_layers=random.choice((_aligned, _ragged))(random, LAYERS)())
    if what < 0.9:
        return replace(state, model=random.choice((None, MODEL, "other")))
    return replace(state, latency_ms=random.choice(LATENCIES), capacity_score=random.choice(SCORES))


def _aligned(random: Random, layers: int) -> Callable[[], tuple[Fragment, ...]]:
    """Draws a node's fragments from cuts that all nodes share; neighbours may also stand there in one piece."""
    cuts = [0, *sorted(random.sample(range(1, layers), random.randint(0, min(3, layers - 1)))), layers]
    pieces = [(low, high - 1) for low, high in pairwise(cuts)]

    def fragments() -> tuple[Fragment, ...]:
        held = random.sample(pieces, random.randint(1, min(3, len(pieces))))
        if random.random() < 0.25:
            low, high = sorted(random.sample(range(len(cuts)), 2))
            held.append((cuts[low], cuts[high] - 1))
        return tuple(held)

    return fragments


def _ragged(random: Random, layers: int) -> Callable[[], tuple[Fragment, ...]]:
    """Draws a node's fragments from anywhere."""

    def fragments() -> tuple[Fragment, ...]:
        ends = (sorted((random.randrange(layers), random.randrange(layers))) for _ in range(random.randint(0, 4)))
        return tuple((low, high) for low, high in ends)

    return fragments


def _few(random: Random) -> tuple[float, float, float]:
    return random.choice(LATENCIES), random.choice(LOADS), random.choice(SCORES)


def _any(random: Random) -> tuple[float, float, float]:
    return random.uniform(0, 50), random.uniform(0, 2), random.uniform(0, 100)


def _extreme(random: Random) -> tuple[float, float, float]:
    return (
        random.choice((0.0, 10.0, 1e9)),
        random.choice((0.0, 1.0, 1e9)),
        random.choice((0.0, 0.01, 0.005, 100.0, 1e9)),
    )


ragged = st.tuples(st.integers(0, LAYERS - 1), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair)))
"""Any fragment."""


def node_states(node_id: str, fragment: st.SearchStrategy[Fragment] = ragged) -> st.SearchStrategy[NodeState]:
    """Anything that a node of this id may say."""
    return st.builds(
        NodeState,
        st.just(node_id),
        st.sampled_from(LATENCIES) | st.floats(0, 1e9),
        st.sampled_from(LOADS) | st.floats(0, 1e9),
        st.sampled_from(SCORES) | st.floats(0, 1e9),
        st.lists(fragment, max_size=4).map(tuple),
        st.sampled_from((*[True] * 5, False)),
        st.sampled_from((*[None] * 4, MODEL, "other")),
    )


def _between(cuts: Sequence[int]) -> st.SearchStrategy[Fragment]:
    """A fragment from one of these boundaries to another."""
    return st.sampled_from([(low, high - 1) for number, low in enumerate(cuts) for high in cuts[number + 1 :]])


def _nodes(fragment: st.SearchStrategy[Fragment], least: int) -> st.SearchStrategy[tuple[NodeState, ...]]:
    ids = st.lists(st.sampled_from(IDS), unique=True, min_size=least, max_size=5)
    return ids.flatmap(lambda drawn: st.tuples(*(node_states(node_id, fragment) for node_id in drawn)))


cuts = st.lists(st.integers(0, LAYERS), unique=True, min_size=2, max_size=4).map(sorted)

weights = st.sampled_from(WEIGHTS) | st.builds(RouteWeights, *[st.sampled_from((0.0, 1.0)) | st.floats(0, 1e9)] * 5)

windows = st.tuples(st.integers(0, LAYERS), st.integers(0, LAYERS)).map(lambda ends: (min(ends), max(ends)))

meshes = st.builds(
    Mesh,
    cuts.flatmap(lambda shared: _nodes(_between(shared), 3)) | _nodes(ragged, 0),
    weights,
    st.none() | st.none() | windows,
    st.sampled_from(PROMPTS),
)
