"""Decides what `lumbre mesh` was asked. `main` drives it; `mesh_answers` answers, and is loaded only then."""

import re
from typing import Annotated

import typer

from lumbre.cli.options import Json
from lumbre.cli.shell import Shell, shell_of

Nodes = Annotated[str, typer.Option("--nodes", help="mesh.nodes", metavar="FILE")]
Layers = Annotated[str | None, typer.Option("--layers", help="mesh.layers", metavar="FIRST-LAST")]
Model = Annotated[str | None, typer.Option("--model", help="mesh.model", metavar="NAME")]
Profile = Annotated[str, typer.Option("--profile", help="mesh.profile", metavar="NAME")]

_LAYERS = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)
_MOST_LAYER = 10**9


def route(  # shape: a command's parameters are its flags
    context: typer.Context,
    nodes: Nodes,
    layers: Layers = None,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", help="mesh.prompt_tokens", min=0, max=10**9, metavar="N")
    ] = 0,
    profile: Profile = "default",
    model: Model = None,
    fail: Annotated[str | None, typer.Option("--fail", help="mesh.fail", metavar="NODE")] = None,
    fallback_model: Annotated[
        str | None, typer.Option("--fallback-model", help="mesh.fallback_model", metavar="NAME")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="mesh.explain")] = False,
    svg: Annotated[str | None, typer.Option("--svg", help="mesh.svg", metavar="FILE")] = None,
    json: Json = False,
) -> int:
    """The cheapest route over the nodes of a file; exit 5 if there is none."""
    from lumbre.cli.mesh_answers import RouteQuestion, answer_route

    shell = shell_of(context)
    if explain + json + (svg is not None) > 1:
        raise typer.BadParameter(shell.words("mesh.one_form"))
    if fallback_model is not None and fail is None:
        raise typer.BadParameter(shell.words("mesh.fallback_needs_fail"))
    form = "explain" if explain else "json" if json else "line"
    window = _window(shell, layers)
    question = RouteQuestion(nodes, window, prompt_tokens, profile, model, fail, fallback_model, form, svg)
    return answer_route(shell, question)


def report(
    context: typer.Context,
    nodes: Nodes,
    layers: Layers = None,
    model: Model = None,
    json: Json = False,
) -> int:
    """What the mesh cannot do without; exit 5 if there is no route."""
    from lumbre.cli.mesh_answers import answer_report

    shell = shell_of(context)
    return answer_report(shell, nodes, _window(shell, layers), model, json=json)


def _window(shell: Shell, layers: str | None) -> tuple[int, int] | None:
    """`8-11`, or `8` for one layer."""
    if layers is None:
        return None
    found = _LAYERS.fullmatch(layers.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last <= _MOST_LAYER:
        raise typer.BadParameter(shell.words("mesh.bad_layers", found=layers))
    return first, last
