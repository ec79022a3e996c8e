"""What the rogue says when it is asked in the words of Anthropic's Messages API: the same answers as in `rogue.script`.
Pure; driven by `rogue.acts`.
"""

import json
from typing import Any

from lumbre.backends.fakes.rogue.script import MODEL, PROMPT_TOKENS, Script, pieces
from lumbre.backends.fakes.rogue.wish import Ask, Wish

_TYPES = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def write_message_script(ask: Ask) -> Script:
    """Write the stream that answers `ask`. A vendor's has pings, events and fields that nobody publishes."""
    wish = ask.wish
    started = {**_message(wish, []), "stop_reason": None, "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": 1}}
    opening = [_event(wish, "message_start", message=started)]
    if wish.vendor:
        opening += [_event(wish, "ping"), _event(wish, "rogue_weather", sky="ñ")]
    opening.append(_event(wish, "content_block_start", index=0, content_block=_begun(wish)))
    contents = [_event(wish, "content_block_delta", index=0, delta=delta) for delta in _deltas(wish)]
    contents.append(_event(wish, "content_block_stop", index=0))
    ended = {"stop_reason": _reason(wish), "stop_sequence": None}
    return Script(
        opening=tuple(opening),
        contents=tuple(contents),
        finish=_event(wish, "message_delta", delta=ended, usage={"output_tokens": len(_deltas(wish))}),
        usage=b"",
        done=_event(wish, "message_stop"),
    )


def write_message(ask: Ask) -> bytes:
    """Write the same answer as one Message."""
    wish = ask.wish
    content = _begun(wish)
    if wish.tool_arguments:
        content["input"] = json.loads(wish.tool_arguments)
    else:
        content["text"] = "".join(pieces(wish))
    message = {**_message(wish, [content]), "stop_reason": _reason(wish)}
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": len(_deltas(wish))}
    return json.dumps({**message, "usage": usage}, indent=3 if wish.vendor else None).encode()


def write_message_error(status: int, message: str = "the rogue refuses") -> bytes:
    """Write an error in this API's shape, with a vendor's field."""
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return json.dumps({"type": "error", "error": {"type": kind, "message": message, "hint": "retry"}}).encode()


def write_message_error_event(wish: Wish) -> bytes:
    """Write the event of a vendor that fails in the middle of a stream."""
    end = wish.newline
    return f"event: error{end}data: {write_message_error(529, 'the rogue broke').decode()}{end * 2}".encode()


def _message(wish: Wish, content: list[dict[str, Any]]) -> dict[str, Any]:
    message = {
        "id": "msg_rogue",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_sequence": None,
    }
    return {**message, "rogue_mood": "calm"} if wish.vendor else message


def _begun(wish: Wish) -> dict[str, Any]:
    if wish.tool_arguments:
        return {"type": "tool_use", "id": "toolu_rogue", "name": "lookup", "input": {}}
    return {"type": "text", "text": ""}


def _deltas(wish: Wish) -> list[dict[str, Any]]:
    if not wish.tool_arguments:
        return [{"type": "text_delta", "text": piece} for piece in pieces(wish)]
    text, step = wish.tool_arguments, max(1, -(-len(wish.tool_arguments) // max(1, wish.chunks)))
    parts = (text[at : at + step] for at in range(0, len(text), step))
    return [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _reason(wish: Wish) -> str:
    return "tool_use" if wish.tool_arguments else "end_turn"


def _event(wish: Wish, name: str, **told: Any) -> bytes:
    end = wish.newline
    lines = [f"event: {name}", f"data: {json.dumps({'type': name, **told}, ensure_ascii=False)}"]
    if wish.vendor:
        lines.insert(1, "id: 7")
    if wish.comments:
        lines.insert(0, ": the rogue hums")
    return (end.join(lines) + end * 2).encode()
