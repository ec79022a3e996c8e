"""What a Responses request asks of an engine that speaks chat completions, or why it cannot be asked. Pure.

The door asks it before any work is done. A fault is told by the caller's own field.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lumbre.core.errors import CallerError
from lumbre.wire.openai.fields import Body, refuse_unsupported
from lumbre.wire.responses.items import HISTORY, Item, Placed, items_of, kind_of, messages_of, resolved
from lumbre.wire.responses.refusals import HINTS, LOGPROBS, REFUSALS

RENAMED: Mapping[str, str] = {
    "model": "model",
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "user": "user",
    "safety_identifier": "safety_identifier",
    "prompt_cache_key": "prompt_cache_key",
    "lumbre": "lumbre",
    # Not OpenAI's in this API. Local engines know them, and clients of theirs send them.
    "seed": "seed",
    "stop": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "logit_bias": "logit_bias",
}
"""Fields that mean the same under the chat API's name. `max_tokens` is the older of two, and every engine's."""

TURNED = (
    *("input", "instructions", "previous_response_id", "text", "reasoning", "tools", "tool_choice", "top_logprobs"),
    *("include", "stream", "stream_options"),
)
"""Fields that are told to the engine in another form."""

OURS = ("store", "metadata", "truncation", "service_tier", "background")
"""Fields that are the gateway's own; the engine never hears of them."""

_CHATS = frozenset(
    {
        *("messages", "max_tokens", "max_completion_tokens", "response_format", "functions", "function_call", "n"),
        *("logprobs", "reasoning_effort", "verbosity", "modalities", "audio", "prediction", "web_search_options"),
    }
)
"""The chat API's fields that another field says here. Under these names they are nobody's."""

_NOTHING = "there is nothing to answer; say it as a text or as items"


def to_chat(body: Body, history: Sequence[Item] = (), known: Mapping[str, Item] | None = None) -> dict[str, Any]:
    """Turn a request into the chat completion that an engine is asked for.

    Args:
        body: a request whose types have been checked.
        history: input and output items of the responses before it, oldest first. Their instructions are none of it.
        known: kept items by id, for the references in `input`; see `references`.

    Raises:
        CallerError: 400 `unsupported_field`, `missing_field`, `invalid_value`, `item_not_found`; names the field.
    """
    refuse_unsupported(body, REFUSALS, "the gateway")
    for field, code, message in _faults(body):
        raise CallerError(f"{field}: {message}", param=field, code=code)
    chat = {key: value for key, value in body.items() if _is_the_engines(key)}
    chat |= {name: body[field] for field, name in RENAMED.items() if body.get(field) is not None}
    chat["messages"] = [each.told for each in conversation(body, history, known)]
    if not chat["messages"]:
        raise CallerError(f"input: {_NOTHING}", param="input", code="missing_field")
    chat |= _wanted_text(body.get("text") or {})
    chat |= _wanted_tools(body)
    chat |= _wanted_logprobs(body)
    if (effort := (body.get("reasoning") or {}).get("effort")) is not None:
        chat["reasoning_effort"] = effort
    if body.get("stream"):
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    return chat


def conversation(body: Body, history: Sequence[Item] = (), known: Mapping[str, Item] | None = None) -> list[Placed]:
    """The chat messages, each with the place it comes from in the caller's request.

    Raises:
        CallerError: see `to_chat`.
    """
    messages = []
    if (instructions := body.get("instructions")) is not None:
        messages.append(Placed({"role": "system", "content": instructions}, "instructions"))
    heard = {item.get("id") for item in history}
    # What the history has is not told twice.
    now = [each for each in items_of(body) if kind_of(each.told) != "item_reference" or each.told["id"] not in heard]
    earlier = [Placed(item, HISTORY) for item in history]
    return messages + messages_of([*earlier, *resolved(now, known or {})])


def references(body: Body) -> list[str]:
    """The ids of the kept items that the request refers to."""
    told = body.get("input")
    items = told if isinstance(told, list) else []
    return [item["id"] for item in items if kind_of(item) == "item_reference"]


def sent_tools(body: Body) -> list[int]:
    """Which of the request's tools the engine hears of, by their index: all, or those that the choice allows."""
    tools = body.get("tools") or ()
    choice = body.get("tool_choice")
    if not isinstance(choice, Mapping) or choice["type"] != "allowed_tools":
        return list(range(len(tools)))
    allowed = {tool.get("name") for tool in choice.get("tools") or ()}
    return [t for t, tool in enumerate(tools) if tool["name"] in allowed]


def _is_the_engines(key: str) -> bool:
    from_tables = key in RENAMED or key in TURNED or key in OURS or key in _CHATS
    return not from_tables and key not in _SETTLED


_SETTLED = frozenset(field.partition(".")[0] for field in (*(rule.field for rule in REFUSALS), *HINTS))
"""Published fields that were refused if they asked for something; what is left of them says nothing."""


def _faults(body: Body) -> Iterator[tuple[str, str, str]]:
    if body.get("input") in (None, []) and body.get(HISTORY) is None:
        yield "input", "missing_field", _NOTHING
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        for field in ("name", "schema"):
            if not form.get(field):
                yield f"text.format.{field}", "missing_field", "this format needs it"
    yield from _tool_faults(body)


def _tool_faults(body: Body) -> Iterator[tuple[str, str, str]]:
    names = set()
    for t, tool in enumerate(body.get("tools") or ()):
        if tool.get("name") is None:
            yield f"tools[{t}].name", "missing_field", "a tool of the type `function` needs it, beside its `type`"
        names.add(tool.get("name"))
    choice = body.get("tool_choice")
    if choice == "required" and not names:
        yield "tool_choice", "invalid_value", "a call is required, and there are no tools"
    if not isinstance(choice, Mapping):
        return
    if choice["type"] == "function" and choice.get("name") is None:
        yield "tool_choice.name", "missing_field", "a choice of the type `function` needs it, beside its `type`"
    elif choice["type"] == "function" and choice["name"] not in names:
        yield "tool_choice.name", "invalid_value", "there is no such tool among `tools`"
    if choice["type"] == "allowed_tools":
        for field in ("mode", "tools"):
            if not choice.get(field):
                yield f"tool_choice.{field}", "missing_field", "a choice of the type `allowed_tools` needs it"
        for t, tool in enumerate(choice.get("tools") or ()):
            if tool.get("name") not in names:
                yield f"tool_choice.tools[{t}].name", "invalid_value", "there is no such tool among `tools`"


def _wanted_text(text: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {} if text.get("verbosity") is None else {"verbosity": text["verbosity"]}
    form = text.get("format") or {}
    if form.get("type") == "json_schema":
        schema = {key: form[key] for key in ("name", "description", "schema", "strict") if form.get(key) is not None}
        return {**wanted, "response_format": {"type": "json_schema", "json_schema": schema}}
    if form.get("type") == "json_object":
        return {**wanted, "response_format": {"type": "json_object"}}
    return wanted


def _wanted_tools(body: Body) -> dict[str, Any]:
    sent = sent_tools(body)
    if not sent:
        return {}
    wanted: dict[str, Any] = {"tools": [_chat_tool(body["tools"][t]) for t in sent]}
    match body.get("tool_choice"):
        case None:  # 1. left to the engine
            return wanted
        case str(word):  # 2. a word that both APIs have
            return {**wanted, "tool_choice": word}
        case {"type": "allowed_tools", "mode": mode}:  # 3. the choice has been made among the tools that are sent
            return {**wanted, "tool_choice": mode}
        case choice:  # 4. one tool
            return {**wanted, "tool_choice": {"type": "function", "function": {"name": choice["name"]}}}


def _chat_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    # OpenAI takes a tool that says nothing for strict. Here that would be a demand which small models cannot keep, and
    # a client that did not make it would be turned down: a tool is strict when it says so.
    fields = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {key: tool[key] for key in fields if tool.get(key) is not None}}


def _wanted_logprobs(body: Body) -> dict[str, Any]:
    top = body.get("top_logprobs")
    if LOGPROBS not in (body.get("include") or ()) and not top:
        return {}
    return {"logprobs": True} if top is None else {"logprobs": True, "top_logprobs": top}
