"""Decides how the embedded engine's process is set up and when it ends. Not pure; run with `python -m`.

One JSON line comes in on stdin (an `Order`), so that the key stands neither in the command line nor in the
environment. One goes out on stdout: `{"event": "ready", "address": …}` or `{"event": "failed", "reason": …}`.
Then stdin is the life line: when it ends, the gateway is gone and so is this process. llama.cpp's own log
goes to stderr.
"""

import dataclasses
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from lumbre.backends.guard import die_with_parent

HOST_CACHE_MIB = 512
"""Memory for prompts that lost their slot. llama.cpp takes 8192 unasked, more than many can spare."""
CPU_BATCH_TOKENS = 64
GPU_BATCH_TOKENS = 1024
"""A cancelled prompt is noticed only between batches: small ones where a batch takes long."""
_CONTEXT_STEP_TOKENS = 256
_METADATA_BYTES = 16 * 1024 * 1024
"""As far as a model's file is searched for what it says of itself; vocabularies stand there too."""


@dataclass(frozen=True)
class Order:
    """What the gateway wants started.

    Attributes:
        model_path: a GGUF file.
        alias: the name the engine gives the model.
        context_tokens: of each slot.
        slots: requests at once.
        threads: 0: the physical cores this process may use.
        batch_tokens: prompt tokens a step; 0: by the devices.
        api_key: what callers have to show.
        embedding: it is there to make embeddings.
    """

    model_path: str
    alias: str
    context_tokens: int
    slots: int
    threads: int
    batch_tokens: int
    api_key: str
    embedding: bool

    @classmethod
    def parse(cls, line: str) -> "Order":
        """Read the JSON line; `BootError` if a field is missing, unknown or of a wrong type."""
        try:
            given = json.loads(line)
        except json.JSONDecodeError as error:
            raise BootError(f"the order is not JSON: {error}") from None
        wanted = {field.name: field.type for field in dataclasses.fields(cls)}
        if not isinstance(given, dict) or given.keys() != wanted.keys():
            raise BootError(f"the order must have exactly these fields: {', '.join(wanted)}")
        for name, kind in wanted.items():
            if type(given[name]) is not kind:
                raise BootError(f"{name} in the order has a wrong type")
        return cls(**given)


class BootError(Exception):
    """The engine cannot start; the message is for the operator."""


def check_model(path: Path) -> None:
    """Tell the usual mistakes by name before llama.cpp answers all of them with "failed to load model"."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise BootError(f"the model file {path} does not exist") from None
    except OSError as error:
        raise BootError(f"the model file {path} cannot be read: {error.strerror}") from None
    if magic != b"GGUF":
        raise BootError(f"{path} is not a GGUF model file")


def pools_itself(path: Path) -> bool:
    """Whether a model's file says how its tokens become one vector: models that are made for embeddings do."""
    try:
        with path.open("rb") as file:
            return b".pooling_type" in file.read(_METADATA_BYTES)
    except OSError:
        return False


def engine_params(order: Order, *, has_gpu: bool) -> Any:
    """The engine's parameters for an order; whatever would let somebody go round the gateway is off."""
    import xllamacpp  # type: ignore[import-untyped, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = order.model_path
    params.model_alias = {order.alias}
    params.n_ctx = order.context_tokens * order.slots  # llama.cpp divides it by the slots
    params.n_parallel = order.slots
    threads = order.threads or _physical_cores()
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    batch_tokens = order.batch_tokens or (GPU_BATCH_TOKENS if has_gpu else CPU_BATCH_TOKENS)
    params.n_batch = params.n_ubatch = batch_tokens
    params.cache_ram_mib = HOST_CACHE_MIB
    if order.embedding:
        _embed(params, order)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order.api_key]
    params.ui = False
    params.cors_origins = params.cors_methods = params.cors_headers = ""
    params.cors_origins_explicit = True  # an empty list on purpose; not said, it is `*`
    params.cors_credentials = False
    params.endpoint_slots = True
    params.endpoint_metrics = False
    params.offline = True
    params.verbosity = 2  # warnings and errors: at 3 every request writes into a log that only a start trims
    return params


def _embed(params: Any, order: Order) -> None:
    """A text is embedded in one step, however long it is; there is nothing to keep for a next one."""
    import xllamacpp  # type: ignore[import-untyped, unused-ignore]

    params.embedding = True
    # llama.cpp rounds the context up, and says so; a text that fits it must fit the step.
    params.n_batch = params.n_ubatch = -(-order.context_tokens // _CONTEXT_STEP_TOKENS) * _CONTEXT_STEP_TOKENS
    params.cache_ram_mib = 0
    if not pools_itself(Path(order.model_path)):
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN


def load(order: Order) -> tuple[Any, dict[str, object]]:
    """Start the engine's server and wait until it can answer; the server object, and what is true of it."""
    check_model(Path(order.model_path))
    began_s = time.monotonic()
    try:
        import xllamacpp  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise BootError(f"the embedded engine is not installed properly: {error}") from None
    devices = xllamacpp.get_device_info()
    has_gpu = any(device["type"].name.endswith("GPU") for device in devices)
    params = engine_params(order, has_gpu=has_gpu)
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, MemoryError):  # its text is the same for every cause; the log line before it tells
        raise BootError(f"llama.cpp could not load {order.model_path}") from None
    facts: dict[str, object] = {
        "address": server.listening_address,
        "context_tokens": _slot_context_tokens(server.listening_address, order.api_key),
        "slots": order.slots,
        "threads": params.cpuparams.n_threads,
        "batch_tokens": params.n_batch,
        "devices": [str(device["description"]) for device in devices],
        "load_s": round(time.monotonic() - began_s, 3),
    }
    return server, facts


def _physical_cores() -> int:
    import psutil  # type: ignore[import-untyped, unused-ignore]

    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or allowed, allowed))


def _slot_context_tokens(address: str, api_key: str) -> int:
    """What each slot really got: llama.cpp caps it at what the model was trained for."""
    request = urllib.request.Request(f"{address}/slots", headers={"Authorization": f"Bearer {api_key}"})  # noqa: S310
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as reply:
            return int(json.load(reply)[0]["n_ctx"])
    except (OSError, ValueError) as error:
        raise BootError(f"the engine started but does not answer: {error}") from None


def _end_with_stdin() -> None:
    """Wait for the end of stdin, then end at once; runs in a thread of its own.

    `xllamacpp.Server` holds the interpreter lock while it loads, so during a load only the kernel's
    parent-death signal works (Linux); elsewhere the process ends when its load is done.
    """
    while os.read(0, 4096):
        pass
    os._exit(0)


def _read_order() -> str:
    """The first line of stdin, without reading ahead: the rest belongs to `_end_with_stdin`."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)  # the gateway died before it could say what it wants
        line += byte
    return line.decode(errors="replace")


def _take_stdout() -> TextIO:
    """Keep stdout for the one line, and send everybody else's output where the log goes."""
    mine = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return mine


def main() -> NoReturn:
    """Take the order, load, announce, and serve until the life line ends or SIGTERM comes."""
    if os.isatty(0):
        sys.exit("This is the engine's process; `lumbre up` starts it. It takes no orders from a terminal.")
    die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; the gateway drains, then ends us
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    out = _take_stdout()
    line = _read_order()
    threading.Thread(target=_end_with_stdin, name="life line", daemon=True).start()
    try:
        _server, facts = load(Order.parse(line))  # it serves as long as it is referred to
    except BootError as error:
        _announce(out, {"event": "failed", "reason": str(error)})
        os._exit(1)
    _announce(out, {"event": "ready", **facts})
    while True:
        signal.pause()


def _announce(out: TextIO, event: dict[str, object]) -> None:
    with out:
        out.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main()
