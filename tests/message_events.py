"""The events of a stream of the Messages API, put together by hand."""

from typing import Any

import orjson

Json = dict[str, Any]


def sent(value: object) -> bytes:
    """An event as it comes."""
    kind = value.get("type", "x") if isinstance(value, dict) else "x"
    return b"event: " + str(kind).encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"


def start(**more: Any) -> Json:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": {}, **more}
    return {"type": "message_start", "message": message}


def block(kind: str, index: int = 0, **fields: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(kind: str, said: str, index: int = 0) -> Json:
    name = {"input_json_delta": "partial_json", "signature_delta": "signature"}.get(kind, kind.removesuffix("_delta"))
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: said}}


def stop(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **usage: Any) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


END: Json = {"type": "message_stop"}
