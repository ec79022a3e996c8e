"""Decides nothing: tells what this machine has, from processor to ports. `cli.doctor` asks and judges."""

import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# psutil and http.client are imported where they are used: `lumbre --help` comes through here and shall be quick.
GPU_QUERY_TIMEOUT_S = 5.0
PORT_TIMEOUT_S = 1.0

# The ones llama.cpp has faster kernels for.
INSTRUCTION_SETS = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "amx_tile",
    "asimd",
    "sve",
)


@dataclass(frozen=True)
class Processor:
    """What may be used here, not what the board has: `usable` honours affinity and a container's quota."""

    architecture: str
    physical: int
    usable: float
    instruction_sets: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """Bytes; `total` is the smaller of the machine's and a container's limit."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True)
class Gpu:
    """A GPU; memory and load are None where its own tool did not tell."""

    vendor: Literal["nvidia", "amd"]
    name: str
    memory_bytes: int | None = None
    used_bytes: int | None = None
    busy_percent: int | None = None


Holder = Literal["nobody", "lumbre", "other"]


def processor(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Processor:
    """The processor as this process may use it."""
    import psutil

    logical = psutil.cpu_count() or 1
    usable: float = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    quota = _text(cgroup / "cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit():
        usable = min(usable, int(quota[0]) / int(quota[1]))
    listed = _text(proc / "cpuinfo")
    lines = [line.partition(":")[2] for line in listed.splitlines() if line.startswith(("flags", "Features"))]
    known = set(lines[0].split()) if lines else set()
    sets = tuple(name for name in INSTRUCTION_SETS if name in known)
    return Processor(platform.machine(), psutil.cpu_count(logical=False) or logical, usable, sets)


def memory(cgroup: Path = Path("/sys/fs/cgroup")) -> Memory:
    """Memory as this process may use it."""
    import psutil

    seen = psutil.virtual_memory()
    total, available = int(seen.total), int(seen.available)
    limit, used = _text(cgroup / "memory.max").strip(), _text(cgroup / "memory.current").strip()
    if limit.isdigit() and used.isdigit():
        total = min(total, int(limit))
        available = max(0, min(available, int(limit) - int(used)))
    return Memory(total, available)


def free_disk_bytes(folder: Path) -> int:
    """Free bytes where a folder is, or would be made."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(there).free


def writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or the folder itself can be made."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def gpus(proc: Path = Path("/proc"), kfd: Path = Path("/dev/kfd"), query: str = "nvidia-smi") -> list[Gpu]:
    """GPUs that a driver shows: NVIDIA's with load and memory if its tool answers, AMD's by presence."""
    found = _nvidia_by_tool(query) or list(_nvidia_by_driver(proc / "driver/nvidia/gpus"))
    if kfd.exists():
        found.append(Gpu("amd", "ROCm"))
    return found


def port_holder(host: str, port: int) -> Holder:
    """Who listens on an address: a Lumbre is known by its `/readyz`."""
    with contextlib.closing(socket.socket(_family(host), socket.SOCK_STREAM)) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError:
            return _listener(host, port)
    return "nobody"


def _listener(host: str, port: int) -> Holder:
    from http.client import HTTPConnection, HTTPException

    with contextlib.closing(HTTPConnection(reachable_host(host), port, timeout=PORT_TIMEOUT_S)) as connection:
        try:
            connection.request("GET", "/readyz")
            body = json.loads(connection.getresponse().read(65_536))
        except (OSError, HTTPException, ValueError):
            return "other"
    return "lumbre" if isinstance(body, dict) and "tiers" in body else "other"


def reachable_host(host: str) -> str:
    """An address to call for one that is listened on: the wildcards are no destinations."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 nothing is bound here


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _nvidia_by_tool(query: str) -> list[Gpu]:
    columns = "--query-gpu=name,memory.total,memory.used,utilization.gpu"
    try:
        done = subprocess.run(
            [query, columns, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=GPU_QUERY_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = (row.split(", ") for row in done.stdout.splitlines())
    return [_nvidia_row(row) for row in rows if len(row) == 4]


def _nvidia_row(row: list[str]) -> Gpu:
    name, total, used, busy = row
    return Gpu("nvidia", name, _mebibytes(total), _mebibytes(used), int(busy) if busy.isdigit() else None)


def _mebibytes(text: str) -> int | None:
    return int(text) * 1_048_576 if text.isdigit() else None


def _nvidia_by_driver(folder: Path) -> Iterable[Gpu]:
    for card in sorted(folder.glob("*/information")):
        fields = dict(line.partition(":")[::2] for line in _text(card).splitlines())
        yield Gpu("nvidia", fields.get("Model", "NVIDIA").strip())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
