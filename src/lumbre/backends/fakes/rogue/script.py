"""What the rogue says, the same bytes each time: events and plain replies. Pure; driven by `rogue.acts`."""

import json
from dataclasses import dataclass
from typing import Any

from lumbre.backends.fakes.rogue.wish import Ask, Wish

PROMPT_TOKENS = 7
CREATED = 1_700_000_000
MODEL = "rogue"


@dataclass(frozen=True)
class Script:
    """A stream, event by event, each with its empty line."""

    opening: tuple[bytes, ...]
    contents: tuple[bytes, ...]
    finish: bytes
    usage: bytes
    """Empty when none was asked for."""
    done: bytes

    @property
    def events(self) -> tuple[bytes, ...]:
        every = (*self.opening, *self.contents, self.finish, self.usage, self.done)
        return tuple(event for event in every if event)


def write_script(ask: Ask, chat: bool) -> Script:
    """Write the stream that answers `ask`, for the chat endpoint or the completions endpoint."""
    wish = ask.wish
    contents = tuple(_content_events(wish, chat))
    reason = "tool_calls" if wish.tool_arguments else "stop"
    usage = _usage(wish) if wish.usage and ask.include_usage else None
    return Script(
        opening=(_event(wish, _delta_chunk({"role": "assistant", "content": ""})),) if chat else (),
        contents=contents,
        finish=_event(wish, _delta_chunk({}, reason) if chat else _text_chunk("", reason)),
        usage=_event(wish, {**_frame(chat), "choices": [], "usage": usage}) if usage else b"",
        done=f"data: [DONE]{wish.newline * 2}".encode(),
    )


def write_reply(ask: Ask, chat: bool) -> bytes:
    """Write the same answer as one JSON body."""
    wish = ask.wish
    text = "".join(pieces(wish))
    choice: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls" if wish.tool_arguments else "stop"}
    if not chat:
        choice["text"] = text
    elif wish.tool_arguments:
        choice["message"] = {"role": "assistant", "content": None, "tool_calls": [_call(wish.tool_arguments)]}
    else:
        choice["message"] = {"role": "assistant", "content": text}
    whole = {**_frame(chat), "object": "chat.completion" if chat else "text_completion", "choices": [choice]}
    if wish.usage:
        whole["usage"] = _usage(wish)
    if not wish.vendor:
        return json.dumps(whole, ensure_ascii=False).encode()
    # Spacing, escapes and number spellings that no JSON writer would make again.
    body = json.dumps({**whole, "rogue_note": "ñ\u2028"}, indent=3, ensure_ascii=True)
    return body.replace('"index": 0', '"index"  :  0, "rogue_score": 1.50e+2').encode() + b"\n \n"


def write_error(status: int, message: str = "the rogue refuses") -> bytes:
    """Write an error in OpenAI's shape, with a vendor's field."""
    error = {
        "message": message,
        "type": "rogue_error",
        "param": None,
        "code": f"rogue_{status}",
        "hint": "retry",
    }
    return json.dumps({"error": error}).encode()


def write_error_event(wish: Wish) -> bytes:
    """Write the event of a vendor that fails in the middle of a stream."""
    return f"data: {write_error(500, 'the rogue broke').decode()}{wish.newline * 2}".encode()


def pieces(wish: Wish) -> list[str]:
    """Cut the text to say into `wish.chunks` pieces."""
    if not wish.text:
        return [f"word{number} " for number in range(wish.chunks)]
    return _cut(wish.text, wish.chunks)


def _cut(text: str, count: int) -> list[str]:
    step = max(1, -(-len(text) // max(1, count)))
    return [text[start : start + step] for start in range(0, len(text), step)]


def _content_events(wish: Wish, chat: bool) -> list[bytes]:
    if wish.tool_arguments and chat:
        parts = _cut(wish.tool_arguments, wish.chunks)
        opening = _delta_chunk({"tool_calls": [{"index": 0, **_call("")}]})
        fragments = [_delta_chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in parts]
        return [_event(wish, chunk) for chunk in (opening, *fragments)]
    chunks = [_delta_chunk({"content": piece}) if chat else _text_chunk(piece) for piece in pieces(wish)]
    return [_event(wish, chunk) for chunk in chunks]


def _call(arguments: str) -> dict[str, Any]:
    return {"id": "call_rogue", "type": "function", "function": {"name": "lookup", "arguments": arguments}}


def _frame(chat: bool) -> dict[str, Any]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    return {"id": "rogue-1", "object": kind, "created": CREATED, "model": MODEL}


def _delta_chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {**_frame(chat=True), "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def _text_chunk(text: str, reason: str | None = None) -> dict[str, Any]:
    return {**_frame(chat=False), "choices": [{"index": 0, "text": text, "finish_reason": reason}]}


def _usage(wish: Wish) -> dict[str, int]:
    spoken = len(_cut(wish.tool_arguments, wish.chunks) if wish.tool_arguments else pieces(wish))
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": spoken,
        "total_tokens": PROMPT_TOKENS + spoken,
    }


def _event(wish: Wish, chunk: dict[str, Any]) -> bytes:
    line_end = wish.newline
    lines = [": the rogue hums"] if wish.comments else []
    if wish.vendor:
        chunk = {**chunk, "rogue_timings": {"predicted_ms": 1.0}}
        lines += ["event: message", "id: 7", "retry: 10"]
        first, rest = json.dumps(chunk, ensure_ascii=False).replace("1.0}", "1.00e0}").split(", ", 1)
        lines += [f"data:{first},", f"data: {rest}"]
    else:
        lines.append(f"data: {json.dumps(chunk, ensure_ascii=False)}")
    return (line_end.join(lines) + line_end * 2).encode()
