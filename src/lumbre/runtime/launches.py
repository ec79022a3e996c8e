"""Decides with which command line, order, key and environment an engine starts. Called by the supervisor."""

import dataclasses
import json
import re
import secrets
import socket
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from lumbre.backends.guard import GRACE_S
from lumbre.backends.llama_child import Order
from lumbre.runtime.schema import Settings, TierASection

HOST = "127.0.0.1"
EMBEDDING_SLOTS = 1
"""Texts that the embedding engine works on at once: it has all the processor's cores for each."""

_PLACEHOLDER = re.compile(r"\{(port|host|key|model|slots|context_tokens|all_context_tokens)\}")
_KEPT_NAMES = frozenset({"PATH", "HOME", "TMPDIR", "LANG", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
_KEPT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "VK_", "GGML_", "OMP_")


@dataclass(frozen=True)
class Launch:
    """How one engine is started, once: every start has a key of its own.

    Attributes:
        argv: the full command line.
        stdin_order: bytes written to its stdin first; stdin then stays open as its life line.
        announces: it tells its address in a JSON line on stdout; else it is polled at `address`.
        address: such as `http://127.0.0.1:9555`; None if it announces one.
        api_key: what it demands of callers.
        env: its whole environment.
        context_tokens: what each slot is to get; 0 where the engine does not tell what it got.
    """

    argv: tuple[str, ...]
    stdin_order: bytes | None = dataclasses.field(repr=False)
    announces: bool
    address: str | None
    api_key: str = dataclasses.field(repr=False)
    env: Mapping[str, str] = dataclasses.field(repr=False)
    context_tokens: int = 0


def embedded_launch(tier_a: TierASection, model_path: Path, *, alias: str, environ: Mapping[str, str]) -> Launch:
    """Start llama.cpp in a child process; of `environ` it gets what finds libraries and devices, no keys."""
    order = Order(
        model_path=str(model_path.absolute()),
        alias=alias,
        context_tokens=tier_a.context_tokens,
        slots=tier_a.slots,
        threads=tier_a.threads,
        batch_tokens=tier_a.batch_tokens,
        api_key=secrets.token_urlsafe(32),
        embedding=False,
    )
    return _child_launch(order, environ)


def embeddings_launch(settings: Settings, model_path: Path, *, alias: str, environ: Mapping[str, str]) -> Launch:
    """Start a second llama.cpp, for embeddings: a whole text goes through it in one step, one text after the other.

    It is a process of its own because the first one works in short steps, so that an answer can be cancelled. The
    weights are mapped from the same file, so they are in memory once.
    """
    order = Order(
        model_path=str(model_path.absolute()),
        alias=alias,
        context_tokens=settings.embeddings.context_tokens,
        slots=EMBEDDING_SLOTS,
        threads=settings.tier_a.threads,
        batch_tokens=0,
        api_key=secrets.token_urlsafe(32),
        embedding=True,
    )
    return _child_launch(order, environ)


def _child_launch(order: Order, environ: Mapping[str, str]) -> Launch:
    return Launch(
        argv=_python_module("lumbre.backends.llama_child"),
        stdin_order=json.dumps(dataclasses.asdict(order)).encode() + b"\n",
        announces=True,
        address=None,
        api_key=order.api_key,
        env={name: value for name, value in environ.items() if _is_kept(name)},
        context_tokens=order.context_tokens,
    )


def command_launch(
    tier_a: TierASection,
    *,
    environ: Mapping[str, str],
    model_path: Path | None = None,
    withheld: Collection[str] = (),
) -> Launch:
    """Start the operator's own server line under the guard, on a free port.

    Words of the line may say `{port}`, `{host}`, `{key}`, `{model}`, `{slots}`, `{context_tokens}` (of each
    slot) and `{all_context_tokens}` (of all slots together: llama-server's context size). The key stands in
    `LLAMA_API_KEY` too, where other users of the machine cannot read it.

    Args:
        tier_a: the settings.
        environ: the gateway's environment; the server gets it without Lumbre's own variables and keys.
        model_path: what `{model}` says, if it is not the model as the settings name it.
        withheld: further variables that it does not get, such as those of other upstreams' keys.
    """
    api_key = secrets.token_urlsafe(32)
    port = _free_port()
    values = {
        "port": str(port),
        "host": HOST,
        "key": api_key,
        "model": str(model_path or tier_a.model),
        "slots": str(tier_a.slots),
        "context_tokens": str(tier_a.context_tokens),
        "all_context_tokens": str(tier_a.context_tokens * tier_a.slots),
    }
    words = tuple(_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in tier_a.command)
    keys = {*withheld, *(upstream.api_key_env for upstream in tier_a.upstreams)}
    env = {name: value for name, value in environ.items() if not name.startswith("LUMBRE_") and name not in keys}
    return Launch(
        argv=(*_python_module("lumbre.backends.guard"), "--grace-s", f"{GRACE_S:g}", "--", *words),
        stdin_order=None,
        announces=False,
        address=f"http://{HOST}:{port}",
        api_key=api_key,
        env={**env, "LLAMA_API_KEY": api_key},
    )


def _python_module(name: str) -> tuple[str, ...]:
    # -P: or a file of the folder that the gateway was started in could stand in for a library
    return (sys.executable, "-P", "-m", name)


def _is_kept(name: str) -> bool:
    return name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
