"""Which fields of Anthropic's API cannot be honoured here, and which are mere hints. Pure tables; `request` asks them.

The other fields that the API publishes are translated (`request.TRANSLATED`). Fields that it does not publish are
ignored: a chat engine might take them for something else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lumbre.wire.anthropic.blocks import Body, Placed, blocks_of
from lumbre.wire.openai.fields import Refusal, given, refuse_unsupported, when

HINTS: Mapping[str, str] = {
    "cache_control": "a chat engine caches prompts by itself; also inside blocks and tools",
    "thinking": "the engine and its template decide whether it thinks, and for how long",
    "output_config.effort": "as `thinking`",
    "output_config.task_budget": "tells the model how long to work; `max_tokens` bounds it",
    "service_tier": "there is one tier of service here",
    "speed": "an engine has one speed",
    "inference_geo": "the answer is made where the gateway sends it",
    "diagnostics": "about the service's own prompt cache",
    "billing_policy": "nothing is billed here",
    "fallback_credit_token": "nothing is billed here",
    "user_profile_id": "there are no user profiles here",
    "workspace_id": "there are no workspaces here",
    "betas": "a list of names; what they bring is looked at field by field",
    "tools.defer_loading": "every tool is shown to the model from the start",
    "tools.eager_input_streaming": "arguments are streamed as they come anyway",
    "tools.input_examples": "chat templates have no place for them",
    "messages.content.caller": "history of who made a call; it was made",
    "context_management.edits.clear_thinking": "thinking never goes back to an engine",
}
"""What a request may say and an engine need not be told, with the reason."""

_BLOCKS = ("text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking")
_WHY: Mapping[str, str] = {
    "document": "documents are not read here; send their text as a text block",
    "search_result": "citations are not made here; send the result's text as a text block",
    "container_upload": "there is no file store here",
    "tool_reference": "there is no search among tools here; list the tools in `tools`",
}
_ELSEWHERE = "it belongs to a tool that the service runs by itself, and none runs here"


def when_block(offends: Callable[[Placed], bool], suffix: str, why: str) -> Refusal:
    """A rule about the blocks of the conversation; `suffix` is the path inside the block."""

    def find(body: Body) -> Iterator[str]:
        return (f"{placed.path}{suffix}" for placed in blocks_of(body) if offends(placed))

    return Refusal("messages", find, why)


def when_tool(offends: Callable[[Mapping[str, Any]], bool], field: str, why: str) -> Refusal:
    """A rule about the tools."""

    def find(body: Body) -> Iterator[str]:
        return (f"tools[{t}].{field}" for t, tool in enumerate(body.get("tools") or ()) if offends(tool))

    return Refusal("tools", find, why)


def _edits(body: Body) -> Iterator[str]:
    edits = (body.get("context_management") or {}).get("edits") or ()
    for e, edit in enumerate(edits):
        if not edit["type"].startswith("clear_thinking_"):
            yield f"context_management.edits[{e}].type"


def _of_type(kind: str) -> Callable[[Placed], bool]:
    return lambda placed: placed.type == kind


def _unknown(placed: Placed) -> bool:
    return placed.type not in _BLOCKS and placed.type not in _WHY


def _file_source(placed: Placed) -> bool:
    return placed.type == "image" and placed.block["source"]["type"] not in ("base64", "url")


def _must_fit(placed: Placed) -> bool:
    wanted = placed.block.get("transformations")
    return placed.type == "image" and isinstance(wanted, Mapping) and wanted.get("oversized_image") == "error"


REFUSALS: Sequence[Refusal] = (
    when("max_tokens", lambda v: v == 0, "an answer of no tokens only warms a cache; ask for 1 or more"),
    when("container", given, "no code runs here"),
    when("mcp_servers", given, "the gateway connects to no tool servers; run them in your program and list `tools`"),
    when("thread", given, "conversations are not stored here; send them whole"),
    when("compaction", given, "conversations are not rewritten here; shorten them in your program"),
    when("fallbacks", given, "what serves when an engine fails is set in the gateway's settings"),
    Refusal("context_management", _edits, "conversations are not rewritten here; shorten them in your program"),
    when_tool(
        lambda tool: tool.get("type") not in (None, "custom"),
        "type",
        "it is defined and in part run by the service; describe it as a tool with an `input_schema`",
    ),
    when_tool(
        lambda tool: "direct" not in (tool.get("allowed_callers") or ("direct",)),
        "allowed_callers",
        "only the model calls tools here, which is the caller `direct`",
    ),
    *(when_block(_of_type(kind), ".type", why) for kind, why in _WHY.items()),
    when_block(_unknown, ".type", _ELSEWHERE),
    when_block(_file_source, ".source.type", "there is no file store here; send `base64` or `url`"),
    when_block(_must_fit, ".transformations.oversized_image", "the engine scales images as it likes"),
    when_block(
        lambda placed: placed.type == "text" and given(placed.block.get("citations")),
        ".citations",
        "an engine knows no citations; leave them out of the history",
    ),
    when_block(
        lambda placed: placed.type in ("tool_use", "tool_result") and given(placed.block.get("toolset_name")),
        ".toolset_name",
        _ELSEWHERE,
    ),
)
"""What is turned down, with the reason."""


def check_supported(body: Body) -> None:
    """Turn down what cannot be honoured in a request whose types have been checked.

    Raises:
        CallerError: 400 `unsupported_field`; names the field and says why.
    """
    refuse_unsupported(body, REFUSALS, "this gateway")
