"""Decides what a client of the soak has got: an answer, a typed error, or neither. Pure; `clients` feeds it, the
accounts count it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from bench.decision.chaos import TEXT

Kind = Literal["answer", "error", "left", "wrong"]


@dataclass(frozen=True)
class Verdict:
    """What came of one request.

    Attributes:
        kind: `answer`; `error`, in its API's own shape; `left`, its client did; `wrong`, none of these.
        code: of the error; for `wrong`, what is wrong.
    """

    kind: Kind
    code: str = ""


LEFT = Verdict("left")

_ENDS: Mapping[str, tuple[str, str]] = {
    "/v1/messages": ("type", "message_stop"),
    "/v1/responses": ("type", "response.completed"),
}
"""How a stream that is no OpenAI chat says that it is whole."""


def verdict(door: str, *, stream: bool, status: int, content_type: str, body: bytes) -> Verdict:
    """What a reply that came whole is.

    Args:
        door: the path that was asked.
        stream: one was asked for.
    """
    if status >= 400:
        return _typed(door, _json(body), f"status {status}")
    if status != 200:
        return Verdict("wrong", f"status {status}")
    if stream:
        if content_type != "text/event-stream":
            return Verdict("wrong", f"a stream of the type {content_type!r}")
        return _of_stream(door, body)
    document = _json(body)
    return Verdict("answer") if _is_answer(door, document) else Verdict("wrong", f"no answer: {body[:200]!r}")


def _of_stream(door: str, body: bytes) -> Verdict:
    """What the last event says; an error may have an answer's beginning before it, and nothing after."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n")
    if not text.endswith("\n\n"):
        return Verdict("wrong", f"a stream that ends within an event: {text[-200:]!r}")
    told = [event for event in text.split("\n\n") if event and not event.startswith(":")]
    if not told:
        return Verdict("wrong", "a stream of no event")
    last = told[-1].split("\n")[-1].removeprefix("data:").strip()
    if last == "[DONE]":
        said = "".join(_pieces(told))
        return Verdict("answer") if said == TEXT else Verdict("wrong", f"[DONE] after {said!r}")
    document = _json(last.encode())
    if isinstance(document, dict):
        key, value = _ENDS.get(door, ("", ""))
        if key and document.get(key) == value:
            return Verdict("answer")
        if "error" in document:
            return _typed(door, document, "the last event")
        if document.get("type") == "response.failed":
            return _typed(door, document.get("response"), "the last event")
    return Verdict("wrong", f"a stream that ends with {last[:200]!r}")


def _pieces(events: list[str]) -> list[str]:
    """The texts of a stream of OpenAI's chunks."""
    found: list[str] = []
    for event in events:
        document = _json(event.split("\n")[-1].removeprefix("data:").strip().encode())
        choices = document.get("choices", ()) if isinstance(document, dict) else ()
        found += [choice.get("text") or (choice.get("delta") or {}).get("content") or "" for choice in choices]
    return found


def _typed(door: str, document: Any, where: str) -> Verdict:
    """An error in the shape of its API, with a code of the gateway's."""
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str) or not error["message"]:
        return Verdict("wrong", f"{where}: no error but {str(document)[:200]}")
    if door == "/v1/messages":
        is_shaped = document.get("type") == "error" and isinstance(error.get("type"), str)
        lumbre = error.get("lumbre")
        code = lumbre.get("code") if isinstance(lumbre, dict) else error.get("type")
    else:
        is_shaped = isinstance(error.get("type"), str)
        code = error.get("code") or error.get("type")
    if not is_shaped or not isinstance(code, str) or code == "internal":
        return Verdict("wrong", f"{where}: an error of no type: {str(document)[:200]}")
    return Verdict("error", code)


def _is_answer(door: str, document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    if door == "/v1/messages":
        return document.get("stop_reason") is not None and _joined(document.get("content")) == TEXT
    if door == "/v1/responses":
        return document.get("status") == "completed"
    if door == "/v1/embeddings":
        return bool(document.get("data"))
    choice = (document.get("choices") or [{}])[0]
    text = choice.get("text") or (choice.get("message") or {}).get("content")
    return choice.get("finish_reason") == "stop" and text == TEXT


def _joined(content: Any) -> str:
    blocks = content if isinstance(content, list) else []
    return "".join(block.get("text", "") for block in blocks if isinstance(block, dict))


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
