"""What many tests need: the real model, the gateway that runs it, and an environment that is the same everywhere."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from embedded_gateway import EmbeddedGateway
from lumbre.runtime.models import ModelStore
from lumbre.runtime.settings import load


def pytest_configure() -> None:
    """Undo what the one who started the tests may have left to their children."""
    # A shell that runs us in the background ignores SIGINT, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Under `make test`, a make of a test's own would take itself for a part of ours.
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        os.environ.pop(name, None)
    hypothesis.settings.register_profile(
        "house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("house")


@pytest.fixture(scope="session")
def models_cache() -> Path:
    """The cache folder of whoever runs the tests: `make run` and the tests fetch the model once between them."""
    return load(config=None, overrides={}).settings.models.cache_dir


@pytest.fixture(scope="session")
def smollm2_path(models_cache: Path) -> Path:
    """The default model's file."""
    return ModelStore(models_cache).ensure("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Iterator[EmbeddedGateway]:
    """A gateway on its embedded engine, for tests that do it no lasting harm."""
    assert smollm2_path.exists()
    with EmbeddedGateway(tmp_path_factory.mktemp("embedded"), "smollm2-135m-instruct") as gateway:
        yield gateway
