"""The rooms of the flow tests: one set of backends, houses before them, and no request left behind."""

from collections.abc import Iterator

import pytest

from flow.flow_house import Backends, HouseOpener, open_houses
from flow.orders import Orders, given_orders


@pytest.fixture(scope="session")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    """The backends of all tests; they forget after each."""
    with Backends(tmp_path_factory.mktemp("backends")) as started:
        yield started


@pytest.fixture
def open_house(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HouseOpener]:
    """Opens houses that live as long as the test."""
    yield from open_houses(backends, tmp_path_factory)


@pytest.fixture(scope="module")
def open_house_for_module(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HouseOpener]:
    """Opens houses that live as long as the module; leave switches and policy as they were."""
    yield from open_houses(backends, tmp_path_factory)


@pytest.fixture
def order(backends: Backends) -> Iterator[Orders]:
    """Gives backends orders, which end with the test."""
    yield from given_orders(backends)


@pytest.fixture(autouse=True)
def _nothing_stays_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Blame a request that still runs in a backend on the test that left it there."""
    used = request.getfixturevalue("backends") if "backends" in request.fixturenames else None
    yield
    if used is not None:
        used.heal()
        used.forget()
