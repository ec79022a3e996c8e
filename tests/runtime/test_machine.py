"""What this machine has, read from folders that the tests fill."""

import os
import socket
from pathlib import Path

import pytest

from lumbre.runtime import machine
from lumbre.runtime.machine import Gpu


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A stand-in for the vendor's tool."""
    path = tmp_path / "smi"
    path.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771, 12, 0'\necho 'NVIDIA L4, [N/A], [N/A], [N/A]'\n")
    path.chmod(0o755)
    return path


def test_gpus_are_told_with_their_load_by_the_vendors_tool(script: Path, tmp_path: Path) -> None:
    found = machine.gpus(proc=tmp_path, kfd=tmp_path / "kfd", query=str(script))
    mebibyte = 1_048_576
    assert found == [
        Gpu("nvidia", "NVIDIA H200", 143_771 * mebibyte, 12 * mebibyte, 0),
        Gpu("nvidia", "NVIDIA L4"),
    ]


def test_gpus_are_told_by_the_driver_when_the_tool_is_not_there(tmp_path: Path) -> None:
    card = tmp_path / "driver/nvidia/gpus/0000:01:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA A100\nIRQ: 5\n")
    (tmp_path / "kfd").touch()
    found = machine.gpus(proc=tmp_path, kfd=tmp_path / "kfd", query=str(tmp_path / "none"))
    assert found == [Gpu("nvidia", "NVIDIA A100"), Gpu("amd", "ROCm")]


def test_a_containers_limits_are_the_machines(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert machine.processor(cgroup=tmp_path).usable == 0.5
    seen = machine.memory(cgroup=tmp_path)
    assert (seen.total_bytes, seen.available_bytes) == (1_000_000, 600_000)


def test_a_container_without_limits_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.processor(cgroup=tmp_path).usable == len(os.sched_getaffinity(0))
    assert machine.memory(cgroup=tmp_path).total_bytes > 100_000_000


def test_instruction_sets_are_the_ones_that_matter(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags\t\t: fpu avx2 fma sse4_2\n")
    assert machine.processor(proc=tmp_path).instruction_sets == ("avx2", "fma")


def test_a_folder_that_is_not_there_yet_is_measured_where_it_would_be(tmp_path: Path) -> None:
    assert machine.free_disk_bytes(tmp_path / "a/b/c") > 0
    assert machine.writable(tmp_path / "a/b/c")
    (tmp_path / "file").touch()
    assert not machine.writable(tmp_path / "file" / "below")


def test_a_port_is_free_or_held_by_something_that_is_no_lumbre() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert machine.port_holder("127.0.0.1", port) == "other"
    assert machine.port_holder("127.0.0.1", port) == "nobody"
