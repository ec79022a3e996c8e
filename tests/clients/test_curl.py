"""The lines of the curl page, run as they stand."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from embedded_gateway import EmbeddedGateway

LINE = re.compile(r"^curl .*?(?<!\\)$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def replies(embedded: EmbeddedGateway, pasted: Callable[[str, str, str], list[str]]) -> Mapping[str, str]:
    """What comes of each line, by the path it asks at; all are run, in their order."""
    script = "".join(pasted("curl.md", "sh", embedded.url))
    found = {}
    for line in LINE.findall(script):
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={"PATH": "/usr/bin:/bin"},
        )
        path = line.partition(embedded.url)[2].split()[0]
        found[path + (" stream" if '"stream": true' in line else "")] = done.stdout
    return found


def test_every_line_does_what_the_page_says(replies: Mapping[str, str]) -> None:
    def reply(path: str) -> Any:
        return json.loads(replies[path])

    assert reply("/v1/models")["data"][0]["id"] == "auto"
    assert reply("/v1/chat/completions")["choices"][0]["message"]["content"]
    assert reply("/v1/messages")["content"][0]["text"]
    assert reply("/v1/messages/count_tokens")["input_tokens"] > 0
    assert reply("/v1/responses")["output"][0]["content"][0]["text"]
    assert len(reply("/v1/embeddings")["data"]) == 2
    assert replies["/v1/chat/completions stream"].endswith("data: [DONE]\n\n")
    assert "event: message_stop" in replies["/v1/messages stream"]
    assert reply("/readyz")["ready"] is True
