"""Answers `lumbre mesh`: reads the file, asks the router, prints. `mesh` drives it; the router decides."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from lumbre.cli.exits import NO_ROUTE, OK
from lumbre.cli.mesh_diagram import diagram
from lumbre.cli.mesh_text import (
    explanation_lines,
    failover_lines,
    no_route_text,
    report_lines,
    route_line,
)
from lumbre.cli.nodes_file import Nodes, is_writable, read_nodes
from lumbre.cli.screen import printable
from lumbre.cli.shell import Shell
from lumbre.core.errors import CapacityError, OperatorError
from lumbre.core.quoting import quoted
from lumbre.mesh import (
    PROFILES,
    Failover,
    NoRouteAvailable,
    Route,
    RouteSnapshot,
    RouteWeights,
    RoutingFailure,
    failover,
    resilience,
)

ANY_MODEL = "any"
"""What stands for the model where no node names one and nobody asked for one."""

Window = tuple[int, int]


@dataclass(frozen=True)
class RouteQuestion:
    """What `lumbre mesh route` was asked.

    Attributes:
        nodes: the file, or `-`.
        profile: names the weights.
        model: None: the one that the nodes name.
        fail: a node that is to fail.
        form: `line`, `explain` or `json`.
        svg: where the diagram goes.
    """

    nodes: str
    window: Window | None
    prompt_tokens: int
    profile: str
    model: str | None
    fail: str | None
    fallback_model: str | None
    form: str
    svg: str | None


class DiagramNotWrittenError(OperatorError):
    """The diagram's file cannot be written."""

    code = "not_written"


def answer_route(shell: Shell, asked: RouteQuestion) -> int:
    """Print the route.

    Raises:
        CapacityError: there is none.
    """
    if asked.profile not in PROFILES:
        raise typer.BadParameter(
            shell.words("mesh.bad_profile", found=quoted(asked.profile), known=", ".join(PROFILES))
        )
    if not is_writable(asked.fallback_model or ""):
        raise typer.BadParameter(shell.words("mesh.unwritable_model"))
    nodes = read_nodes(asked.nodes, shell.words)
    model = _model(shell, nodes, asked.model)
    weights = PROFILES[asked.profile]
    try:
        route = RouteSnapshot(nodes.states, weights, model, asked.window).route(asked.prompt_tokens)
    except NoRouteAvailable as error:
        raise CapacityError(no_route_text(error, model, shell.words), code=error.code) from error
    answer = None if asked.fail is None else _failed(shell, route, nodes, weights, asked)
    if asked.svg is not None:
        _write_diagram(shell, route if answer is None else answer.route, asked.svg)
    if asked.form == "json":
        shell.data(_as_json(route, answer))
        return OK
    lines = (
        explanation_lines(route.explain(), shell.words) if asked.form == "explain" else [route_line(route, shell.words)]
    )
    if answer is not None:
        lines += _failover_lines(shell, asked, answer)
    for line in lines:
        shell.line(line)
    if asked.svg is not None:
        shell.say("mesh.drawn", file=printable(asked.svg))
    return OK


def _as_json(route: Route, answer: Failover | None) -> dict[str, Any]:
    told = route.explain().as_dict()
    if answer is None:
        return told
    after = {
        "code": answer.reason.code,
        "en": answer.reason.en,
        "es": answer.reason.es,
        "degraded": answer.degraded,
        "route": answer.route.explain().as_dict(),
    }
    return {**told, "failover": after}


def _failover_lines(shell: Shell, asked: RouteQuestion, answer: Failover) -> list[str]:
    lines = failover_lines(asked.fail or "", answer, shell.words)
    if asked.form == "explain":
        lines = ["", *lines[:1], "", *explanation_lines(answer.route.explain(), shell.words), *lines[2:]]
    return lines


def answer_report(shell: Shell, file: str, window: Window | None, model: str | None, *, json: bool) -> int:
    """Print what the mesh cannot do without."""
    nodes = read_nodes(file, shell.words)
    model = _model(shell, nodes, model)
    # The weights change no answer here: what can be run hangs on the fragments alone.
    report = resilience(RouteSnapshot(nodes.states, RouteWeights(), model, window))
    if json:
        shell.data(report.as_dict())
    else:
        for line in report_lines(report, model, shell.words):
            shell.line(line)
    return OK if report.has_route else NO_ROUTE


def _failed(shell: Shell, route: Route, nodes: Nodes, weights: RouteWeights, asked: RouteQuestion) -> Failover:
    failed = asked.fail or ""
    if failed not in {state.node_id for state in nodes.states}:
        shell.note(shell.words("mesh.unknown_node", node=quoted(failed)))
    try:
        return failover(
            route,
            nodes.redundancy,
            failed,
            states=nodes.states,
            weights=weights,
            fallback_model=asked.fallback_model,
        )
    except RoutingFailure as error:
        why = _why_none(route.snapshot.without(failed), shell)
        raise CapacityError(
            shell.words("mesh.no_successor", node=printable(failed), why=why), code=error.code
        ) from error


def _why_none(snapshot: RouteSnapshot, shell: Shell) -> str:
    """Why there is no route."""
    try:
        snapshot.route()
    except NoRouteAvailable as error:
        return no_route_text(error, snapshot.model, shell.words)
    raise AssertionError("whoever asks has been refused a route")


def _model(shell: Shell, nodes: Nodes, asked: str | None) -> str:
    """The model whose layers are wanted: the one that was asked for, or the only one that the nodes name."""
    if asked is not None:
        if not is_writable(asked):
            raise typer.BadParameter(shell.words("mesh.unwritable_model"))
        return asked
    named = sorted({state.model for state in nodes.states if state.model is not None})
    if len(named) > 1:
        raise typer.BadParameter(shell.words("mesh.which_model", names=", ".join(map(printable, named))))
    return named[0] if named else ANY_MODEL


def _write_diagram(shell: Shell, route: Route, file: str) -> None:
    try:
        Path(file).write_text(diagram(route.explain(), shell.words), encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DiagramNotWrittenError(shell.words("mesh.not_written", file=quoted(file), reason=reason)) from None
