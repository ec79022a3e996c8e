"""Decides how the mesh's answers read for people, in English and Spanish. Pure; the `mesh` commands print it."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lumbre.cli.localised import in_spanish
from lumbre.cli.screen import printable
from lumbre.cli.words import Language, Words
from lumbre.mesh import Failover, NoRouteAvailable, Resilience, Route
from lumbre.mesh.explanation import Explanation

ARROW = " → "
_MOST_NAMED = 8

# The router speaks English. What it says stands before what it quotes, and only that is translated.
_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        r"\Aa text of (\d+) to (\d+) characters, not ": r"un texto de \1 a \2 caracteres, no ",
        r"\Aa text, or null for any, not ": "un texto, o null para cualquiera, no ",
        r"\A(\d+) fragments; (\d+) is the most\Z": r"\1 fragmentos; como mucho \2",
        r"\Apairs \[first, last\], not ": "pares [primera, última], no ",
        r"\Aa pair \[first, last\], not ": "un par [primera, última], no ",
        r"\Aits first layer comes after its last: ": "su primera capa va después de la última: ",
        r"\Atrue or false, not ": "true o false, no ",
        r"\Aan object, not ": "un objeto, no ",
        r"\Aan object of layers and their nodes, not ": "un objeto de capas con sus nodos, no ",
        r"\Aa key is a layer's number, such as '0', not ": "una clave es el número de una capa, como '0', no ",
        r"\Aa list of node ids, not ": "una lista de nombres de nodos, no ",
        r"\Aa list of nodes, not ": "una lista de nodos, no ",
        r"\Aa node id, not ": "el nombre de un nodo, no ",
        r"\Aa number from 0 to 1e9, not ": "un número de 0 a 1e9, no ",
        r"\Aa whole number from 0 to 1e9, not ": "un número entero de 0 a 1e9, no ",
        r"\Aa number, not ": "un número, no ",
        r"\Ano text that can be written: ": "no es un texto que se pueda escribir: ",
        r"\Ais missing\Z": "falta",
        r" is there already\Z": " ya está",
    }
)


def fault_text(why: str, lang: Language) -> str:
    """What is wrong with a field."""
    return in_spanish(why, _FAULTS) if lang == "es" else why


def layers_text(first: int, last: int) -> str:
    """`8-11`, or `8`."""
    return str(first) if first == last else f"{first}-{last}"


def ms(cost: float) -> str:
    """A cost to the tenth."""
    return f"{cost:.1f}"


def nodes_text(nodes: Iterable[str], words: Words) -> str:
    """`mini → laptop`."""
    return ARROW.join(map(printable, nodes)) or words("mesh.nobody")


def hops_text(hops: int, words: Words) -> str:
    """How many changes of node there are."""
    return words("mesh.hop") if hops == 1 else words("mesh.hops", hops=hops)


def route_line(route: Route, words: Words) -> str:
    """A route and its cost."""
    window = layers_text(*route.window)
    stages = ARROW.join(f"{printable(each.node_id)} ({layers_text(each.first, each.last)})" for each in route.stages)
    if not stages:
        return words("mesh.route_empty", window=window, nobody=words("mesh.nobody"))
    hops = hops_text(route.hops, words)
    return words("mesh.route_line", window=window, stages=stages, hops=hops, cost=ms(route.cost))


def failover_lines(failed: str, answer: Failover, words: Words) -> list[str]:
    """What becomes of the route when a node fails."""
    reason = answer.reason.es if words.lang == "es" else answer.reason.en
    lines = [words("mesh.failed", node=printable(failed), reason=reason), route_line(answer.route, words)]
    if answer.degraded:
        lines.append(words("mesh.degraded", model=printable(answer.route.model)))
    return lines


def explanation_lines(told: Explanation, words: Words) -> list[str]:
    """Every term of a route's cost, and what there is without each of its nodes."""
    route = told.route
    head = [words(f"mesh.column_{name}") for name in ("stage", "layers", "latency", "load", "capacity", "cost")]
    rows = [
        [
            printable(each.stage.node_id),
            layers_text(each.stage.first, each.stage.last),
            *map(ms, (each.latency, each.load, each.capacity, each.cost)),
        ]
        for each in told.stages
    ]
    prompt = words("mesh.prompt", tokens=route.prompt_tokens)
    ends = [(hops_text(route.hops, words), told.hop_cost), (prompt, told.prefill_cost), (words("mesh.sum"), route.cost)]
    rows += [[name, "", "", "", "", ms(cost)] for name, cost in ends]
    lines = [words("mesh.head", model=printable(route.model), window=layers_text(*route.window)), ""]
    lines += _columns([head, *rows])
    lines.append("")
    for node, other in told.without.items():
        instead = words("mesh.none") if other is None else f"{nodes_text(other.nodes, words)}, {ms(other.cost)}"
        lines.append(words("mesh.without", node=printable(node), instead=instead))
    return [*lines, "", words("mesh.telemetry", digest=told.digest)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Two columns of words, and the others of numbers, which end at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def report_lines(report: Resilience, model: str, words: Words) -> list[str]:
    """What the mesh cannot do without."""
    if report.window is None:
        return [words("mesh.nothing_served", model=printable(model))]
    window = layers_text(*report.window)
    lines = [words("mesh.head", model=printable(model), window=window), ""]
    if not report.has_route:
        lines.append(words("mesh.report_no_route"))
    elif report.indispensable:
        lines.append(words("mesh.indispensable", nodes=", ".join(map(printable, report.indispensable))))
    else:
        lines.append(words("mesh.spared"))
    if report.held_once:
        lines.append(words("mesh.held_once"))
        lines += [f"  {layers_text(*layers)}  {printable(node)}" for layers, node in report.held_once]
    else:
        lines.append(words("mesh.held_often"))
    if report.idle:
        lines.append(words("mesh.idle"))
        lines += [f"  {layers_text(*fragment)}  {printable(node)}" for node, fragment in report.idle]
    else:
        lines.append(words("mesh.no_idle"))
    return lines


def no_route_text(error: NoRouteAvailable, model: str, words: Words) -> str:
    """Why there is no route."""
    if error.window is None:
        return words("mesh.nothing_served", model=printable(model))
    if error.gaps:
        why = words("mesh.no_route_missing", layers=_some_layers(error.gaps, words))
    else:
        stops = [(layer, layer) for layer in error.dead_ends]
        why = words("mesh.no_route_stops", layers=_some_layers(stops, words))
    return words("mesh.no_route", window=list(error.window), model=printable(model), why=why)


def _some_layers(runs: Sequence[tuple[int, int]], words: Words) -> str:
    """Runs of layers by name, and how many more there are than can be read."""
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        return words("mesh.one_layer", layer=runs[0][0])
    named = ", ".join(layers_text(*run) for run in runs[:_MOST_NAMED])
    more = len(runs) - _MOST_NAMED
    return words("mesh.several_layers", layers=words("mesh.and_more", named=named, count=more) if more > 0 else named)
