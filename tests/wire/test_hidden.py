"""What is found goes out nowhere but at the few places that are left alone, however deep it stands."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from lumbre.wire.openai.hidden import hide_request

MAIL, CARD = "ana@x.com", 4111111111111111
BASE_64 = "QUJD" * 100


def hide(texts: Sequence[str]) -> list[str]:
    return [text.replace(MAIL, "<A_1>").replace(str(CARD), "<A_2>") for text in texts]


def schema_of(word: str, card: Any) -> dict[str, Any]:
    return {
        "type": ["object", MAIL],
        "required": [MAIL],
        "$ref": f"#/$defs/{MAIL}",
        "$id": word,
        "maximum": CARD,
        "dependentRequired": {MAIL: [MAIL]},
        "const": card,
        "default": {"type": word, "required": [word], "pattern": word, word: {"properties": {word: card}}},
        "examples": [{"type": word}, word, card],
        "x-vendor": {"type": word},
        "properties": {
            "type": {"type": "string", "pattern": word, "enum": [word, 1], "description": word},
            MAIL: {"$ref": f"https://{word}/", "items": [{"title": word, "properties": {MAIL: {"const": word}}}]},
            "default": {"required": [MAIL]},
        },
        "anyOf": [{"required": [MAIL], "format": word}],
    }


def turns_of(word: str, card: Any, arguments: str) -> list[dict[str, Any]]:
    called = {"name": MAIL, "arguments": arguments, "of": word}
    return [
        {"role": "system", "content": f"You are {word}.", "reasoning_details": [{"type": word, "data": [card]}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": word, word: word},
                {"type": "thinking", "thinking": word, "signature": word},
                {"type": "image_url", "image_url": {"url": f"https://x.com/i.png?mail={word}", "of": word}},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BASE_64}"}},
                {"type": "input_audio", "input_audio": {"data": BASE_64, "format": "wav"}},
                {"type": "file", "file": {"filename": word, "file_id": MAIL}},
            ],
            "annotations": {word: [[word]]},
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": word,
            "tool_calls": [
                {"id": MAIL, "type": "function", "index": 0, "function": called},
                {"id": MAIL, "type": "custom", "custom": {"name": MAIL, "input": word}},
            ],
        },
        {"role": "tool", "tool_call_id": MAIL, "name": "lookup", "content": f"{word} found"},
        {"role": "assistant", "content": "", "refusal": word, "function_call": called},
    ]


def request(word: str, card: Any, arguments: str) -> dict[str, Any]:
    """With words everywhere; `ana@x.com` stands for itself where nothing may be hidden."""
    schema = schema_of(word, card)
    return {
        "model": MAIL,
        "temperature": 0.5,
        "seed": CARD,
        "stream": True,
        "n": None,
        "messages": turns_of(word, card, arguments),
        "tools": [
            {"type": "function", "function": {"name": MAIL, "description": word, "parameters": schema, "of": word}},
            {
                "type": "custom",
                "custom": {"name": MAIL, "format": {"type": "grammar", "grammar": {"definition": word}}},
            },
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": MAIL}}]},
            "of": word,
        },
        "functions": [{"name": MAIL, "parameters": schema}],
        "function_call": {"name": MAIL},
        "response_format": {"type": "json_schema", "json_schema": {"name": MAIL, "schema": schema, "of": word}},
        "prediction": {"type": "content", "content": word},
        "stop": [word, "x"],
        "user": word,
        "metadata": {word: word, "card": card},
        "prompt_cache_key": word,
        "web_search_options": {"user_location": {"approximate": {"city": word}}},
        "chat_template_kwargs": {"documents": [word, [card, {"properties": word}]]},
        "guided_json": {"properties": {word: {"default": card}}, "required": [word]},
        "an_invention": card,
    }


def test_all_is_hidden_but_what_is_left_alone() -> None:
    body = request(MAIL, CARD, f'{{"to": "{MAIL}", "{MAIL}": [{CARD}]}}')
    before = orjson.dumps(body)
    assert hide_request(body, hide) == request("<A_1>", "<A_2>", '{"to": "<A_1>", "<A_1>": ["<A_2>"]}')
    assert orjson.dumps(body) == before


def test_a_request_without_anything_to_hide_stays_the_same_to_the_byte() -> None:
    body = request("word", 12.50, '{ "to":\n1.50}')
    body["logit_bias"] = {"50256": -100}
    assert orjson.dumps(hide_request(body, hide)) == orjson.dumps(body)


def test_every_text_is_asked_for_once_and_in_its_order() -> None:
    asked: list[Sequence[str]] = []

    def listen(texts: Sequence[str]) -> Sequence[str]:
        asked.append(texts)
        return texts

    turns = [{"role": "user", "content": text} for text in ("a", "b", "a")]
    hide_request({"messages": turns, "user": "c"}, listen)
    assert [text for text in asked[0] if len(text) == 1] == ["a", "b", "c"]
    assert len(asked) == 1


def test_a_name_that_no_placeholder_can_stand_for_is_left_out() -> None:
    turns = [{"role": "user", "name": MAIL, "content": "x"}, {"role": "user", "name": "ana", "content": "x"}]
    hidden = hide_request({"messages": turns}, hide)["messages"]
    assert hidden == [{"role": "user", "content": "x"}, turns[1]]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("model", [{"of": MAIL}]),
        ("tool_choice", {"function": {"name": {"name": MAIL}}}),
        ("temperature", MAIL),
        ("logit_bias", {MAIL: 1}),
        ("response_format", {"type": {"type": MAIL}}),
        ("tools", [{"function": {"parameters": {"required": {"of": MAIL}, "properties": [[MAIL]]}}}]),
        ("messages", MAIL),
    ],
)
def test_what_is_of_another_shape_is_hidden_at_a_place_that_is_left_alone(place: str, words: Any) -> None:
    assert MAIL.encode() not in orjson.dumps(hide_request({place: words}, hide))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"data:image/png;name={MAIL};base64,{BASE_64}", f"data:image/png;name=<A_1>;base64,{BASE_64}"),
        (f"data:text/plain,{MAIL}", "data:text/plain,<A_1>"),
        (f"data:text/plain;base64,{MAIL}", "data:text/plain;base64,<A_1>"),
        (f"data:image/png;base64,{BASE_64}={CARD}", f"data:image/png;base64,{BASE_64}=<A_2>"),
        (str(CARD), "<A_2>"),
        (f"data:image/png;base64,{CARD}", f"data:image/png;base64,{CARD}"),
    ],
)
def test_of_an_address_with_data_only_base64_is_left(url: str, expected: str) -> None:
    for field in ({"image_url": {"url": url}}, {"image_url": url}, {"file": {"file_data": url}}):
        hidden = hide_request({"messages": [{"role": "user", "content": [field]}]}, hide)
        changed = orjson.dumps(field).replace(url.encode(), expected.encode())
        assert orjson.dumps(hidden["messages"][0]["content"][0]) == changed


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (f"of {MAIL}", "of <A_1>"),
        ([MAIL, "b"], ["<A_1>", "b"]),
        ([CARD, 2], [CARD, 2]),
        ([[1], [CARD]], [[1], [CARD]]),
    ],
)
def test_a_prompt_is_hidden_in_each_of_its_forms(prompt: Any, expected: Any) -> None:
    body = {"model": "m", "prompt": prompt, "suffix": MAIL}
    assert hide_request(body, hide) == {"model": "m", "prompt": expected, "suffix": "<A_1>"}


@pytest.mark.parametrize("name", ["tools", "documents"])
def test_it_is_hidden_as_deep_as_a_parser_lets_it_stand(name: str) -> None:
    value: Any = MAIL
    for _ in range(5000):
        value = {"not": [value]}
    hidden = hide_request({name: [{"function": {"parameters": value}}]}, hide)[name][0]["function"]["parameters"]
    for _ in range(5000):
        hidden = hidden["not"][0]
    assert hidden == "<A_1>"
