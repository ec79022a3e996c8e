"""What OpenAI's Responses API publishes and this gateway cannot do, or may leave undone. Pure tables; `request` asks.

Whatever stands in neither table and is no field of `request`'s is unpublished, and is the engine's business.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lumbre.wire.openai.fields import Body, Refusal, given, when
from lumbre.wire.responses.items import TEXT_PARTS, kind_of

TAKEN_ITEMS = ("message", "function_call", "function_call_output", "reasoning", "item_reference")
_HOLDERS = {"message": "content", "function_call_output": "output"}
"""The items that have parts, and where."""

LOGPROBS = "message.output_text.logprobs"
INCLUDABLE = (LOGPROBS, "reasoning.encrypted_content", "message.input_image.image_url")
"""What `include` may name. Of these the encrypted reasoning never comes: nobody here has any; clients ask for it in
every request, so as to have it where it exists."""

HINTS: Mapping[str, str] = {
    "background_options": "they are about `background`, which is refused",
    "prompt_cache_options": "engines here cache prompts by themselves",
    "prompt_cache_retention": "engines here cache prompts by themselves",
    "reasoning.summary": "no summaries are made; where an engine tells its reasoning, that comes whole",
    "reasoning.generate_summary": "the older name of the same",
    "input[].content[].prompt_cache_breakpoint": "engines here cache prompts by themselves",
    "input[].phase": "every message of a model is told to the engine alike",
    "tools[].output_schema": "what a tool gives back is between its program and the model",
}
"""Published fields that are left undone in silence: none is missed in the answer."""


def _items(body: Body) -> Iterator[tuple[str, Mapping[str, Any]]]:
    told = body.get("input")
    for i, item in enumerate(told if isinstance(told, list) else ()):
        yield f"input[{i}]", item


def _parts(body: Body) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Every part with its path, and whether it may be an image: the model is told those, and tells none."""
    for place, item in _items(body):
        field = _HOLDERS.get(kind_of(item), "")
        parts = item.get(field)
        for p, part in enumerate(parts if isinstance(parts, list) else ()):
            yield f"{place}.{field}[{p}]", part, field == "content" and item.get("role") != "assistant"


def _foreign_items(body: Body) -> Iterator[str]:
    for place, item in _items(body):
        if kind_of(item) not in TAKEN_ITEMS:
            yield f"{place}.type"


def _foreign_parts(body: Body) -> Iterator[str]:
    for place, part, takes_images in _parts(body):
        is_image = part["type"] == "input_image" and takes_images
        if not is_image and part["type"] not in (*TEXT_PARTS, "refusal"):
            yield f"{place}.type"


def _image_files(body: Body) -> Iterator[str]:
    for place, part, _ in _parts(body):
        if part["type"] == "input_image" and part.get("file_id") is not None:
            yield f"{place}.file_id"


def _foreign_tools(body: Body) -> Iterator[str]:
    for t, tool in enumerate(body.get("tools") or ()):
        if tool["type"] != "function":
            yield f"tools[{t}].type"
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        if choice["type"] not in ("function", "allowed_tools"):
            yield "tool_choice.type"
        for t, tool in enumerate(choice.get("tools") or ()):
            if tool["type"] != "function":
                yield f"tool_choice.tools[{t}].type"


def _tool_extras(body: Body) -> Iterator[str]:
    for t, tool in enumerate(body.get("tools") or ()):
        for field in ("async", "defer_loading"):
            if given(tool.get(field)):
                yield f"tools[{t}].{field}"
        if tool.get("allowed_callers") not in (None, [], ["direct"]):
            yield f"tools[{t}].allowed_callers"


def _includes(body: Body) -> Iterator[str]:
    for i, name in enumerate(body.get("include") or ()):
        if name not in INCLUDABLE:
            yield f"include[{i}]"


_FILES = "no files are kept here; send the image itself as a `data:` URL in `image_url`"
_OTHER_PARTS = "messages take `input_text` and, from a user, `input_image`; a tool's output takes `input_text`"
_RUN_TOOLS = "no tools run here; give a tool of the type `function` and run it in your program"

REFUSALS: Sequence[Refusal] = (
    when("background", given, "a reply ends with its connection; leave it out, and use `stream` for long answers"),
    when("conversation", given, "conversations are not kept as such; use `previous_response_id`"),
    when("prompt", given, "prompt templates are kept at OpenAI; send the text as `instructions` and `input`"),
    when("context_management", given, "nothing is compacted here; send a shorter `input`"),
    when("truncation", lambda v: v not in (None, "disabled"), "nothing is left out in silence; send a shorter `input`"),
    when("max_tool_calls", given, "it is about tools that OpenAI runs, and none run here; leave it out"),
    when("moderation", given, "no moderation model runs here"),
    when("access_programs", given, "there are no access programs here; leave it out"),
    when("image.context_compression", lambda v: v == "enabled", "images go to the engine as they are"),
    when("prompt_cache_options.prewarm", given, "a prompt is only read to be answered; leave it out"),
    when("prompt_cache_options.comparison_response_id", given, "nothing is told of the cache but `cached_tokens`"),
    when("service_tier", lambda v: v not in (None, "auto", "default"), "there is one tier of service; leave it out"),
    when("stream_options.include_obfuscation", given, "the stream is not padded; leave it out"),
    when("reasoning.mode", lambda v: v not in (None, "standard"), "engines here think in one mode"),
    when("reasoning.context", lambda v: v == "all_turns", "the reasoning of earlier turns is not told to the engine"),
    when(
        "text.format.type",
        lambda v: v not in (None, "text", "json_object", "json_schema"),
        "no such format; there are `text`, `json_object` and `json_schema`",
    ),
    Refusal("include", _includes, f"it cannot be had here; there are {', '.join(INCLUDABLE)}"),
    Refusal("tools", _foreign_tools, _RUN_TOOLS),
    Refusal("tools", _tool_extras, "tools are called by the model only, one turn at a time; leave it out"),
    Refusal("input", _foreign_items, f"no such item is known here; there are {', '.join(TAKEN_ITEMS)}"),
    Refusal("input", _image_files, _FILES),
    Refusal("input", _foreign_parts, _OTHER_PARTS),
)
