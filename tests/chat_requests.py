"""Chat requests for an upstream of the Messages API, put together by hand, and what it gets of them."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from anthropic.types.message_create_params import MessageCreateParams
from pydantic import TypeAdapter

from lumbre.api.openai_schema import CHAT_REQUEST, check
from lumbre.wire.anthropic.from_chat import cannot, to_messages

Json = dict[str, Any]

OFFICIAL: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)
HELLO = {"role": "user", "content": "hi"}
GET = {"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {}}}}
DATA = "data:image/png;base64,AA=="


def asking(*messages: Json, **more: Any) -> Json:
    return {"messages": list(messages) or [HELLO], **more}


def calling(*ids: str, arguments: str = "{}", **more: Any) -> Json:
    function = {"name": "get", "arguments": arguments}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def result(identity: str, content: Any = "42") -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def shown(url: object) -> Json:
    return {"type": "image_url", "image_url": {"url": url, "detail": "high"}}


def drawn_out(value: Any) -> Any:
    """The official types read lists only when somebody walks them."""
    if isinstance(value, Mapping):
        return {name: drawn_out(each) for name, each in value.items()}
    return [drawn_out(each) for each in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def check_official(request: Json) -> None:
    """All of it is known to the official types, but for what they dropped with the API's version 2026-10-21."""
    known = {name: value for name, value in request.items() if name not in ("temperature", "top_p")}
    assert drawn_out(OFFICIAL.validate_python(request)) == known


def told(body: Json) -> Json:
    """The Messages request that a chat request becomes: `cannot` is silent, and it is of the official types."""
    check(body, CHAT_REQUEST)
    before = orjson.dumps(body)
    assert cannot(body) is None
    request = to_messages(body, model="claude")
    assert orjson.dumps(body) == before
    check_official(request)
    return request
