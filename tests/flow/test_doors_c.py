"""Every door before either API of tier C, with the real SDKs: what leaves the house is a request of the upstream's own
API, and what comes back an answer of the door's.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import anthropic
import openai
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import TypeAdapter

from chat_requests import check_official, drawn_out
from flow.flow_house import KEY, OUTSIDE, Backends, Hit, House, HouseOpener, Json, Layout
from flow.orders import Orders, records_of
from flow.sdk_doors import CLIENTS_KEY, DOORS, PLACE, TOOLS, Ask, sdk_clients

APIS = ("openai", "anthropic")
OWN = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "Idempotency-Key": "once-and-no-more",
    "X-Lumbre-Complexity": "high",
    "X-Lumbre-Class": "interactive",
    "X-Forwarded-For": "10.1.2.3",
    "Cookie": "session=clients",
    "X-Custom": "of-the-client",
}
"""Headers of a client's that are nobody's business outside."""
OPENAI: TypeAdapter[Any] = TypeAdapter(CompletionCreateParams)


@pytest.fixture(scope="module", params=APIS)
def house(request: pytest.FixtureRequest, open_house_for_module: HouseOpener) -> House:
    """Before an outside API of one kind or the other."""
    return open_house_for_module(Layout(b={}, c=request.param, direct=("*",)))


@pytest.fixture(autouse=True)
def _strict(house: House, order: Orders) -> None:
    """The upstream refuses what its vendor would."""
    order.demand(OUTSIDE, house.layout.c or "", KEY)


@pytest.fixture(scope="module")
def ask(house: House) -> Iterator[Ask]:
    yield from sdk_clients(house, OWN)


SCHEMAS: Mapping[str, Json] = {
    "chat": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "place", "strict": True, "schema": PLACE},
        }
    },
    "responses": {"text": {"format": {"type": "json_schema", "name": "place", "strict": True, "schema": PLACE}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": PLACE}}},
}
ENDED = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
ENDED_IN_CALLS = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
each_door = pytest.mark.parametrize("door", DOORS)
each_form = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


def failed(ask: Ask, door: str, stream: bool = False, **asked: Any) -> openai.APIStatusError | anthropic.APIStatusError:
    """The error that the door's SDK raises."""
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        ask(door, stream, **asked)
    assert isinstance(caught.value, openai.APIStatusError | anthropic.APIStatusError)
    return caught.value


def sent_to(backends: Backends, api: str | None) -> Hit:
    """The one request that left the house, once it is seen to be of the upstream's own API."""
    (hit,) = backends.hits()[OUTSIDE]
    body = hit.json()
    if api == "anthropic":
        assert hit.path == "/v1/messages"
        check_official(body)
        assert hit.headers["x-api-key"] == KEY
        assert hit.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in hit.headers
    else:
        assert hit.path == "/v1/chat/completions"
        assert drawn_out(OPENAI.validate_python(body)) == body
        assert hit.headers["authorization"] == f"Bearer {KEY}"
        assert "x-api-key" not in hit.headers
    assert body["model"] == "vast"
    return hit


@each_form
@each_door
def test_a_text_comes_back_with_its_usage(
    ask: Ask, house: House, backends: Backends, order: Orders, door: str, stream: bool
) -> None:
    order(OUTSIDE, text="¿Qué tal? 世界", chunks=4)
    told = ask(door, stream)
    assert told.text == "¿Qué tal? 世界"
    assert told.tokens == (7, 4)
    assert told.ended == ENDED[door]
    assert told.calls == ()
    assert sent_to(backends, house.layout.c).json().get("stream", False) is stream


@each_form
@each_door
def test_nothing_of_the_clients_own_leaves_the_house(
    ask: Ask, house: House, backends: Backends, order: Orders, door: str, stream: bool
) -> None:
    order(OUTSIDE, text="hi")
    ask(door, stream)
    hit = sent_to(backends, house.layout.c)
    told = {name: value for name, value in hit.headers.items() if name not in ("host", "content-length", "accept")}
    own = {"x-api-key", "anthropic-version"} if house.layout.c == "anthropic" else {"authorization"}
    assert told.keys() == {"user-agent", "accept-encoding", "content-type", *own}
    assert told["user-agent"].startswith("lumbre/")
    said = f"{hit.headers} {hit.body}"
    for secret in (CLIENTS_KEY, "4bf92f35", "once-and-no-more", "10.1.2.3", "of-the-client", "session=", 'lumbre"'):
        assert secret not in said, secret


@each_form
@each_door
def test_a_tool_is_called(ask: Ask, house: House, backends: Backends, order: Orders, door: str, stream: bool) -> None:
    order(OUTSIDE, tool_arguments='{"city": "Cádiz"}', chunks=5)
    told = ask(door, stream, tools=TOOLS[door])
    assert told.calls == (("lookup", {"city": "Cádiz"}),)
    assert told.ended == ENDED_IN_CALLS[door]
    (tool,) = sent_to(backends, house.layout.c).json()["tools"]
    assert (tool if house.layout.c == "anthropic" else tool["function"])["name"] == "lookup"


CHAT_RESULT: list[Json] = [
    {"role": "user", "content": "Where?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"city": "Lima"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "12 degrees"},
]
RESPONSES_RESULT: list[Json] = [
    {"role": "user", "content": "Where?"},
    {"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": '{"city": "Lima"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "12 degrees"},
]
MESSAGES_RESULT: list[Json] = [
    {"role": "user", "content": "Where?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "call_1", "name": "lookup", "input": {"city": "Lima"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "12 degrees"}]},
]
WITH_RESULT: Mapping[str, Json] = {
    "chat": {"messages": CHAT_RESULT},
    "responses": {"input": RESPONSES_RESULT},
    "messages": {"messages": MESSAGES_RESULT},
}


@each_form
@each_door
def test_a_tools_result_goes_back(
    ask: Ask, house: House, backends: Backends, order: Orders, door: str, stream: bool
) -> None:
    order(OUTSIDE, text="It is cold.")
    assert ask(door, stream, tools=TOOLS[door], **WITH_RESULT[door]).text == "It is cold."
    question, call, result = sent_to(backends, house.layout.c).json()["messages"]
    assert question["role"] == "user"
    if house.layout.c == "anthropic":
        assert [block for block in call["content"] if block["type"] == "tool_use"] == [
            {"type": "tool_use", "id": "call_1", "name": "lookup", "input": {"city": "Lima"}}
        ]
        (block,) = result["content"]
        assert (result["role"], block["type"], block["tool_use_id"]) == ("user", "tool_result", "call_1")
        assert "12 degrees" in json.dumps(block["content"])
    else:
        (made,) = call["tool_calls"]
        assert (made["id"], json.loads(made["function"]["arguments"])) == ("call_1", {"city": "Lima"})
        assert (result["role"], result["tool_call_id"]) == ("tool", "call_1")
        assert "12 degrees" in json.dumps(result["content"])


@each_form
@each_door
def test_strict_json_may_be_asked_of_the_outside_by_name(
    ask: Ask, house: House, backends: Backends, order: Orders, door: str, stream: bool
) -> None:
    order(OUTSIDE, text='{"city": "Lima"}', chunks=6)
    assert json.loads(ask(door, stream, **SCHEMAS[door]).text) == {"city": "Lima"}
    body = sent_to(backends, house.layout.c).json()
    if house.layout.c == "anthropic":
        assert body["output_config"]["format"] == {"type": "json_schema", "schema": PLACE}
    else:
        assert body["response_format"]["json_schema"]["schema"] == PLACE
        assert body["response_format"]["json_schema"]["strict"] is True


@each_door
def test_json_that_is_not_as_promised_is_no_answer(ask: Ask, order: Orders, door: str) -> None:
    order(OUTSIDE, text='{"town": "Lima"}')
    assert failed(ask, door, **SCHEMAS[door]).status_code == 502


KINDS: Mapping[int, tuple[type[openai.APIStatusError], type[anthropic.APIStatusError]]] = {
    400: (openai.BadRequestError, anthropic.BadRequestError),
    404: (openai.NotFoundError, anthropic.NotFoundError),
    413: (openai.APIStatusError, anthropic.RequestTooLargeError),
    422: (openai.UnprocessableEntityError, anthropic.UnprocessableEntityError),
    429: (openai.RateLimitError, anthropic.RateLimitError),
    500: (openai.InternalServerError, anthropic.InternalServerError),
    529: (openai.InternalServerError, anthropic.OverloadedError),
}


def refused(ask: Ask, door: str, stream: bool, status: int) -> Mapping[str, str]:
    """The headers of an error, once its kind and its body are seen to be the door's."""
    error = failed(ask, door, stream)
    assert isinstance(error, KINDS[status][door == "messages"])
    assert error.status_code == status
    assert "the rogue refuses" in str(error.body)
    if door == "messages":
        assert isinstance(error.body, dict)
        assert error.body["type"] == "error"
    return error.response.headers


@each_form
@each_door
@pytest.mark.parametrize("status", [400, 404, 413, 422, 500])
def test_the_outsides_error_is_told_as_the_doors(
    ask: Ask, house: House, order: Orders, status: int, door: str, stream: bool
) -> None:
    order(OUTSIDE, do="refuse", status=status)
    headers = refused(ask, door, stream, status)
    *_, ended = records_of(house, headers["x-lumbre-decision"])
    assert (ended["status"], ended["cost_microusd"]) == (status, 0)  # nobody charges for a refusal


@each_door
def test_an_error_says_who_gave_it(ask: Ask, order: Orders, door: str) -> None:
    order(OUTSIDE, do="refuse", status=400)
    headers = refused(ask, door, False, 400)
    assert (headers["x-lumbre-tier"], headers["x-lumbre-node"]) == ("C", OUTSIDE)


@pytest.mark.parametrize(
    "door", [pytest.param(door, marks=[pytest.mark.slow] if door == "responses" else []) for door in DOORS]
)
@pytest.mark.parametrize("status", [429, 529])
def test_when_the_outside_wants_to_be_left_alone_the_client_is_told_for_how_long(
    ask: Ask, house: House, order: Orders, status: int, door: str
) -> None:
    order(OUTSIDE, do="refuse", status=status, retry_after="1")
    assert refused(ask, door, status == 529, status)["retry-after"] == "1"
    house.wait_state(OUTSIDE, "ready")


@pytest.mark.parametrize(
    "status",
    [
        400,
        422,
        500,
    ],
)
def test_the_ledger_says_which_status_the_outside_gave(ask: Ask, house: House, order: Orders, status: int) -> None:
    order(OUTSIDE, do="refuse", status=status)
    headers = refused(ask, "chat", False, status)
    assert [each["status"] for each in records_of(house, headers["x-lumbre-decision"], "attempt")] == [status]


@each_door
def test_a_refused_key_is_the_operators_fault_and_not_the_clients(
    ask: Ask, house: House, order: Orders, door: str
) -> None:
    order.demand(OUTSIDE, house.layout.c or "", "another")
    error = failed(ask, door)
    assert error.status_code == 502
    assert "key" in str(error.body)
    assert KEY not in str(error.body)


@each_door
def test_a_stream_that_breaks_outside_ends_in_an_error(ask: Ask, order: Orders, door: str) -> None:
    order(OUTSIDE, do="error_event", chunks=3)
    with pytest.raises((openai.APIError, anthropic.APIError), match="the rogue broke"):
        ask(door, True)
