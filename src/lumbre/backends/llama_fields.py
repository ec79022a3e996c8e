"""Which fields of OpenAI's API llama.cpp's server cannot honour. A pure table; `traits` hands it out."""

from collections.abc import Sequence

from lumbre.wire.openai.fields import Refusal, given, when, when_part, when_tool

_BOTH = (
    when("stream_options.include_obfuscation", given, "the engine does not pad its stream"),
    when("response_format.type", lambda v: v not in (None, "text", "json_object", "json_schema"), "no such format"),
)

CHAT: Sequence[Refusal] = (
    *_BOTH,
    when("audio", given, "the engine makes text only"),
    when("modalities", lambda v: given(v) and list(v) != ["text"], "the engine makes text only"),
    when("prediction", given, "the engine takes no predicted output"),
    when("web_search_options", lambda v: v is not None, "the engine does not search the web"),
    when("moderation", given, "no moderation model runs here"),
    when("functions", given, "superseded by `tools`, which the engine takes"),
    when("function_call", given, "superseded by `tool_choice`, which the engine takes"),
    when("store", given, "nothing is stored here"),
    when("service_tier", lambda v: v in ("flex", "scale", "priority"), "there is one tier of service here"),
    when("verbosity", lambda v: v in ("low", "high"), "the engine has no such control; ask for it in the prompt"),
    when_part(lambda kind: kind not in ("text", "refusal", "image_url"), "it is given text and images only"),
    when_tool(lambda kind: kind != "function", "the engine takes tools of the type `function`"),
)
"""`/v1/chat/completions`."""

COMPLETION: Sequence[Refusal] = (
    *_BOTH,
    when("suffix", given, "the engine's completions do not fill in the middle"),
    when("echo", given, "the engine does not repeat the prompt"),
    when("best_of", lambda v: given(v) and v != 1, "the engine does not choose among drafts; use `n`"),
    when(
        "logprobs",
        lambda v: v is not None and v is not False,
        "the engine reports them in the chat API's shape only; use /v1/chat/completions",
    ),
)
"""`/v1/completions`."""

EMBEDDINGS: Sequence[Refusal] = (
    when("dimensions", given, "its vectors have the length that the model gives them; leave `dimensions` out"),
)
"""`/v1/embeddings`."""
