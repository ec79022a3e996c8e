"""The locks: what `pyproject.toml` asks for, pinned and hashed, and nothing that ties them to one index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BASE = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"], "editables"]
DEV = [*BASE, *PROJECT["dependency-groups"]["dev"]]


def pins(name: str) -> dict[str, tuple[str, list[str]]]:
    """Each package of a lock, with its version and its hashes; of one that is pinned by Python's version, the first."""
    markers: set[tuple[str, str]] = set()
    found: dict[str, tuple[str, list[str]]] = {}
    last = ""
    for entry in (ROOT / "requirements" / name).read_text(encoding="utf-8").split("\n"):
        if pin := re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)([^\\]*)", entry):
            last = canonicalize_name(pin[1])
            assert (last, pin[3]) not in markers, f"{last} is pinned twice"
            assert last not in found or "python" in pin[3], f"{last} is pinned twice"
            markers.add((last, pin[3]))
            found.setdefault(last, (pin[2], []))
        elif digest := re.search(r"--hash=sha256:([0-9a-f]{64})\b", entry):
            found[last][1].append(digest[1])
        else:
            assert not entry or entry.startswith("#"), f"{name}: not a pin, a hash or a comment: {entry}"
    return found


@pytest.mark.parametrize(("name", "wanted"), [("base.lock", BASE), ("dev.lock", DEV)])
def test_a_lock_pins_and_hashes_all_that_the_project_asks_for(name: str, wanted: list[str]) -> None:
    locked = pins(name)
    for requirement in map(Requirement, wanted):
        version, hashes = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} but {version} is locked; run `make lock`"
        assert hashes
    assert all(hashes for _, hashes in locked.values())


def test_what_is_tested_is_what_is_shipped() -> None:
    base, dev = pins("base.lock"), pins("dev.lock")
    assert base.items() <= dev.items()


@pytest.mark.parametrize("name", ["base.lock", "dev.lock"])
def test_a_lock_leaves_torch_to_the_machine_and_the_index_to_the_user(name: str) -> None:
    assert not {"torch", "torchvision", "triton"} & pins(name).keys()
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    assert not re.search(r"https?:|file:|--(?:extra-)?index|--find-links|--trusted", text)
    assert not re.search(r"nvidia|cuda", text)
