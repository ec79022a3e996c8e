"""The real OpenAI SDK at the gateway's door."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from embedded_gateway import EmbeddedGateway


@pytest.fixture
def client(embedded: EmbeddedGateway) -> Iterator[OpenAI]:
    """Told not to retry: a test wants to see the first answer."""
    with OpenAI(base_url=f"{embedded.url}/v1", api_key="none", max_retries=0, timeout=60) as made:
        yield made
