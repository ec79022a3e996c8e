"""Decides what stands between the load and the mock: nothing, nginx, or Lumbre. Driver; starts them and says where they
listen.
"""

import contextlib
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.processes import BOOT_S, BenchError, Child, Cores

HERE = Path(__file__).parent
PACKAGES = {"cc": "gcc", "wrk": "wrk", "nginx": "nginx-light"}
"""What is needed, and the Debian package that brings it."""

NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream mock {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://mock;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""
LUMBRE = """
[tier_a]
backend = "openai"
[[tier_a.upstreams]]
id = "mock"
base_url = "{upstream}/v1"
slots = 256
"""


def tools() -> dict[str, str]:
    """Where each tool that is needed lies.

    Raises:
        BenchError: some are missing; the message has the packages.
    """
    # Where Debian puts nginx is not on everybody's path.
    found = {name: shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") for name in PACKAGES}
    missing = [PACKAGES[name] for name, path in found.items() if path is None]
    if missing or not sys.platform.startswith("linux"):
        raise BenchError(f"this measurement needs Linux and: apt-get install {' '.join(missing or PACKAGES.values())}")
    return {name: path for name, path in found.items() if path is not None}


@dataclass(frozen=True)
class Target:
    """Something to put load on.

    Attributes:
        gateway: the process that stands in front of the mock; None where nothing does.
    """

    name: str
    url: str
    key: str
    gateway: Child | None


@contextlib.contextmanager
def targets(folder: Path, paths: dict[str, str], cores: Cores) -> Iterator[tuple[Target, ...]]:
    """The mock, and the same mock behind nginx and behind Lumbre, all of them up."""
    binary = build_mock(folder, paths["cc"])
    with contextlib.ExitStack() as stack:
        with cores.load():
            mock = stack.enter_context(Child([str(binary), "0"], folder / "mock.log"))
        upstream = mock.told("url")
        with cores.gateway():
            nginx, nginx_url = start_nginx(stack, folder, paths["nginx"], upstream)
            lumbre = stack.enter_context(Child(lumbre_argv(folder, upstream), folder / "lumbre.log"))
        key, url = lumbre.told("key"), lumbre.told("url")
        lumbre.told("models")
        yield (
            Target("direct", upstream, "none", None),
            Target("nginx", nginx_url, "none", nginx),
            Target("lumbre", url, key, lumbre),
        )


def build_mock(folder: Path, compiler: str) -> Path:
    """Compile the mock into the folder.

    Raises:
        BenchError: the compiler refuses it, or warns.
    """
    binary = folder / "mock"
    argv = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(binary), str(HERE / "mock.c")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"the mock does not compile:\n{done.stderr}")
    return binary


def start_nginx(stack: contextlib.ExitStack, folder: Path, nginx: str, upstream: str) -> tuple[Child, str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, upstream=upstream.removeprefix("http://"), port=port))
    argv = [nginx, "-p", str(folder), "-e", str(folder / "nginx.log"), "-c", str(config)]
    child = stack.enter_context(Child(argv, folder / "nginx.log"))
    until = time.monotonic() + BOOT_S
    while child.is_running() and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return child, f"http://127.0.0.1:{port}"
        select.select([], [], [], 0.02)
    raise child.failed("does not listen")


def lumbre_argv(folder: Path, upstream: str) -> list[str]:
    """A gateway as it comes, with a key; only the slots are raised above the number of connections."""
    config = folder / "lumbre.toml"
    config.write_text(LUMBRE.format(upstream=upstream))
    argv = [sys.executable, "-m", "lumbre.cli.main", "up", "--config", str(config)]
    return [*argv, "--state-dir", str(folder / "state"), "--new-key", "--port", "0", "--json"]
