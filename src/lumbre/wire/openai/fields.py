"""Which fields of OpenAI's API an engine cannot honour, as tables of rules over a request. Pure; the door asks
before any work.

A rule that matches turns the request down with a 400 that names the field. Fields that OpenAI does not publish are
nobody's business here: they pass through to the engine.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lumbre.core.errors import CallerError

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A field, when its value cannot be honoured, and why."""

    field: str
    when: Callable[[Any], bool]
    why: str


def given(value: object) -> bool:
    """The field is there and says something."""
    return value is not None and value is not False and value != [] and value != {}


_TEXT_PARTS = ("text", "refusal")

_OFTEN = (
    Refusal("stream_options.include_obfuscation", given, "the engine does not pad its stream"),
    Refusal(
        "response_format.type",
        lambda v: v not in (None, "text", "json_object", "json_schema"),
        "no such format",
    ),
)

LLAMA_CHAT: Sequence[Refusal] = (
    *_OFTEN,
    Refusal("audio", given, "the engine makes text only"),
    Refusal("modalities", lambda v: given(v) and list(v) != ["text"], "the engine makes text only"),
    Refusal("prediction", given, "the engine takes no predicted output"),
    Refusal("web_search_options", given, "the engine does not search the web"),
    Refusal("moderation", given, "no moderation model runs here"),
    Refusal("functions", given, "superseded by `tools`, which the engine takes"),
    Refusal("function_call", given, "superseded by `tool_choice`, which the engine takes"),
    Refusal("store", given, "nothing is stored here"),
    Refusal("service_tier", lambda v: v in ("flex", "scale", "priority"), "there is one tier of service here"),
    Refusal(
        "verbosity",
        lambda v: v in ("low", "high"),
        "the engine has no such control; ask for it in the prompt",
    ),
)
"""llama.cpp's server, `/v1/chat/completions`."""

LLAMA_COMPLETION: Sequence[Refusal] = (
    *_OFTEN,
    Refusal("suffix", given, "the engine's completions do not fill in the middle"),
    Refusal("echo", given, "the engine does not repeat the prompt"),
    Refusal("best_of", lambda v: given(v) and v != 1, "the engine does not choose among drafts; use `n`"),
    Refusal(
        "logprobs",
        lambda v: v is not None and v is not False,
        "the engine reports them in the chat API's shape only; use /v1/chat/completions",
    ),
)
"""llama.cpp's server, `/v1/completions`."""


def refuse_unsupported(body: Body, refusals: Sequence[Refusal], engine: str) -> None:
    """Turn a request down if a rule matches.

    Raises:
        CallerError: names the field and says why; code `unsupported_field`.
    """
    for rule in refusals:
        if rule.when(_at(body, rule.field)):
            raise _unsupported(rule.field, rule.why, engine)
    if refusals is LLAMA_CHAT:
        for name, why in _unsupported_parts(body):
            raise _unsupported(name, why, engine)


def _unsupported(name: str, why: str, engine: str) -> CallerError:
    return CallerError(f"{name}: {engine} cannot honour this: {why}", param=name, code="unsupported_field")


def _at(body: Body, path: str) -> Any:
    value: Any = body
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _unsupported_parts(body: Body) -> Iterator[tuple[str, str]]:
    for m, message in enumerate(body.get("messages") or ()):
        content = message.get("content")
        for p, part in enumerate(content if isinstance(content, list) else ()):
            kind = part.get("type")
            if kind not in _TEXT_PARTS:
                yield f"messages[{m}].content[{p}].type", f"this model takes text, no {kind}"
    for t, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") != "function":
            yield f"tools[{t}].type", "the engine takes tools of the type `function`"
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("type") != "function":
        yield "tool_choice.type", "the engine takes a choice of the type `function`"
