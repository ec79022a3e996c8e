"""What many tests need: the real model, and the gateway that runs it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_gateway import EmbeddedGateway
from lumbre.runtime.models import ModelStore
from lumbre.runtime.settings import load


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
