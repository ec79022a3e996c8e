"""Which chat requests an upstream of the Messages API cannot honour, and what of the others it is not told."""

from typing import Any

import pytest
from openai.types.chat import completion_create_params as chat_params

from chat_requests import DATA, HELLO, asking, calling, result, shown, text, told
from lumbre.api.openai_schema import CHAT_REQUEST, check
from lumbre.core.errors import CallerError
from lumbre.wire.anthropic.chat_fields import HINTS, REFUSALS
from lumbre.wire.anthropic.from_chat import TRANSLATED, cannot, to_messages

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (asking(n=2), "n"),
        (asking(logprobs=True), "logprobs"),
        (asking(top_logprobs=2), "top_logprobs"),
        (asking(logit_bias={"5": 1}), "logit_bias"),
        (asking(seed=0), "seed"),
        (asking(presence_penalty=0.1), "presence_penalty"),
        (asking(frequency_penalty=-1), "frequency_penalty"),
        (asking(audio={"voice": "x"}), "audio"),
        (asking(modalities=["text", "audio"]), "modalities"),
        (asking(response_format={"type": "json_object"}), "response_format.type"),
        (asking(web_search_options={}), "web_search_options"),
        (asking(functions=[{"name": "f"}]), "functions"),
        (asking(store=True), "store"),
        (asking(service_tier="flex"), "service_tier"),
        (asking(verbosity="low"), "verbosity"),
        (asking(stream_options={"include_obfuscation": True}), "stream_options.include_obfuscation"),
        (asking(stop=["x", "\n"]), "stop"),
        (asking(temperature=0.5, top_p=0.5), "top_p"),
        (asking(HELLO, {"role": "function", "name": "f", "content": "x"}), "messages[1].role"),
        (asking({"role": "user", "content": [{"type": "input_audio"}]}), "messages[0].content[0].type"),
        (asking({"role": "system", "content": [shown(DATA)]}), "messages[0].content[0].type"),
        (asking(HELLO, {"role": "assistant", "content": [text("a"), shown(DATA)]}), "messages[1].content[1].type"),
        (
            asking({"role": "user", "content": [shown("data:image/tiff;base64,AA==")]}),
            "messages[0].content[0].image_url.url",
        ),
        (asking({"role": "user", "content": [shown("data:image/png,AA==")]}), "messages[0].content[0].image_url.url"),
        (
            asking({"role": "user", "content": [shown("data:image/png;base64,")]}),
            "messages[0].content[0].image_url.url",
        ),
        (asking({"role": "user", "content": [shown("ftp://x/y.png")]}), "messages[0].content[0].image_url.url"),
        (asking({"role": "user", "content": [shown(7)]}), "messages[0].content[0].image_url.url"),
        (asking({"role": "user", "content": [{"type": "image_url"}]}), "messages[0].content[0].image_url.url"),
        (asking(tools=[{"type": "custom", "custom": {"name": "x"}}]), "tools[0].type"),
        (asking(HELLO, {"role": "assistant", "audio": {"id": "a"}}), "messages[1].audio"),
        (asking(HELLO, {"role": "assistant", "function_call": {"name": "f"}}), "messages[1].function_call"),
        (asking(HELLO, {"role": "assistant", "tool_calls": [{"id": "a"}]}), "messages[1].tool_calls[0].function"),
        (asking(HELLO, {"role": "assistant", "tool_calls": [{"type": "custom"}]}), "messages[1].tool_calls[0].type"),
        (
            asking(HELLO, calling("a", arguments='{"x'), result("a")),
            "messages[1].tool_calls[0].function.arguments",
        ),
        (asking(HELLO, calling("a", arguments="[1]"), result("a")), "messages[1].tool_calls[0].function.arguments"),
        (asking(HELLO, calling("a", "b"), result("a"), HELLO), "messages[1].tool_calls[1]"),
        (asking(HELLO, calling("a")), "messages[1].tool_calls[0]"),
        (asking(HELLO, calling("a"), HELLO, {"role": "assistant"}, result("a")), "messages[1].tool_calls[0]"),
        (asking(HELLO, result("a")), "messages[1].tool_call_id"),
        (asking(HELLO, calling("a"), result("a"), result("a")), "messages[3].tool_call_id"),
        (asking({"role": "user", "content": ""}, {"role": "assistant", "refusal": [{}]}), "messages"),
    ],
)
def test_what_the_api_cannot_honour_is_refused_by_name(body: Json, field: str) -> None:
    check(body, CHAT_REQUEST)
    error = cannot(body)
    assert error is not None
    assert (error.status, error.code, error.param) == (400, "unsupported_field", field)
    with pytest.raises(CallerError) as caught:
        to_messages(body, model="m")
    assert (caught.value.code, caught.value.param) == (error.code, error.param)


def test_what_makes_no_sense_is_refused_as_at_the_door() -> None:
    error = cannot(asking(response_format={"type": "json_schema"}))
    assert error is not None
    assert (error.code, error.param) == ("missing_field", "response_format.json_schema.schema")


def test_hints_and_fields_that_nobody_published_are_left_out() -> None:
    hinting = asking(
        {**HELLO, "name": "Ada"},
        {"role": "assistant", "content": "a", "reasoning_content": "hm"},
        HELLO,
        prompt_cache_key="k",
        prompt_cache_options={"mode": "explicit"},
        prompt_cache_retention="24h",
        lumbre={"tier": "C"},
        metadata={"a": "b"},
        reasoning_effort="high",
        prediction={"type": "content", "content": "x"},
        min_p=0.1,
        top_k=5,
    ) | {"n": 1, "presence_penalty": 0, "logprobs": False, "modalities": ["text"], "service_tier": "auto"}
    assert told(hinting) == told(asking(HELLO, {"role": "assistant", "content": "a"}, HELLO))


def test_each_field_that_is_published_is_translated_refused_or_a_hint() -> None:
    published = {*chat_params.CompletionCreateParamsBase.__annotations__, "stream"}
    refused = {rule.field.partition(".")[0] for rule in REFUSALS} - {*TRANSLATED}
    assert published == {*TRANSLATED} | refused | {name for name in HINTS if "." not in name} - {"lumbre"}
    assert not refused & HINTS.keys()
