"""What the rogue says when it is asked for embeddings: a vector that tells which input it is of. Pure; driven by
`rogue.acts`.
"""

import base64
import json
import struct
from typing import Any

from lumbre.backends.fakes.rogue.script import MODEL, PROMPT_TOKENS
from lumbre.backends.fakes.rogue.wish import Wish


def write_vectors(wish: Wish, body: bytes) -> bytes:
    """Write the reply to a request for embeddings; with `vendor` as floats, whatever was asked for."""
    asked = json.loads(body)
    given = asked.get("input", "")
    inputs = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    encodes = asked.get("encoding_format") == "base64" and not wish.vendor
    data = [
        {"object": "embedding", "index": number, "embedding": _written(vector_of(each), encodes)}
        for number, each in enumerate(inputs)
    ]
    whole: dict[str, Any] = {"object": "list", "model": MODEL, "data": data}
    if wish.usage:
        tokens = PROMPT_TOKENS * len(inputs)
        whole["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json.dumps(whole).encode()


def vector_of(given: str | list[int]) -> list[float]:
    """Length, first character or token, and a quarter: all of them exact as float32."""
    first = 0 if not given else ord(given[0]) if isinstance(given, str) else given[0]
    return [float(len(given)), float(first), 0.25]


def _written(vector: list[float], encodes: bool) -> list[float] | str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode() if encodes else vector
