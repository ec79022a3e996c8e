"""Which misbehaviour a request asks for, read from its own body. Pure; driven by `rogue.server`."""

import json
from dataclasses import dataclass, fields
from typing import Any

from lumbre.backends.fakes.rogue.whisper import wished

MODEL_PREFIX = "rogue-"


class WishError(ValueError):
    """The `rogue` object asks for something there is not; the message names it."""


@dataclass(frozen=True)
class Wish:
    """The `rogue` object of a request; every key may be left out."""

    do: str = "answer"
    """A key of `rogue.acts.ACTS`."""
    id: str = ""
    """Names the exchange under `/rogue/`; unique per request."""
    chunks: int = 3
    """Pieces the text is sent in."""
    text: str = ""
    """What to say; empty: `word0 word1 …`, one word a chunk."""
    tool_arguments: str = ""
    """Not empty: the answer is one tool call with these arguments, in `chunks` fragments."""
    pause_s: float = 0.0
    """Between two writes."""
    silent_s: float = 0.0
    """Before the first byte that the act is about."""
    hold: bool = False
    """Wait for `POST /rogue/release` before each write of the body."""
    split: str = "events"
    """Writes of a stream: `events` one each, `joined` all in one, `bytes` one HTTP chunk a byte, `wire` one
    TCP write a byte, `cut` two HTTP chunks that meet at byte `at`."""
    at: int = 0
    newline: str = "\n"
    comments: bool = False
    vendor: bool = False
    """Fields that OpenAI does not publish, multi-line data, ids and numbers in unusual spelling."""
    cookies: bool = False
    usage: bool = True
    finished: bool = False
    """For `cut`: say `finish_reason` before the cut."""
    reset: bool = False
    """For `cut`: TCP RST instead of FIN."""
    honest: bool = False
    """For `truncated`: the Content-Length tells the truncated length, not the whole one."""
    bare: bool = False
    """For `error_event` and `cut`: nothing of the answer comes before."""
    retry_after: str = ""
    """For `refuse`: what `Retry-After` says; empty: there is none."""
    status: int = 500
    size_bytes: int = 100_000_000


@dataclass(frozen=True)
class Ask:
    """What the rogue understood of a request's body."""

    wish: Wish
    stream: bool = False
    include_usage: bool = False


_KINDS: dict[str, type | tuple[type, ...]] = {
    field.name: (int, float) if isinstance(field.default, float) else type(field.default) for field in fields(Wish)
}


def read_ask(body: bytes) -> Ask:
    """Read the body of a generation request; a body that is no JSON object is answered like any other.

    Raises:
        WishError: the `rogue` object has a key or a value that means nothing.
    """
    try:
        whole = json.loads(body)
    except ValueError:
        return Ask(Wish())
    if not isinstance(whole, dict):
        return Ask(Wish())
    options = whole.get("stream_options")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    return Ask(_read_wish(whole), stream=whole.get("stream") is True, include_usage=usage)


def _read_wish(whole: dict[str, Any]) -> Wish:
    asked = checked(wished(whole))
    model = whole.get("model")
    by_name = {"do": model.removeprefix(MODEL_PREFIX)} if isinstance(model, str) and MODEL_PREFIX in model else {}
    return Wish(**{**by_name, **asked})


def checked(asked: object) -> dict[str, Any]:
    """A wish as it was written, once it is known to mean something.

    Raises:
        WishError: it does not.
    """
    if not isinstance(asked, dict):
        raise WishError("`rogue` must be an object")
    for key, value in asked.items():
        if key not in _KINDS:
            raise WishError(f"`rogue.{key}` means nothing; there are {', '.join(_KINDS)}")
        if not isinstance(value, _KINDS[key]) or (isinstance(value, bool) and _KINDS[key] is not bool):
            raise WishError(f"`rogue.{key}` cannot be {value!r}")
    return asked
