"""Decides what stands behind the gateway in these measurements: tier A with one upstream or two, B with a label each,
and C. Pure but for the file that it writes; `overhead`, `moves` and `soak` start what it describes.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.gateway.processes import Child

HERE = Path(__file__).parent
KEY = "not-a-secret"

Sections = Mapping[str, Mapping[str, float | str]]


def config(
    upstreams: Mapping[str, str],
    nodes: Mapping[str, tuple[str, str]] | None = None,
    outside: str | None = None,
    *,
    slots: int,
    key_file: Path | None = None,
    more: Sections | None = None,
) -> str:
    """A `lumbre.toml`.

    Args:
        upstreams: tier A's, by id: address.
        nodes: tier B's, by id: label and address; none: no tier B.
        outside: tier C's address; None: no tier C.
        slots: of each of them.
        key_file: where C's key is.
        more: further sections.
    """
    lines = ["[tier_a]", 'backend = "openai"']
    for name, url in upstreams.items():
        lines += ["[[tier_a.upstreams]]", f'id = "{name}"', f'base_url = "{url}/v1"', f"slots = {slots}"]
    for name, (label, url) in (nodes or {}).items():
        lines += ["[[tier_b.nodes]]", f'id = "{name}"', f'labels = ["{label}"]', f'base_url = "{url}/v1"']
        lines += [f"slots = {slots}", "usd_per_hour = 0.71"]
    if outside is not None:
        lines += ["[tier_c]", f'base_url = "{outside}/v1"', 'model = "outside"', f'api_key_file = "{key_file}"']
        lines += ['direct = ["*"]', f"slots = {slots}"]
    for section, values in (more or {}).items():
        lines += [f"[{section}]", *(f"{name} = {_toml(value)}" for name, value in values.items())]
    return "\n".join([*lines, ""])


def gateway(folder: Path, text: str, name: str = "lumbre", program: Sequence[str] = ("-m", "lumbre.cli.main")) -> Child:
    """Start a gateway with these settings on a free port; it has printed nothing yet.

    Args:
        name: of its files in the folder.
        program: what the interpreter runs.
    """
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    argv = [sys.executable, *program, "up", "--config", str(path), "--state-dir", str(folder / f"{name}-state")]
    return Child([*argv, "--port", "0", "--json"], folder / f"{name}.log")


def key_file(folder: Path) -> Path:
    """Tier C's key, in a file."""
    path = folder / "key"
    path.write_text(KEY, encoding="utf-8")
    return path


def chaos(folder: Path, name: str, port: int = 0, *, calm: bool = False) -> Child:
    """Start an engine that misbehaves, or a calm one; what it has seen is in `seen_file`."""
    argv = [sys.executable, str(HERE / "chaos.py"), "--port", str(port), "--seen", str(seen_file(folder, name))]
    return Child([*argv, *(["--calm"] if calm else [])], folder / f"{name}.log")


def seen_file(folder: Path, name: str) -> Path:
    """Where an engine writes down what reaches it."""
    return folder / f"{name}.seen"


def _toml(value: float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
