"""What the router should answer, from the seed's text alone: write down every chain, price each, sort them. Pure.

It shares no idea with the router, and is fit for small meshes only: chains grow exponentially.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from lumbre.mesh import NodeState, RouteWeights

Window = tuple[int, int]
Fragment = tuple[int, int]
Chain = tuple[tuple[str, Fragment], ...]
"""Fragments with the node that runs each, in the order in which they run."""

Stretch = tuple[str, int, int, tuple[Fragment, ...]]
"""A stage: its node, its first and last layer, its fragments."""

Rank = tuple[int, int, tuple[str, ...], tuple[Fragment, ...], tuple[int, ...]]
"""What decides between chains: cost in millionths, stages, node ids, fragments; the smallest is best.

Two chains may still be equal in all of that: where two neighbours hold the same fragment, either may run it. Then the
one that hands over sooner is best: the sequence of the stages' last layers decides.
"""


@dataclass(frozen=True)
class Ranked:
    """A chain and its rank."""

    rank: Rank
    chain: Chain

    @property
    def micro(self) -> int:
        """Its cost in millionths."""
        return self.rank[0]

    @property
    def nodes(self) -> tuple[str, ...]:
        """One id a stage."""
        return self.rank[2]

    @property
    def stages(self) -> tuple[Stretch, ...]:
        """Of each stage its node, first and last layer, and fragments."""
        return tuple(
            (node_id, fragments[0][0], fragments[-1][1], fragments) for node_id, fragments in stretches(self.chain)
        )


def best(
    states: Iterable[NodeState],
    weights: RouteWeights,
    model: str,
    layer_range: Window | None = None,
    prompt_tokens: int = 0,
) -> Ranked | None:
    """The best chain that covers the window; None if there is none."""
    ranked = ranking(states, weights, model, layer_range, prompt_tokens)
    return ranked[0] if ranked else None


def ranking(
    states: Iterable[NodeState],
    weights: RouteWeights,
    model: str,
    layer_range: Window | None = None,
    prompt_tokens: int = 0,
) -> list[Ranked]:
    """All chains that cover the window, best first."""
    partners = takes_part(states, model)
    window = window_of(partners, layer_range)
    if window is None:
        return []
    found = [Ranked(rank(chain, partners, weights, prompt_tokens), chain) for chain in chains(partners, window)]
    return sorted(found, key=lambda each: each.rank)


def takes_part(states: Iterable[NodeState], model: str) -> list[NodeState]:
    """The live nodes that hold this model or do not say which."""
    return [state for state in states if state.alive and state.model in (None, model)]


def window_of(partners: Sequence[NodeState], layer_range: Window | None) -> Window | None:
    """The window that was asked for, else from the first to the last layer served; None if nothing is."""
    if layer_range is not None:
        return layer_range
    layers = [fragment for state in partners for fragment in state.served_layers]
    if not layers:
        return None
    return min(first for first, _ in layers), max(last for _, last in layers)


def chains(partners: Sequence[NodeState], window: Window) -> Iterator[Chain]:
    """Every chain of whole fragments from the window's first boundary to its end, each once."""
    first, last = window
    if first > last:
        yield ()
        return
    for state in partners:
        for fragment in set(state.served_layers):
            if fragment[0] == first and fragment[1] <= last:
                for rest in chains(partners, (fragment[1] + 1, last)):
                    yield ((state.node_id, fragment), *rest)


def rank(chain: Chain, partners: Sequence[NodeState], weights: RouteWeights, prompt_tokens: int) -> Rank:
    """Price a chain from scratch, and put next to it what decides between equal costs."""
    stages = stretches(chain)
    nodes = tuple(node_id for node_id, _ in stages)
    fragments = tuple(fragment for _, fragment in chain)
    ends = tuple(run[-1][1] for _, run in stages)
    return price(nodes, partners, weights, prompt_tokens), len(nodes), nodes, fragments, ends


def price(nodes: Sequence[str], states: Iterable[NodeState], weights: RouteWeights, prompt_tokens: int = 0) -> int:
    """What these stages cost in millionths: the seed's section 2, each term rounded once."""
    by_id = {state.node_id: state for state in states}
    terms = [weights.prompt * 10 * prompt_tokens / 1024]
    terms += [weights.hop * 15] * (len(nodes) - 1)
    for node_id in nodes:
        state = by_id[node_id]
        terms.append(
            weights.latency * state.latency_ms
            + weights.load * state.current_load * 120
            + weights.capacity * (100 / max(state.capacity_score, 0.01))
        )
    return sum(round(1e6 * term) for term in terms)


def stretches(chain: Chain) -> list[tuple[str, tuple[Fragment, ...]]]:
    """The stages of a chain: consecutive fragments of one node are one."""
    return [
        (node_id, tuple(fragment for _, fragment in run)) for node_id, run in groupby(chain, key=lambda each: each[0])
    ]


def reached(partners: Sequence[NodeState], window: Window) -> set[int]:
    """The boundaries to which some chain leads from the window's first."""
    first, last = window
    return {first, *(boundary for end in range(first, last + 1) for boundary in _end(partners, (first, end)))}


def _end(partners: Sequence[NodeState], window: Window) -> list[int]:
    return [window[1] + 1] if next(chains(partners, window), None) is not None else []
